package controlplane_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// crossing is a Store that has single clicks of a link.
type crossing struct {
	counts
	cells  []controlplane.CrossedCell
	clicks int64
	links  []int64
}

func (c *crossing) CrossedClicks(
	_ context.Context, _ waypost.WorkspaceID, _ *controlplane.CrossedQuery, link int64, _ controlplane.LinkGroup, _ *controlplane.Span,
) ([]controlplane.CrossedCell, int64, error) {
	c.links = append(c.links, link)
	return c.cells, c.clicks, c.err
}

func TestClicks_CrossedShowNoFewClicks(t *testing.T) {
	type cells = []controlplane.CrossedCell
	for name, c := range map[string]struct{ cells, want cells }{
		"none": {},
		"enough": {
			cells{{"mobile", "DE", 5}, {"mobile", "", 6}, {"", "DE", 7}, {"", "", 8}},
			cells{{"mobile", "DE", 5}, {"mobile", "", 6}, {"", "DE", 7}, {"", "", 8}},
		},
		"several that are few": {
			cells{{"mobile", "DE", 4}, {"mobile", "FR", 9}, {"desktop", "", 3}},
			cells{{"mobile", "FR", 9}, {"", "", 7}},
		},
		"a single one takes the next along": {
			cells{{"mobile", "DE", 20}, {"mobile", "FR", 4}, {"desktop", "DE", 9}},
			cells{{"mobile", "DE", 20}, {"", "", 13}},
		},
		"few others take the next along": {
			cells{{"mobile", "DE", 20}, {"mobile", "FR", 9}, {"", "", 4}},
			cells{{"mobile", "DE", 20}, {"", "", 13}},
		},
		"few in all": {cells{{"mobile", "DE", 3}}, cells{{"", "", 3}}},
	} {
		s := &crossing{cells: c.cells}
		for _, cell := range c.cells {
			s.clicks += cell.Clicks
		}
		got, err := controlplane.NewClicks(s, func() time.Time { return noon }).Crossed(t.Context(), actor,
			controlplane.CrossedQuery{Rows: controlplane.Devices, Columns: controlplane.Countries})
		require.NoError(t, err, name)
		require.Equal(t, c.want, got.Cells, name)
		require.Equal(t, s.clicks, got.Kept, name)
		require.Len(t, got.Span.Bounds, 31)
	}
}

func TestClicks_CrossedAreOfALinkAndBounded(t *testing.T) {
	s := &crossing{clicks: 3}
	ask := func(change func(q *controlplane.CrossedQuery)) error {
		q := controlplane.CrossedQuery{Rows: controlplane.Devices, Columns: controlplane.Countries}
		change(&q)
		_, err := controlplane.NewClicks(s, func() time.Time { return noon }).Crossed(t.Context(), actor, q)
		return err
	}
	err := ask(func(q *controlplane.CrossedQuery) { q.Code = "spring" })
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	require.Contains(t, err.Error(), "the setting events", "it has clicks, and no single ones")
	require.Equal(t, []int64{7}, s.links)
	s.cells = []controlplane.CrossedCell{{Clicks: 1}}
	require.NoError(t, ask(func(q *controlplane.CrossedQuery) { q.From = noon.AddDate(0, 0, -91) }))
	for name, change := range map[string]func(q *controlplane.CrossedQuery){
		"93 days":      func(q *controlplane.CrossedQuery) { q.From = noon.AddDate(0, 0, -92) },
		"one of two":   func(q *controlplane.CrossedQuery) { q.Rows = q.Columns },
		"link and tag": func(q *controlplane.CrossedQuery) { q.Code, q.Group.Tags = "spring", []string{"a"} },
	} {
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(ask(change)), name)
	}
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(ask(func(q *controlplane.CrossedQuery) { q.Code = "summer" })))
}

func TestClicks_GroupStatsOfACodeAreThoseOfItsLink(t *testing.T) {
	clicks := controlplane.NewClicks(&crossing{}, func() time.Time { return noon })
	l, err := clicks.LinkStats(t.Context(), actor, "", "spring", controlplane.StatsQuery{})
	require.NoError(t, err)
	g, err := clicks.GroupStats(t.Context(), actor, controlplane.GroupQuery{Code: "spring"}, controlplane.StatsQuery{Top: 10})
	require.NoError(t, err)
	require.Equal(t, l.Stats, g.Stats)
	require.EqualValues(t, 1, g.Links)
	for _, other := range []controlplane.GroupQuery{{Code: "spring", Creator: "ann"}, {Code: "spring", Tags: []string{"mail"}}} {
		_, err = clicks.GroupStats(t.Context(), actor, other, controlplane.StatsQuery{})
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	}
}
