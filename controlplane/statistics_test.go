package controlplane_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
)

// counts is a Store of one link; a test sets clicks and edges.
type counts struct {
	controlplane.Store
	counted controlplane.Counted
	top     []controlplane.TopLink
	gone    []string
	nodes   []controlplane.EdgeProgress
	noted   chan []controlplane.EdgeProgress
	err     error
	lines   []controlplane.LinkName
	changes []controlplane.Change
	expires time.Time // of the link
	count   func()    // runs when clicks are counted; nil: nothing
}

func (*counts) Hosts(context.Context) ([]waypost.Domain, error) {
	return []waypost.Domain{{ID: waypost.DefaultDomain}}, nil
}

func (c *counts) counting() {
	if c.count != nil {
		c.count()
	}
}

func (c *counts) LinkClicks(
	context.Context, waypost.WorkspaceID, int64, *controlplane.Span, *controlplane.NameQuery,
) (controlplane.Counted, error) {
	c.counting()
	return c.counted, c.err
}

func (c *counts) WorkspaceClicks(_ context.Context, _ waypost.WorkspaceID, _ *controlplane.Span,
	_ *controlplane.NameQuery, top int,
) (controlplane.Counted, controlplane.TopLinks, error) {
	c.counting()
	return c.counted, controlplane.TopLinks{Links: c.top[:min(top, len(c.top))], Exact: true}, c.err
}

func (c *counts) WorkspaceTotals(context.Context, waypost.WorkspaceID) (clicks, bots int64, err error) {
	return 999, 99, c.err
}

func (c *counts) NewestLink(context.Context, waypost.WorkspaceID) (int64, error) { return 7, c.err }

func (c *counts) GiveUpEdge(_ context.Context, _ controlplane.Actor, node string, _ time.Duration) error {
	c.gone = append(c.gone, node)
	return c.err
}

func (c *counts) NoteProgress(_ context.Context, nodes []controlplane.EdgeProgress) error {
	c.noted <- nodes
	return c.err
}

func (c *counts) Progress(context.Context) ([]controlplane.EdgeProgress, error) { return c.nodes, nil }

func (c *counts) Link(_ context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code) (waypost.Link, error) {
	if ws != 1 || code != "spring" {
		return waypost.Link{}, waypost.ErrNoLink
	}
	return waypost.Link{ID: 7, Workspace: ws, Domain: domain, Code: code, Clicks: 50, BotClicks: 5, ExpiresAt: c.expires}, nil
}

// DomainOf knows a shared domain, one of workspace 1 and one of workspace 2.
func (*counts) DomainOf(_ context.Context, host string, _ bool) (waypost.Domain, bool, error) {
	d, found := map[string]waypost.Domain{
		"wp.example": {ID: 1}, "own.example": {ID: 2, Workspace: 1}, "theirs.example": {ID: 3, Workspace: 2},
	}[host]
	return d, found, nil
}

var noon = time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)

func statsOf(c *counts) *controlplane.Clicks {
	return controlplane.NewClicks(c, func() time.Time { return noon })
}

func TestClicks_ClicksAreLaidOutInTheStepsOfTheTimeAsked(t *testing.T) {
	quarter := func(text string, clicks, bots int64) controlplane.QuarterClicks {
		return controlplane.QuarterClicks{At: moment(t, text).Unix(), Clicks: clicks, Bots: bots}
	}
	c := &counts{counted: controlplane.Counted{
		Quarters: []controlplane.QuarterClicks{
			quarter("2026-03-29T21:45:00Z", 1, 1), quarter("2026-03-28T23:00:00Z", 4, 0), quarter("2026-03-29T21:45:00Z", 2, 0),
			quarter("2026-03-28T22:45:00Z", 100, 0), quarter("2026-03-30T22:00:00Z", 100, 0), // out of the time
			quarter("2026-03-29T22:00:00Z", 8, 2),
		},
		Visitors: 12, Bots: 3,
	}}
	s := statsOf(c)
	got, err := s.LinkStats(t.Context(), actor, "", "spring", controlplane.StatsQuery{
		From: moment(t, "2026-03-29T00:00:00+01:00"), To: moment(t, "2026-03-31T00:00:00+02:00"), Zone: zone(t, "Europe/Berlin"),
	})
	require.NoError(t, err)
	require.EqualValues(t, 15, got.Clicks)
	require.EqualValues(t, 3, got.Bots)
	require.Equal(t, []controlplane.QuarterClicks{quarter("2026-03-28T23:00:00Z", 7, 1), quarter("2026-03-29T22:00:00Z", 8, 2)}, got.Series)
	require.EqualValues(t, 50, got.TotalClicks)
	require.EqualValues(t, 12, got.Visitors)

	of, err := s.WorkspaceStats(t.Context(), actor, controlplane.StatsQuery{Top: 3})
	require.NoError(t, err)
	require.EqualValues(t, 999, of.TotalClicks)
	require.Len(t, of.Series, 30)
}

