package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"waypost"
)

// StatsStore reads what was counted, as it is at the moment. Numbers hold whatever
// has been taken from edges, whether it is rolled up yet or not.
type StatsStore interface {
	// LinkClicks gives the clicks of one link of a workspace.
	LinkClicks(ctx context.Context, ws waypost.WorkspaceID, link int64, s *Span) (Counted, error)

	// WorkspaceClicks gives the clicks of all links of a workspace, and the top of
	// these by their clicks in the days that the span touches.
	WorkspaceClicks(ctx context.Context, ws waypost.WorkspaceID, s *Span, top int) (Counted, TopLinks, error)

	// WorkspaceTotals gives the clicks of a workspace in all time.
	WorkspaceTotals(ctx context.Context, ws waypost.WorkspaceID) (clicks, bots int64, err error)
}

// Counted is what was counted in a span.
type Counted struct {
	// Quarters are clicks by the time of their quarter of an hour. One may come
	// several times, in any order; those outside of the span are passed over.
	Quarters []QuarterClicks

	// Breakdowns are of the days that the span touches, in UTC. Names are unique in
	// each, in any order; "" is what is not known.
	Breakdowns [Dimensions]Breakdown

	// Visitors, bots among them, and the bots alone: the sum over the same days of
	// how many there were in each.
	Visitors, Bots int64
}

// QuarterClicks are the clicks of a quarter of an hour.
type QuarterClicks struct {
	At     int64 // Unix seconds of its beginning
	Clicks int64
	Bots   int64 // of the clicks
}

// Dimension is something by which clicks are broken down.
type Dimension uint8

// The dimensions.
const (
	Countries Dimension = iota
	Cities
	Devices
	Browsers
	Systems
	Referrers
	Dimensions = 6
)

// Breakdown tells clicks by name.
type Breakdown struct {
	Named []NamedClicks
	Other int64 // clicks of names that were too many to keep
}

// NamedClicks are the clicks of one name.
type NamedClicks struct {
	Name   string
	Clicks int64
}

// MaxNames bounds a breakdown as it is shown.
const MaxNames = 1000

// top keeps the MaxNames names with the most clicks, most first, and adds all others to
// Other.
func (b Breakdown) top() Breakdown {
	named := slices.Clone(b.Named)
	slices.SortFunc(named, func(x, y NamedClicks) int {
		return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Name, y.Name))
	})
	if len(named) > MaxNames {
		for _, n := range named[MaxNames:] {
			b.Other += n.Clicks
		}
		named = named[:MaxNames]
	}
	b.Named = named
	return b
}

// TopLink is one of the links of a workspace with the most clicks.
type TopLink struct {
	Domain      waypost.DomainID
	Host        string // of the domain; "" for the default one
	Code        waypost.Code
	OriginalURL string
	Title       string
	Clicks      int64
	Bots        int64
}

// TopLinks are the links of a workspace with the most clicks, most first.
type TopLinks struct {
	Links []TopLink

	// Exact says that no other link has more clicks than the last of these. Where clicks
	// are spread so evenly over very many links that this cannot be told, they are
	// links with many; their own clicks are exact at all times.
	Exact bool
}

// Stats is what statistics tell of a link, or of a workspace.
type Stats struct {
	Span         Span
	Clicks, Bots int64           // in the span
	Series       []QuarterClicks // one for each step of the span
	Visitors     int64           // see [Counted]
	VisitorBots  int64
	Breakdowns   [Dimensions]Breakdown // most clicks first
	TotalClicks  int64                 // in all time
	TotalBots    int64
	Complete     Completeness
}

// LinkStats are the statistics of a link.
type LinkStats struct {
	Link waypost.Link
	Stats
}

// WorkspaceStats are the statistics of all links of a workspace.
type WorkspaceStats struct {
	Stats
	Top TopLinks
}

// MaxTopLinks bounds the list of links with the most clicks.
const MaxTopLinks = 100

