package controlplane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

func TestLinks_DryRunHasTheOutcomesOfARunAndWritesNothing(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("taken")))
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("gone")))
	require.NoError(t, err)
	_, err = s.Links.Remove(t.Context(), actor, "", "gone")
	require.NoError(t, err)
	minted, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	yes := true
	same := func(url string) func(*controlplane.NewLink) {
		return func(n *controlplane.NewLink) { n.OriginalURL, n.Dedupe = url, &yes }
	}
	_, _, err = s.Links.Create(t.Context(), actor, wish(same("https://example.com/there")))
	require.NoError(t, err)
	head, err := s.db.Head(t.Context())
	require.NoError(t, err)
	wishes := []controlplane.NewLink{
		wish(), wish(custom("fresh")), wish(custom("fresh")), wish(custom("taken")), wish(custom("gone")), wish(custom("api")),
		wish(custom(string(minted.Code))), wish(func(n *controlplane.NewLink) { n.OriginalURL = "http://localhost/" }),
		wish(func(n *controlplane.NewLink) { n.Domain = "theirs.example" }),
		wish(same("https://example.com/there")), wish(same("https://example.com/new")), wish(same("https://example.com/new")),
		wish(aliased("box1")), wish(custom("boxed"), aliased("box2", "box1")), wish(custom("box3"), aliased("taken")), wish(aliased("gone")),
		wish(aliased(string(minted.Code))), wish(custom("fine"), aliased("fine1", "fine2")),
		wish(aliased("early")), wish(custom("early")), wish(custom("late")), wish(aliased("late")), wish(custom("self"), aliased("self")),
	}
	dry, err := s.Links.DryRun(t.Context(), actor, wishes)
	require.NoError(t, err)
	after, err := s.db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, head.Position, after.Position)
	var n int
	require.NoError(t, s.hand.QueryRow(t.Context(), `SELECT count(*) FROM link`).Scan(&n))
	require.Equal(t, 4, n)

	real, _, err := s.Links.CreateBulk(t.Context(), actor, wishes)
	require.NoError(t, err)
	for i := range wishes {
		require.Equal(t, real[i].Found, dry[i].Found, i)
		require.Equal(t, waypost.CodeOf(real[i].Err), waypost.CodeOf(dry[i].Err), "%d: %v, %v", i, real[i].Err, dry[i].Err)
		if real[i].Err != nil {
			require.Equal(t, real[i].Err.Error(), dry[i].Err.Error())
		}
	}
	require.NoError(t, dry[0].Err)
	require.NoError(t, dry[1].Err)
	require.NoError(t, dry[12].Err)
	require.ErrorContains(t, dry[13].Err, `"box1"`)
	require.ErrorContains(t, dry[14].Err, `"taken"`)
	require.NoError(t, dry[17].Err)
	require.NoError(t, dry[18].Err)
	require.ErrorContains(t, dry[19].Err, "is an alias")
	require.ErrorContains(t, dry[21].Err, `"late"`)
}
