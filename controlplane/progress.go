package controlplane

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"waypost"
)

// ProgressStore keeps up to when the clicks of each edge are counted, for all
// instances of the control plane, and beyond their restarts.
type ProgressStore interface {
	// NoteProgress keeps what edges have reported. An unknown Until changes no
	// known one.
	NoteProgress(ctx context.Context, nodes []EdgeProgress) error

	// GiveUpEdge notes that no more clicks are to come from an edge, unless something was
	// heard of it within a time: EConflict. It is durable and in the audit log when it
	// returns. ENotFound: there was no such edge.
	GiveUpEdge(ctx context.Context, by Actor, node string, silent time.Duration) error

	// Progress gives all edges that clicks may still come from, by node.
	Progress(ctx context.Context) ([]EdgeProgress, error)
}

// EdgeProgress is how far the clicks of an edge are counted.
type EdgeProgress struct {
	Node    string
	Region  waypost.Region
	Until   time.Time // clicks before that, by the edge's clock, are counted; zero: unknown
	Pending int64     // clicks that are not counted yet; -1: unknown
	Left    bool      // it has stopped, and everything was counted; or it was given up
	At      time.Time // when it said so; zero to note: now
}

// Completeness is how far counted clicks are all that there were.
type Completeness struct {
	Until  time.Time // clicks before that are counted; zero: unknown
	Behind []string  // nodes whose clicks may be missing in the span, sorted
}

const (
	// reportSlack is by how much an edge's word is older than what it is about, when all is
	// well.
	reportSlack = 15 * time.Second

	// LongestProgress is after how long without a word an edge is no longer waited
	// for. Clicks that are older when they come count at the time of their receipt.
	LongestProgress = 30 * 24 * time.Hour

	// noteSlack is by how much longer than it is an edge seems not to have been heard of,
	// by what is noted, at most: a round of KeepProgress on a slow database.
	noteSlack = 17 * time.Second

	// readNote is how many rounds of KeepProgress pass from one look at what is noted to
	// the next, and staleNote how old that may be to be shown.
	readNote  = 5
	staleNote = time.Minute

	// shortestSilence is for how long nothing must have been heard of an edge that is given
	// up.
	shortestSilence = time.Minute
)

// completeness judges a span that ends at to. Edges that have stopped and have
// shipped everything hold nothing back.
func completeness(nodes []EdgeProgress, to, now time.Time) Completeness {
	var c Completeness
	if now.Before(to) {
		to = now
	}
	unknown := len(nodes) == 0
	for i := range nodes {
		n := &nodes[i]
		if n.Left {
			continue
		}
		if n.Until.IsZero() || n.Until.Before(to) && n.Until.Before(now.Add(-reportSlack)) {
			c.Behind = append(c.Behind, n.Node)
		}
		unknown = unknown || n.Until.IsZero()
		if c.Until.IsZero() || n.Until.Before(c.Until) {
			c.Until = n.Until
		}
	}
	switch {
	case unknown:
		c.Until = time.Time{}
	case c.Until.IsZero() || c.Until.After(now):
		c.Until = now // all have left; or an edge's clock is ahead
	}
	slices.Sort(c.Behind)
	return c
}

// KeepProgress notes every interval (2 s if it is 0) what edges have reported to the
// fleet, and reads what was noted, until ctx ends.
func (f *Fleet) KeepProgress(ctx context.Context, store ProgressStore, interval time.Duration) {
	if interval <= 0 {
		interval = 2 * time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failing := false
	var since time.Time
	for round := 0; ; round++ {
		nodes, newest := f.progressSince(since)
		if len(nodes) > 0 {
			err := noteProgress(ctx, store, nodes)
			if err != nil && !failing && ctx.Err() == nil {
				f.cfg.Logger.Warn("how far the clicks of edges are counted is not kept", slog.Any("error", err))
			}
			if failing = err != nil; !failing {
				since = newest
			}
		}
		if round%readNote == 0 {
			f.readNoted(ctx, store)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func noteProgress(ctx context.Context, store ProgressStore, nodes []EdgeProgress) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return store.NoteProgress(ctx, nodes)
}

// readNoted learns which edges there are beside those that report here. While that
// cannot be read, nothing is known of these: they may be well.
func (f *Fleet) readNoted(ctx context.Context, store ProgressStore) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	began := f.cfg.Now()
	noted, err := store.Progress(ctx)
	if err != nil {
		noted = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noted, f.notedAt = noted, began
}

// progressSince gives what was reported after a moment, and the moment of the newest
// of these reports.
func (f *Fleet) progressSince(since time.Time) (nodes []EdgeProgress, newest time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest = since
	for _, n := range f.nodes {
		if !n.seen.After(since) {
			continue
		}
		r := &n.report
		nodes = append(nodes, EdgeProgress{
			Node: r.Node, Region: r.Region, Until: r.ClicksUntil, Pending: r.ClicksPending,
			Left: r.Leaving && r.ClicksPending == 0 && !r.ClicksUntil.IsZero(), At: n.seen,
		})
		if n.seen.After(newest) {
			newest = n.seen
		}
	}
	return nodes, newest
}
