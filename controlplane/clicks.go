package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"waypost"
)

// ClickStore counts clicks that edges have journaled.
type ClickStore interface {
	// IngestClicks counts a batch exactly once: counts and watermark are durable,
	// in one transaction, when it returns without an error. Hash is the SHA-256 of
	// body, the batch as it was encoded; both must be the same whenever the batch
	// is sent.
	//
	// A batch at or below the watermark changes nothing. Another batch under an identity
	// that was counted, and a batch that can never be counted, go to the dead letters;
	// the watermark moves past such a batch if it is the next one. A batch beyond
	// watermark + 1 is a [*ClickGapError].
	//
	// EInvalid means that the batch has no identity that can be stored; EUnavailable
	// that it should be sent again, whether or not it was counted.
	IngestClicks(ctx context.Context, b *waypost.ClickBatch, hash [32]byte, body []byte) (ClickReceipt, error)
}

// ClickReceipt is the outcome of a batch of clicks.
type ClickReceipt struct {
	Watermark  uint64 // batches 1 to Watermark of this node and boot are settled
	DeadLetter bool   // the batch was not counted, now or when it first came

	// Counts of this call: all zero for a batch that was counted before.
	Clicks  uint64 // of links
	Unknown uint64 // of codes that name no link; they are in the watermark's row only
	Redated uint64 // of these, counted at the time of receipt because their own is out of bounds
	Voided  bool   // the edge has lost the batch, and sent this one in its place
	Dropped uint64 // clicks that the edge had no room for; they are counted nowhere
}

// ClickGapError says that batches before this one are missing.
type ClickGapError struct {
	Watermark uint64 // the newest that is settled; the next to send is one more
}

func (e *ClickGapError) Error() string {
	return fmt.Sprintf("batches are missing after %d", e.Watermark)
}

// StatsStore reads and deletes counted clicks. Its numbers include all clicks that were
// ingested, rolled up or not.
type StatsStore interface {
	UnknownStore
	ViewStore

	// LinkClicks returns the clicks of one link of a workspace.
	LinkClicks(ctx context.Context, ws waypost.WorkspaceID, link int64, s *Span, n *NameQuery) (Counted, error)

	// WorkspaceClicks returns the clicks of all links of a workspace, and the top links
	// by their clicks in the days that the span touches.
	WorkspaceClicks(ctx context.Context, ws waypost.WorkspaceID, s *Span, n *NameQuery, top int) (Counted, TopLinks, error)

	// GroupClicks returns the clicks of the links that are in a group now, and the top links
	// among them. A count that takes too long is made in the background and kept;
	// GroupClicks returns ECounting until then, and keeps the answer up to date as long as
	// it is asked for. The same goes for GroupRows.
	GroupClicks(ctx context.Context, ws waypost.WorkspaceID, g LinkGroup, s *Span, n *NameQuery, top int) (GroupCounted, error)

	// GroupRows returns the groups of links that have a tag, a domain or a creator now, with
	// their clicks in the UTC days [first, end), and the clicks of the workspace.
	GroupRows(ctx context.Context, ws waypost.WorkspaceID, by GroupBy, first, end int32) (GroupsCounted, error)

	// CrossedClicks returns the single clicks of people in a span of UTC days by two names,
	// MaxCrossedNames of each, and all clicks of people there: of a link if it is not 0, of
	// a group, or of all links. It returns EInvalid for too many clicks to read at once.
	CrossedClicks(ctx context.Context, ws waypost.WorkspaceID, q *CrossedQuery, link int64, g LinkGroup,
		s *Span) (cells []CrossedCell, clicks int64, err error)

	// LinksClicks returns the clicks of links in each step of a span, bots included. It
	// leaves out names of unknown links. A link may be named several times.
	LinksClicks(ctx context.Context, ws waypost.WorkspaceID, links []LinkName, s *Span) (map[LinkName][]int64, error)

	// WorkspaceTotals returns the clicks of a workspace in all time.
	WorkspaceTotals(ctx context.Context, ws waypost.WorkspaceID) (clicks, bots int64, err error)

	// NewestLink returns the id of the link of a workspace that was created last; 0 without
	// one.
	NewestLink(ctx context.Context, ws waypost.WorkspaceID) (int64, error)

	// ForgetClicks deletes the clicks of a link, which may be deleted itself, from every
	// table; it is durable and in the audit log when it returns. ForgetClicks returns
	// ENotFound when the workspace has no such link. Clicks that arrive later count
	// again, from zero.
	ForgetClicks(ctx context.Context, by Actor, domain waypost.DomainID, code waypost.Code) (ForgottenClicks, error)
}

