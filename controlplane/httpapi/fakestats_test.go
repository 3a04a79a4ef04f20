package httpapi_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

// statistics is a Statistics that answers what it was told to. It remembers what it
// was asked.
type statistics struct {
	links   *links
	now     time.Time
	stats   controlplane.Stats // except its span
	top     []controlplane.TopLink
	clicks  map[int64]controlplane.QuarterClicks // by the beginning of a step
	salts   map[string]bool                      // days that have one
	mu      sync.Mutex
	news    controlplane.News
	newsErr error
	looks   int // for news
	queries []controlplane.StatsQuery
	hosts   []string
	groups  []controlplane.GroupQuery
	tables  []controlplane.GroupTableQuery
	crossed []controlplane.CrossedQuery
	unknown []api.UnknownAddress
	views   []controlplane.View
	notes   []api.Annotation
	more    bool // of these
}

// startWithStats serves an API that knows of clicks.
func startWithStats(t *testing.T, f *statistics) *testAPI {
	return start(t, func(l *links, c *httpapi.Config) {
		f.links, c.Clicks = l, f
		if f.now.IsZero() {
			f.now = time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
		}
		l.now = func() time.Time { return f.now }
	})
}

func (f *statistics) answer(q controlplane.StatsQuery) (controlplane.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = append(f.queries, q)
	span, err := controlplane.NewSpan(q, f.now)
	if err != nil {
		return controlplane.Stats{}, err
	}
	stats := f.stats
	stats.Span, stats.Series = span, make([]controlplane.QuarterClicks, len(span.Bounds)-1)
	for i := range stats.Series {
		at := span.Bounds[i].Unix()
		stats.Series[i] = f.clicks[at]
		stats.Series[i].At = at
	}
	return stats, nil
}

func (f *statistics) Unknown(_ context.Context, _ controlplane.Actor, host string, from, to time.Time, limit int) (
	[]api.UnknownAddress, controlplane.UnknownQuery, error,
) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts = append(f.hosts, host)
	if host == "unknown.example" {
		return nil, controlplane.UnknownQuery{}, waypost.Errorf(waypost.ENotFound, "there is no such domain")
	}
	return f.unknown[:min(limit, len(f.unknown))], controlplane.UnknownQuery{From: from, To: to}, nil
}

func (f *statistics) LinkStats(ctx context.Context, actor controlplane.Actor, host, code string,
	q controlplane.StatsQuery,
) (controlplane.LinkStats, error) {
	l, err := f.links.Stats(ctx, actor, code)
	if err != nil {
		return controlplane.LinkStats{}, err
	}
	f.hosts = append(f.hosts, host)
	stats, err := f.answer(q)
	return controlplane.LinkStats{Link: l, Annotations: f.notes, More: f.more, Stats: stats}, err
}

func (f *statistics) News(context.Context, controlplane.Actor) (controlplane.News, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return f.news, f.newsErr
}

func (f *statistics) WorkspaceStats(_ context.Context, _ controlplane.Actor,
	q controlplane.StatsQuery,
) (controlplane.WorkspaceStats, error) {
	stats, err := f.answer(q)
	return controlplane.WorkspaceStats{Stats: stats, Top: controlplane.TopLinks{Links: f.top[:min(len(f.top), q.Top)], Exact: true}}, err
}

func (f *statistics) GroupStats(ctx context.Context, actor controlplane.Actor, group controlplane.GroupQuery,
	q controlplane.StatsQuery,
) (controlplane.GroupStats, error) {
	if group.Code == "nope" {
		return controlplane.GroupStats{}, waypost.ErrNoLink
	}
	if group.Creator == "many" {
		return controlplane.GroupStats{}, waypost.Errorf(waypost.ECounting, "the clicks are being counted")
	}
	if group.Host == "unknown.example" {
		return controlplane.GroupStats{}, waypost.Errorf(waypost.ENotFound, "there is no such domain")
	}
	f.groups = append(f.groups, group)
	stats, err := f.WorkspaceStats(ctx, actor, q)
	return controlplane.GroupStats{WorkspaceStats: stats, Links: 3}, err
}