func TestClicks_BreakdownHasAThousandNamesAndTheRestAsOther(t *testing.T) {
	c := &counts{}
	for i := range 1500 {
		b := &c.counted.Breakdowns[controlplane.Referrers]
		b.Named = append(b.Named, controlplane.NamedClicks{Name: fmt.Sprintf("host-%04d", i), Clicks: int64(1 + i%750)})
		b.Other = 11
	}
	got, err := statsOf(c).LinkStats(t.Context(), actor, "", "spring", controlplane.StatsQuery{})
	require.NoError(t, err)
	b := got.Breakdowns[controlplane.Referrers]
	require.Len(t, b.Named, 1000)
	require.Equal(t, []controlplane.NamedClicks{{Name: "host-0749", Clicks: 750}, {Name: "host-1499", Clicks: 750}, {
		Name:   "host-0748",
		Clicks: 749,
	}}, b.Named[:3])
	sum := b.Other
	for _, n := range b.Named {
		sum += n.Clicks
	}
	require.EqualValues(t, 2*750*751/2+11, sum, "nothing is lost")
	require.True(t, slices.IsSortedFunc(b.Named, func(x, y controlplane.NamedClicks) int { return int(y.Clicks - x.Clicks) }))
}

func TestClicks_StatsAreOfLinksUnderTheDomainsThatAWorkspaceHas(t *testing.T) {
	s := statsOf(&counts{})
	for host, domain := range map[string]waypost.DomainID{"": 1, "wp.example": 1, "WP.example:8080": 1, "own.example": 2} {
		got, err := s.LinkStats(t.Context(), actor, host, "spring", controlplane.StatsQuery{})
		require.NoError(t, err, host)
		require.Equal(t, domain, got.Link.Domain, host)
	}
	for _, host := range []string{"theirs.example", "unknown.example", "\x00", "'"} {
		_, err := s.LinkStats(t.Context(), actor, host, "spring", controlplane.StatsQuery{})
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), host)
		_, err = s.ForgetClicks(t.Context(), controlplane.Actor{Workspace: 1, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}, host,
			"spring")
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), host)
	}
	_, err := s.LinkStats(t.Context(), controlplane.Actor{Workspace: 2}, "", "spring", controlplane.StatsQuery{})
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	_, err = s.WorkspaceStats(t.Context(), actor, controlplane.StatsQuery{Top: 101})
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
}

func TestClicks_ForgettingIsForAdministrators(t *testing.T) {
	s := statsOf(&counts{})
	for _, scopes := range [][]controlplane.Scope{nil, {controlplane.ScopeLinksWrite, controlplane.ScopeAnalytics}} {
		_, err := s.ForgetClicks(t.Context(), controlplane.Actor{Workspace: 1, Scopes: scopes}, "", "spring")
		require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
		_, err = s.ForgetVisitors(t.Context(), controlplane.Actor{Workspace: 1, Scopes: scopes}, noon)
		require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
	}
	_, err := s.ForgetVisitors(t.Context(), controlplane.Actor{Workspace: 2, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}, noon)
	require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
}

