package edgecredentials_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

// failover bounds the time until an edge follows another control plane, which is a second
// on a quiet machine and more on one that runs other tests too.
const failover = 10 * time.Second

// Each of two control planes is killed in turn. Writes through the other one, and edges'
// clicks and reports, go on at once.
func TestEdge_FollowsTheControlPlaneThatIsLeft(t *testing.T) {
	database, root := databases.Database(t), t.TempDir()
	control := func(node string) *devtest.Control {
		t.Helper()
		c, err := devtest.StartControl(t, devtest.ControlConfig{
			Database: database, DataDir: filepath.Join(root, node, "data"), Region: "eu-west-1", Node: node,
		})
		require.NoError(t, err)
		ready, err := c.Ready()
		require.NoError(t, err)
		require.True(t, ready, c.Output())
		return c
	}
	one, two := control("one"), control("two")
	var first atomic.Pointer[devtest.Control] // behind an address that survives it
	first.Store(one)
	wire := replicationtest.NewWire(t, func() string { return strings.TrimPrefix(first.Load().API, "http://") })
	e, err := devtest.StartEdge(t, devtest.EdgeConfig{
		Control: wire.URL() + "," + two.API, DataDir: filepath.Join(root, "edge"), Region: "eu-west-1", Node: "eu-1",
	})
	require.NoError(t, err)
	ready, err := e.Ready()
	require.NoError(t, err)
	require.True(t, ready, e.Output())

	// ask sends a request and returns the answer's status, header and body.
	ask := func(method, url, body string) (int, http.Header, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode, res.Header, text
	}
	const everywhere = "all; edges=1"
	// works writes through a control plane, and returns false while it does not reach the
	// edge.
	works := func(through *devtest.Control) bool {
		status, header, text := ask(http.MethodPost, through.API+"/api/v1/urls?wait=all", `{"original_url": "https://example.com/"}`)
		if status == http.StatusServiceUnavailable { // it was just started, and waits for the edge before it issues a key
			return false
		}
		require.Equal(t, http.StatusCreated, status, "%s", text)
		if header.Get("Waypost-Applied") != everywhere {
			return false
		}
		var made struct {
			Code string `json:"short_code"`
		}
		require.NoError(t, json.Unmarshal(text, &made))
		status, _, _ = ask(http.MethodGet, "http://"+e.Addr+"/"+made.Code, "")
		require.Equal(t, http.StatusFound, status)
		status, header, text = ask(http.MethodDelete, through.API+"/api/v1/urls/"+made.Code+"?wait=all", "")
		require.Equal(t, http.StatusNoContent, status, "%s", text)
		if header.Get("Waypost-Applied") != everywhere {
			return false
		}
		status, _, _ = ask(http.MethodGet, "http://"+e.Addr+"/"+made.Code, "")
		require.Equal(t, http.StatusGone, status)
		return true
	}
	within := func(limit time.Duration, through *devtest.Control) {
		t.Helper()
		began := time.Now()
		require.Eventually(t, func() bool { return works(through) }, time.Minute, 10*time.Millisecond)
		t.Logf("written through %s after %v", through.Node, time.Since(began))
		require.Less(t, time.Since(began), limit)
	}
	within(time.Minute, one)
	within(time.Minute, two) // both know the edge by its reports

	one.Kill()
	within(failover, two)
	first.Store(control("one"))
	within(time.Minute, first.Load())
	two.Kill()
	within(failover, first.Load())

	require.Eventually(t, func() bool {
		_, _, text := ask(http.MethodGet, first.Load().API+"/api/admin/edges", "")
		var fleet struct{ Edges []api.Edge }
		require.NoError(t, json.Unmarshal(text, &fleet))
		require.Len(t, fleet.Edges, 1)
		pending := fleet.Edges[0].ClicksPending
		return pending != nil && *pending == 0
	}, time.Minute, 100*time.Millisecond, "all clicks are counted")
}