func (f *statistics) GroupTable(
	_ context.Context, _ controlplane.Actor, q controlplane.GroupTableQuery,
) (controlplane.GroupTable, error) {
	f.tables = append(f.tables, q)
	span, err := controlplane.NewSpan(controlplane.StatsQuery{From: q.From, To: q.To}, f.now)
	return controlplane.GroupTable{Span: span, Found: 3, Clicks: 40, Rows: []controlplane.GroupRow{
		{Name: "", Links: 2, Clicks: 10, Bots: 4, Before: 20, Days: []int64{3, 7}}, {Name: "=1+1", Links: 1, Days: []int64{0, 0}},
	}}, err
}

func (f *statistics) Crossed(_ context.Context, _ controlplane.Actor, q controlplane.CrossedQuery) (controlplane.Crossed, error) {
	if q.Group.Host == "unknown.example" {
		return controlplane.Crossed{}, waypost.Errorf(waypost.ENotFound, "there is no such domain")
	}
	f.crossed = append(f.crossed, q)
	span, err := controlplane.NewSpan(controlplane.StatsQuery{From: q.From, To: q.To}, f.now)
	return controlplane.Crossed{Span: span, Clicks: 40, Kept: 34, Cells: []controlplane.CrossedCell{
		{Row: "mobile", Column: "DE", Clicks: 5},
		{Row: "desktop", Column: "=1+1", Clicks: 6},
		{Row: "mobile", Column: "=1+1", Clicks: 7},
		{Column: "DE", Clicks: 8},
		{Clicks: 8},
	}}, err
}

func (f *statistics) Sparklines(_ context.Context, _ controlplane.Actor, links []controlplane.HostedCode, days int,
	zone *time.Location,
) (controlplane.Span, []controlplane.Sparkline, error) {
	span, err := controlplane.NewSpan(controlplane.StatsQuery{From: f.now.AddDate(0, 0, 1-days), To: f.now, Zone: zone}, f.now)
	var lines []controlplane.Sparkline
	for _, l := range links {
		if l.Code != "unknown" {
			lines = append(lines, controlplane.Sparkline{HostedCode: l, Clicks: make([]int64, days)})
		}
	}
	return span, lines, err
}

func (f *statistics) ForgetClicks(ctx context.Context, actor controlplane.Actor, host, code string) (controlplane.ForgottenClicks, error) {
	l, err := f.links.Stats(ctx, actor, code)
	f.hosts = append(f.hosts, host)
	return controlplane.ForgottenClicks{Clicks: l.Clicks, Bots: l.BotClicks, Events: 3}, err
}

func (f *statistics) ForgetVisitors(_ context.Context, actor controlplane.Actor, day time.Time) (waypost.Position, error) {
	if err := actor.CheckOperator(); err != nil {
		return waypost.Position{}, err
	}
	if !f.salts[day.Format(time.DateOnly)] {
		return waypost.Position{}, waypost.Errorf(waypost.ENotFound, "the day has no salt")
	}
	delete(f.salts, day.Format(time.DateOnly))
	return f.links.position(), nil
}

// GiveUpEdge knows one edge that is gone, and one that is not.
func (f *statistics) GiveUpEdge(_ context.Context, actor controlplane.Actor, node string) error {
	if err := actor.CheckOperator(); err != nil {
		return err
	}
	switch node {
	case "eu-1":
		return nil
	case "eu-2":
		return waypost.Errorf(waypost.EConflict, "the edge is not gone")
	}
	return waypost.Errorf(waypost.ENotFound, "there is no such edge")
}

// asked returns the newest query.
func (f *statistics) asked() controlplane.StatsQuery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queries[len(f.queries)-1]
}