func TestClicks_CompletenessIsThatOfTheEdgeFurthestBehind(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	good := controlplane.EdgeProgress{Node: "good", Until: ago(2 * time.Second)}
	late := controlplane.EdgeProgress{Node: "late", Until: ago(2 * time.Hour)}
	later := controlplane.EdgeProgress{Node: "later", Until: ago(50 * time.Hour)}
	fast := controlplane.EdgeProgress{Node: "a-clock-ahead", Until: noon.Add(time.Minute)}
	silent := controlplane.EdgeProgress{Node: "silent"}
	left := controlplane.EdgeProgress{Node: "left", Until: ago(100 * time.Hour), Left: true}
	for name, c := range map[string]struct {
		nodes  []controlplane.EdgeProgress
		to     time.Time // zero: now
		until  time.Time
		behind []string
	}{
		"nobody is known":             {},
		"all is well":                 {nodes: []controlplane.EdgeProgress{good, fast}, until: good.Until},
		"one is late":                 {nodes: []controlplane.EdgeProgress{good, late}, until: late.Until, behind: []string{"late"}},
		"late, but not for that time": {nodes: []controlplane.EdgeProgress{good, late}, to: ago(3 * time.Hour), until: late.Until},
		"two are late, one for that time": {
			nodes: []controlplane.EdgeProgress{later, late}, to: ago(3 * time.Hour), until: later.Until,
			behind: []string{"later"},
		},
		"one has never told": {nodes: []controlplane.EdgeProgress{silent, good}, behind: []string{"silent"}},
		"one that has never told, long ago": {
			nodes: []controlplane.EdgeProgress{silent, later}, to: ago(90 * time.Hour),
			behind: []string{"silent"},
		},
		"one has left":               {nodes: []controlplane.EdgeProgress{left, good}, until: good.Until},
		"all have left":              {nodes: []controlplane.EdgeProgress{left}, until: noon},
		"only a clock that is ahead": {nodes: []controlplane.EdgeProgress{fast}, until: noon},
		"the names are sorted": {nodes: []controlplane.EdgeProgress{later, late}, until: later.Until, behind: []string{
			"late",
			"later",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			q := controlplane.StatsQuery{To: c.to}
			if !c.to.IsZero() {
				q.From = c.to.Add(-time.Hour)
				q.Interval = controlplane.ByHour
			}
			got, err := statsOf(&counts{nodes: c.nodes}).LinkStats(t.Context(), actor, "", "spring", q)
			require.NoError(t, err)
			require.Equal(t, controlplane.Completeness{Until: c.until, Behind: c.behind}, got.Complete)
		})
	}
}

// While clicks are counted an edge reports newer ones, which the counts lack.
func TestClicks_CompletenessIsThatOfAMomentBeforeTheCounts(t *testing.T) {
	now := noon
	c := &counts{}
	s := controlplane.NewClicks(c, func() time.Time { return now })
	c.count = func() {
		now = noon.Add(time.Minute)
		c.nodes = []controlplane.EdgeProgress{{Node: "edge-a", Until: now.Add(-time.Second)}}
	}
	for name, ask := range map[string]func() (controlplane.Completeness, error){
		"of a link": func() (controlplane.Completeness, error) {
			got, err := s.LinkStats(t.Context(), actor, "", "spring", controlplane.StatsQuery{})
			return got.Complete, err
		},
		"of a workspace": func() (controlplane.Completeness, error) {
			got, err := s.WorkspaceStats(t.Context(), actor, controlplane.StatsQuery{})
			return got.Complete, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			now = noon
			c.nodes = []controlplane.EdgeProgress{{Node: "edge-a", Until: noon.Add(-time.Hour)}}
			got, err := ask()
			require.NoError(t, err)
			require.Equal(t, controlplane.Completeness{Until: noon.Add(-time.Hour), Behind: []string{"edge-a"}}, got)
		})
	}
}

