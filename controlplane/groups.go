package controlplane

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"waypost"
)

// LinkGroup selects the live links of a workspace by the tags, domain and creator that
// they have now. Zero fields select all links; a link must match all other fields.
type LinkGroup struct {
	Tags    []string // a link must have all of them
	Domain  waypost.DomainID
	Creator string // as created_by of links
}

// GroupQuery selects a group of links as a client names it.
type GroupQuery struct {
	Tags    []string
	Host    string // of a domain; "" for any
	Creator string
	Code    string // of one link under Host, or a pattern: without Tags and Creator
}

// IsZero reports whether a query selects all links of the workspace, deleted ones
// included.
func (q *GroupQuery) IsZero() bool {
	return len(q.Tags) == 0 && q.Host == "" && q.Creator == "" && q.Code == ""
}

// GroupCounted holds the counts of a group of links.
type GroupCounted struct {
	Counted
	Top          TopLinks
	Links        int64 // of the group
	Clicks, Bots int64 // in all time
	Kept         *Kept
}

// Kept says that an answer was counted before it was asked for, because its count takes
// longer than a request may wait.
type Kept struct {
	At         time.Time // of the count: its links are those of that moment
	Complete   Completeness
	Rebuilding bool // it is being counted again
}

// GroupsCounted holds the groups of a table.
type GroupsCounted struct {
	Rows   []GroupRow
	Clicks int64 // of the workspace
	Kept   *Kept
}

// complete returns the completeness of an answer for a span, of which now is the
// completeness at the moment of the question.
func (k *Kept) complete(span *Span, now Completeness) Completeness {
	if k == nil {
		return now
	}
	c := k.Complete
	if !c.Until.IsZero() && !c.Until.Before(span.To()) {
		c.Behind = nil
	}
	return c
}

// GroupStats are the statistics of a group of links.
type GroupStats struct {
	WorkspaceStats
	Links int64 // of the group
	Kept  *Kept
}

// find returns the group that a client names. It returns ENotFound for an unknown domain,
// and EInvalid for a tag that no link can have.
func (s *Clicks) find(ctx context.Context, actor Actor, q *GroupQuery) (g LinkGroup, err error) {
	r := ListRequest{LinkFilter: LinkFilter{Tags: q.Tags}, Order: NewestFirst, Limit: 1}
	if err := r.check(); err != nil {
		return g, err
	}
	g.Tags, g.Creator = r.Tags, q.Creator
	if err := checkText("created_by", g.Creator, waypost.MaxTitle); err != nil || q.Host == "" {
		return g, err
	}
	d, err := s.links.domains.named(ctx, actor, waypost.HostName(q.Host))
	g.Domain = d.ID
	return g, err
}

// GroupStats returns the statistics of a group of links of the actor's workspace.
func (s *Clicks) GroupStats(ctx context.Context, actor Actor, group GroupQuery, q StatsQuery) (GroupStats, error) {
	if q.Top < 0 || q.Top > MaxTopLinks {
		return GroupStats{}, waypost.Errorf(waypost.EInvalid, "top must be 0 to %d", MaxTopLinks)
	}
	if group.Code != "" {
		if len(group.Tags) > 0 || group.Creator != "" {
			return GroupStats{}, waypost.Errorf(waypost.EInvalid, "a link is named by code and domain alone")
		}
		l, err := s.LinkStats(ctx, actor, group.Host, group.Code, q)
		return GroupStats{WorkspaceStats: WorkspaceStats{Stats: l.Stats, Top: TopLinks{Exact: true}}, Links: 1}, err
	}
	now := s.now()
	span, err := NewSpan(q, now)
	if err != nil {
		return GroupStats{}, err
	}
	g, err := s.find(ctx, actor, &group)
	if err != nil {
		return GroupStats{}, err
	}
	complete, err := s.complete(ctx, &span, now)
	if err != nil {
		return GroupStats{}, err
	}
	c, err := s.stats.GroupClicks(ctx, actor.Workspace, g, &span, q.Named, q.Top)
	if err != nil {
		return GroupStats{}, err
	}
	stats := summarize(span, q.Named, &c.Counted)
	stats.Complete = c.Kept.complete(&span, complete)
	stats.setTotals(c.Clicks, c.Bots)
	var compared *Kept
	stats.Compared, err = s.compare(ctx, q.Compare, &stats, now, func(span *Span) (Counted, error) {
		other, err := s.stats.GroupClicks(ctx, actor.Workspace, g, span, nil, 0)
		compared = other.Kept
		return other.Counted, err
	})
	if stats.Compared != nil {
		stats.Compared.Complete = compared.complete(&stats.Compared.Span, stats.Compared.Complete)
	}
	return GroupStats{WorkspaceStats: WorkspaceStats{Stats: stats, Top: c.Top}, Links: c.Links, Kept: c.Kept}, err
}

// GroupBy is a property of links by which a table lists their groups.
type GroupBy string

// The tables.
const (
	ByTag     GroupBy = "tags"
	ByDomain  GroupBy = "domains"
	ByCreator GroupBy = "creators"
)

// Bounds of a table of groups.
const (
	MaxGroups    = 1000
	MaxGroupDays = 366
)

// GroupTableQuery selects the groups of a table, in whole UTC days.
type GroupTableQuery struct {
	By       GroupBy
	From, To time.Time // as of a StatsQuery
	Search   string    // in the name, whatever its case
	Limit    int
}

// GroupRow counts the clicks of a group of links.
type GroupRow struct {
	Name   string // a tag, the host of a domain ("" for the default one), or a creator
	Links  int64
	Clicks int64
	Bots   int64
	Before int64   // clicks in as many days before
	Days   []int64 // clicks by UTC day
}

// GroupTable lists groups of links, most clicks first.
type GroupTable struct {
	Span     Span
	Rows     []GroupRow
	Found    int   // groups, of which Rows are the first
	Clicks   int64 // of the workspace
	Complete Completeness
	Kept     *Kept
}

// GroupTable returns the groups of the actor's workspace by tag, domain or creator.
func (s *Clicks) GroupTable(ctx context.Context, actor Actor, q GroupTableQuery) (GroupTable, error) {
	now := s.now()
	span, err := NewSpan(StatsQuery{From: q.From, To: q.To}, now)
	if err != nil {
		return GroupTable{}, err
	}
	first, end := span.Days()
	if end-first > MaxGroupDays {
		return GroupTable{}, waypost.Errorf(waypost.EInvalid, "a table has at most %d days", MaxGroupDays)
	}
	if q.Limit < 1 || q.Limit > MaxGroups {
		return GroupTable{}, waypost.Errorf(waypost.EInvalid, "limit must be 1 to %d", MaxGroups)
	}
	t := GroupTable{Span: span}
	complete, err := s.complete(ctx, &span, now)
	if err != nil {
		return GroupTable{}, err
	}
	c, err := s.stats.GroupRows(ctx, actor.Workspace, q.By, first, end)
	if err != nil {
		return GroupTable{}, err
	}
	t.Rows, t.Clicks, t.Kept, t.Complete = c.Rows, c.Clicks, c.Kept, c.Kept.complete(&span, complete)
	search := strings.ToLower(norm.NFC.String(q.Search))
	t.Rows = slices.DeleteFunc(t.Rows, func(r GroupRow) bool { return !strings.Contains(strings.ToLower(r.Name), search) })
	slices.SortFunc(t.Rows, func(x, y GroupRow) int { return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Name, y.Name)) })
	t.Found = len(t.Rows)
	t.Rows = t.Rows[:min(len(t.Rows), q.Limit)]
	return t, nil
}