// SaltStore keeps the daily salts with which edges hash visitors. It creates them ahead
// and destroys the old ones.
type SaltStore interface {
	// DestroySalt destroys the salt of a day, in days since 1970, UTC, before its time,
	// and notes the actor in the audit log. Once the edges have reached the position, no
	// one can tell the visitors of that day apart, nor read the addresses that the edges'
	// journals still hold. The day never gets another salt: its clicks that arrive later
	// count without a visitor. DestroySalt returns ENotFound when there is no salt of the
	// day.
	DestroySalt(ctx context.Context, by Actor, day int32) (waypost.Position, error)
}

// Clicks reads and deletes statistics.
type Clicks struct {
	links    *Links
	stats    StatsStore
	salts    SaltStore
	progress ProgressStore
	now      func() time.Time
}

func newClicks(cfg *Config, links *Links) *Clicks {
	return &Clicks{links: links, stats: cfg.Store, salts: cfg.Store, progress: cfg.Store, now: cfg.Now}
}

// ForgottenClicks counts the deleted clicks of a link.
type ForgottenClicks struct {
	Clicks, Bots int64 // that it had in all
	Events       int64 // clicks that were stored one by one
}

// ForgetClicks deletes the clicks of a link of the actor's workspace, under the domain
// of a host ("" for the default one). That needs the scope admin.
func (s *Clicks) ForgetClicks(ctx context.Context, actor Actor, host, code string) (ForgottenClicks, error) {
	if !actor.Can(ScopeAdmin) {
		return ForgottenClicks{}, waypost.Errorf(waypost.EForbidden, "clicks are deleted with the scope admin only")
	}
	domain, key, err := s.links.domains.locate(ctx, actor, waypost.HostName(host), code)
	if err != nil {
		return ForgottenClicks{}, err
	}
	return s.stats.ForgetClicks(ctx, actor, domain.ID, key)
}

// ForgetVisitors destroys the salt of a UTC day, so that no one can tell who clicked on
// that day; its clicks that arrive later count without a visitor. That needs
// [Actor.CheckOperator]. It returns ENotFound when the day has no salt.
func (s *Clicks) ForgetVisitors(ctx context.Context, actor Actor, day time.Time) (waypost.Position, error) {
	if err := actor.CheckOperator(); err != nil {
		return waypost.Position{}, err
	}
	return s.salts.DestroySalt(ctx, actor, int32(day.Unix()/(24*60*60)))
}

// GiveUpEdge declares that an edge is gone for good, with its disk, so that statistics no
// longer wait for its clicks. If the edge returns, they wait again, and its clicks are
// counted. That needs [Actor.CheckOperator]. It returns ENotFound when there was no such
// edge, EConflict when the edge was just heard of.
func (s *Clicks) GiveUpEdge(ctx context.Context, actor Actor, node string) error {
	if err := actor.CheckOperator(); err != nil {
		return err
	}
	if !waypost.ValidNode(node) {
		return waypost.Errorf(waypost.ENotFound, "there is no such edge")
	}
	return s.progress.GiveUpEdge(ctx, actor, node, shortestSilence)
}

// Stats finds a link under the default domain for its clicks, also when it has expired.
// It returns ENotFound for an unknown or deleted link.
func (s *Clicks) Stats(ctx context.Context, actor Actor, code string) (waypost.Link, error) {
	return s.links.Read(ctx, actor, "", code)
}

// LinkStats returns the statistics of a link of the actor's workspace, also when it has
// expired, under the domain of a host ("" for the default one). It returns ENotFound for
// an unknown link, EInvalid for an invalid span of time.
func (s *Clicks) LinkStats(ctx context.Context, actor Actor, host, code string, q StatsQuery) (LinkStats, error) {
	now := s.now()
	span, err := NewSpan(q, now)
	if err != nil {
		return LinkStats{}, err
	}
	l, err := s.links.Read(ctx, actor, waypost.HostName(host), code)
	if err != nil {
		return LinkStats{}, err
	}
	own := l.Host + "/" + string(l.Code)
	if n := q.Named; n != nil && n.By == Codes && n.Name == own {
		q.Named = &NameQuery{By: Codes}
	}
	complete, err := s.complete(ctx, &span, now)
	if err != nil {
		return LinkStats{}, err
	}
	counted, err := s.stats.LinkClicks(ctx, actor.Workspace, l.ID, &span, q.Named)
	if err != nil {
		return LinkStats{}, err
	}
	for i, n := range counted.Breakdowns[Codes].Named {
		counted.Breakdowns[Codes].Named[i].Name = cmp.Or(n.Name, own)
	}
	stats := summarize(span, q.Named, &counted)
	stats.Complete = complete
	stats.setTotals(l.Clicks, l.BotClicks)
	stats.Compared, err = s.compare(ctx, q.Compare, &stats, now, func(span *Span) (Counted, error) {
		return s.stats.LinkClicks(ctx, actor.Workspace, l.ID, span, nil)
	})
	if err != nil {
		return LinkStats{}, err
	}
	notes, more, err := s.links.annotations(ctx, actor, &l, &span, now)
	return LinkStats{Link: l, Annotations: notes, More: more, Stats: stats}, err
}