// The clicks of all time are read at another moment than those of the span.
func TestClicks_TotalsAreNeverFewerThanTheClicksOfTheSpan(t *testing.T) {
	c := &counts{counted: controlplane.Counted{
		Quarters: []controlplane.QuarterClicks{{At: noon.Unix() - 900, Clicks: 1001, Bots: 101}},
	}}
	link, err := statsOf(c).LinkStats(t.Context(), actor, "", "spring", controlplane.StatsQuery{})
	require.NoError(t, err)
	require.Equal(t, [4]int64{1001, 1001, 101, 101}, [4]int64{link.Clicks, link.TotalClicks, link.Bots, link.TotalBots})
	all, err := statsOf(c).WorkspaceStats(t.Context(), actor, controlplane.StatsQuery{})
	require.NoError(t, err)
	require.Equal(t, [4]int64{1001, 1001, 101, 101}, [4]int64{all.Clicks, all.TotalClicks, all.Bots, all.TotalBots})
}

// noBoots keeps no boots.
type noBoots struct{}

func (noBoots) NoteBoots(context.Context, []fleet.Boot) error { return nil }
func (noBoots) Boots(context.Context) ([]fleet.Boot, error)   { return nil, nil }
func (noBoots) DropBoots(context.Context, []fleet.Boot) error { return nil }

func TestClicks_WhatEdgesReportOfTheirClicksIsKept(t *testing.T) {
	edges := fleet.New(fleet.Config{Boots: noBoots{}})
	report := func(r api.EdgeReport) {
		r.Node, r.Region = "edge-a", "eu"
		_, err := edges.Report(t.Context(), fleet.EdgeReport{EdgeReport: r, Boot: waypost.BootID{1}})
		require.NoError(t, err)
	}
	store := &counts{noted: make(chan []controlplane.EdgeProgress)}
	report(api.EdgeReport{ClicksPending: 3, ClicksUntil: noon})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); edges.KeepProgress(ctx, store, time.Millisecond) }()
	next := func() controlplane.EdgeProgress {
		nodes := <-store.noted
		require.Len(t, nodes, 1)
		nodes[0].At = time.Time{}
		return nodes[0]
	}
	require.Equal(t, controlplane.EdgeProgress{Node: "edge-a", Region: "eu", Until: noon, Pending: 3}, next())
	for name, c := range map[string]struct {
		report api.EdgeReport
		left   bool
	}{
		"gone with everything": {api.EdgeReport{ClicksUntil: noon, Leaving: true}, true},
		"gone with clicks":     {api.EdgeReport{ClicksPending: 2, ClicksUntil: noon, Leaving: true}, false},
		"gone without a word":  {api.EdgeReport{ClicksPending: -1, Leaving: true}, false},
		"gone with a history":  {api.EdgeReport{Leaving: true}, false},
	} {
		report(c.report)
		require.Equal(t, c.left, next().Left, name)
	}
	stop()
	<-ended
}

func (c *counts) LinksClicks(
	_ context.Context, _ waypost.WorkspaceID, links []controlplane.LinkName, s *controlplane.Span,
) (map[controlplane.LinkName][]int64, error) {
	c.lines = links
	return map[controlplane.LinkName][]int64{{Domain: 2, Code: "spring"}: make([]int64, len(s.Bounds)-1)}, c.err
}

func TestClicks_SparklinesLeaveOutWhatIsNotThere(t *testing.T) {
	c := &counts{}
	span, lines, err := statsOf(c).Sparklines(t.Context(), actor, []controlplane.HostedCode{
		{Code: "spring"}, {Host: "OWN.example", Code: "spring"}, {Host: "theirs.example", Code: "spring"}, {Host: "own.example", Code: "?"},
	}, 14, time.UTC)
	require.NoError(t, err)
	require.Len(t, span.Bounds, 15)
	require.Equal(t, []controlplane.Sparkline{{
		HostedCode: controlplane.HostedCode{Host: "OWN.example", Code: "spring"}, Clicks: make([]int64, 14),
	}}, lines)
	require.Equal(t, []controlplane.LinkName{{Domain: 1, Code: "spring"}, {Domain: 2, Code: "spring"}, {}, {}}, c.lines)
	for _, n := range []int{0, 101} {
		_, _, err = statsOf(c).Sparklines(t.Context(), actor, make([]controlplane.HostedCode, n), 14, time.UTC)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	}
}
