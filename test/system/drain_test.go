package system_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"waypost/api"
	"waypost/client"
	"waypost/test/devtest"
)

func TestEdge_DrainsByOrderAndServesOn(t *testing.T) {
	t.Parallel()
	s := oneEdge.For(t)
	c, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	link, _, err := c.Links.Make(t.Context(), client.NewLink{OriginalURL: "https://example.com/"}, client.Write{Wait: "all"})
	require.NoError(t, err)
	edge := s.State().Edges[0]
	shows := func(draining bool) {
		t.Helper()
		eventually(t, time.Minute, "shown in the fleet view", func() bool {
			e := fleetOf(t, c)[edge.Node]
			return e.State == "alive" && e.Draining == draining
		})
		require.Equal(t, http.StatusFound, status(t, edge.URL+"/"+link.ShortCode), "it serves in any case")
	}
	shows(false)
	run := func(args ...string) {
		t.Helper()
		r := devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, append([]string{"edges", "drain", edge.Node}, args...)...)
		require.Zero(t, r.Code, r.Stdout+r.Stderr)
	}
	run()
	res, err := visitor.Get(edge.AdminURL + "/readyz")
	require.NoError(t, err)
	var ready struct{ Status string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&ready))
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Equal(t, "draining", ready.Status)
	shows(true)
	run("--undo")
	require.Equal(t, http.StatusOK, status(t, edge.AdminURL+"/readyz"))
	shows(false)
}

// A console changes the links that were selected one by one.
func TestAPI_TakesManyChangesInParallel(t *testing.T) {
	t.Parallel()
	s := oneEdge.For(t)
	c, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	wishes := make([]client.NewLink, 300)
	for i := range wishes {
		wishes[i].OriginalURL = "https://example.com/"
	}
	made, err := c.Links.CreateBulk(t.Context(), wishes)
	require.NoError(t, err)
	var changes errgroup.Group
	changes.SetLimit(6)
	for _, m := range made {
		changes.Go(func() error {
			_, _, err := c.Links.Change(t.Context(), m.ShortCode, client.LinkChange{Title: api.Set("new")}, client.Write{})
			return err
		})
	}
	require.NoError(t, changes.Wait())
}