// LinkStats gives the statistics of a link of the actor's workspace, also when it has
// expired, under the domain of a host ("" for the default one). ENotFound when there is
// none, EInvalid for a time that is none.
func (s *Service) LinkStats(ctx context.Context, actor Actor, host, code string, q StatsQuery) (LinkStats, error) {
	span, err := NewSpan(q, s.cfg.Now())
	if err != nil {
		return LinkStats{}, err
	}
	l, err := s.clickedLink(ctx, actor, host, code)
	if err != nil {
		return LinkStats{}, err
	}
	counted, err := s.stats.LinkClicks(ctx, actor.Workspace, l.ID, &span)
	if err != nil {
		return LinkStats{}, err
	}
	stats, err := s.judgeClicks(ctx, span, &counted)
	stats.TotalClicks, stats.TotalBots = l.Clicks, l.BotClicks
	return LinkStats{Link: l, Stats: stats}, err
}

// WorkspaceStats gives the statistics of all links of the actor's workspace.
func (s *Service) WorkspaceStats(ctx context.Context, actor Actor, q StatsQuery) (WorkspaceStats, error) {
	if q.Top < 0 || q.Top > MaxTopLinks {
		return WorkspaceStats{}, waypost.Errorf(waypost.EInvalid, "top must be 0 to %d", MaxTopLinks)
	}
	span, err := NewSpan(q, s.cfg.Now())
	if err != nil {
		return WorkspaceStats{}, err
	}
	counted, top, err := s.stats.WorkspaceClicks(ctx, actor.Workspace, &span, q.Top)
	if err != nil {
		return WorkspaceStats{}, err
	}
	stats, err := s.judgeClicks(ctx, span, &counted)
	if err == nil {
		stats.TotalClicks, stats.TotalBots, err = s.stats.WorkspaceTotals(ctx, actor.Workspace)
	}
	return WorkspaceStats{Stats: stats, Top: top}, err
}

// clickedLink finds a link of the actor's workspace under the domain of a host.
func (s *Service) clickedLink(ctx context.Context, actor Actor, host, code string) (waypost.Link, error) {
	if !waypost.ValidCode(code) {
		return waypost.Link{}, notFound()
	}
	domain, err := s.domainOfLinks(ctx, actor, host)
	if err != nil {
		return waypost.Link{}, err
	}
	return s.links.Link(ctx, actor.Workspace, domain, waypost.Code(code))
}

// domainOfLinks gives the domain of a host under which the actor's links may be.
func (s *Service) domainOfLinks(ctx context.Context, actor Actor, host string) (waypost.DomainID, error) {
	if host == "" {
		return waypost.DefaultDomain, nil
	}
	if s.domains == nil {
		return 0, notFound()
	}
	d, found, err := s.domains.DomainOf(ctx, waypost.HostName(host))
	if err == nil && (!found || d.Workspace != 0 && d.Workspace != actor.Workspace) {
		err = notFound()
	}
	return d.ID, err
}

// judgeClicks lays out what was counted in the steps of a span, and tells how complete it is.
func (s *Service) judgeClicks(ctx context.Context, span Span, c *Counted) (Stats, error) {
	stats := Stats{Span: span, Visitors: c.Visitors, VisitorBots: c.Bots, Series: make([]QuarterClicks, len(span.Bounds)-1)}
	for i := range stats.Series {
		stats.Series[i].At = span.Bounds[i].Unix()
	}
	for _, q := range c.Quarters {
		if i, ok := span.Step(time.Unix(q.At, 0)); ok {
			stats.Series[i].Clicks += q.Clicks
			stats.Series[i].Bots += q.Bots
			stats.Clicks += q.Clicks
			stats.Bots += q.Bots
		}
	}
	for i := range c.Breakdowns {
		stats.Breakdowns[i] = c.Breakdowns[i].top()
	}
	nodes, err := s.progress.Progress(ctx)
	if err != nil {
		return Stats{}, err
	}
	stats.Complete = completeness(nodes, span.To(), s.cfg.Now())
	return stats, nil
}