// WorkspaceStats returns the statistics of all links of the actor's workspace.
func (s *Clicks) WorkspaceStats(ctx context.Context, actor Actor, q StatsQuery) (WorkspaceStats, error) {
	if q.Top < 0 || q.Top > MaxTopLinks {
		return WorkspaceStats{}, waypost.Errorf(waypost.EInvalid, "top must be 0 to %d", MaxTopLinks)
	}
	now := s.now()
	span, err := NewSpan(q, now)
	if err != nil {
		return WorkspaceStats{}, err
	}
	complete, err := s.complete(ctx, &span, now)
	if err != nil {
		return WorkspaceStats{}, err
	}
	counted, top, err := s.stats.WorkspaceClicks(ctx, actor.Workspace, &span, q.Named, q.Top)
	if err != nil {
		return WorkspaceStats{}, err
	}
	clicks, bots, err := s.stats.WorkspaceTotals(ctx, actor.Workspace)
	if err != nil {
		return WorkspaceStats{}, err
	}
	stats := summarize(span, q.Named, &counted)
	stats.Complete = complete
	stats.setTotals(clicks, bots)
	stats.Compared, err = s.compare(ctx, q.Compare, &stats, now, func(span *Span) (Counted, error) {
		counted, _, err := s.stats.WorkspaceClicks(ctx, actor.Workspace, span, nil, 0)
		return counted, err
	})
	return WorkspaceStats{Stats: stats, Top: top}, err
}

// complete returns the completeness of a span. The caller reads the counts of the span
// afterwards, because an edge may report clicks between the two reads, and counts that
// were read first would lack these clicks.
func (s *Clicks) complete(ctx context.Context, span *Span, now time.Time) (Completeness, error) {
	nodes, err := s.progress.Progress(ctx)
	if err != nil {
		return Completeness{}, err
	}
	return CompletenessOf(nodes, span.To(), now), nil
}

// News changes with the links and clicks of a workspace, and is cheap to look up.
type News struct {
	Clicks     int64 // in all time
	NewestLink int64 // id of the link that was created last; 0 without one
}

// News returns the numbers that a client compares to detect new links or clicks of the
// actor's workspace.
func (s *Clicks) News(ctx context.Context, actor Actor) (n News, err error) {
	if n.Clicks, _, err = s.stats.WorkspaceTotals(ctx, actor.Workspace); err == nil {
		n.NewestLink, err = s.stats.NewestLink(ctx, actor.Workspace)
	}
	return n, err
}

// eachDay adds the days without clicks.
func eachDay(span *Span, some []NamedDay) []NamedDay {
	first, end := span.Days()
	all := make([]NamedDay, end-first)
	for i := range all {
		all[i].Day = first + int32(i)
	}
	for _, d := range some {
		if d.Day >= first && d.Day < end {
			all[d.Day-first] = d
		}
	}
	return all
}

// summarize sorts counts into the steps of a span.
func summarize(span Span, q *NameQuery, c *Counted) Stats {
	stats := Stats{Span: span, Visitors: c.Visitors, VisitorBots: c.Bots, Series: make([]QuarterClicks, len(span.Bounds)-1)}
	for i := range stats.Series {
		stats.Series[i].At = span.Bounds[i].Unix()
	}
	for _, at := range c.Quarters {
		if i, ok := span.Step(time.Unix(at.At, 0)); ok {
			stats.Series[i].Clicks += at.Clicks
			stats.Series[i].Bots += at.Bots
			stats.Clicks += at.Clicks
			stats.Bots += at.Bots
		}
	}
	for i := range c.Breakdowns {
		stats.Breakdowns[i] = c.Breakdowns[i].top()
	}
	if q != nil {
		stats.Named = eachDay(&span, c.Named)
	}
	return stats
}

// setTotals sets the clicks of all time. It raises them to the clicks of the span, which
// were read at another moment and may be more.
func (s *Stats) setTotals(clicks, bots int64) {
	s.TotalClicks, s.TotalBots = max(clicks, s.Clicks), max(bots, s.Bots)
}
