package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
)

// ProgressStore keeps the time up to which the clicks of each edge are counted, for all
// instances of the control plane, across restarts.
type ProgressStore interface {
	// NoteProgress stores the reports of edges. An unknown Until does not replace a known
	// Until.
	NoteProgress(ctx context.Context, nodes []EdgeProgress) error

	// GiveUpEdge stores that an edge will send no further clicks. It returns EConflict
	// when the edge has reported within the time silent, and ENotFound when there was no
	// such edge. The change is durable and in the audit log when GiveUpEdge returns.
	GiveUpEdge(ctx context.Context, by Actor, node string, silent time.Duration) error

	// Progress returns all edges from which clicks may still come, by node.
	Progress(ctx context.Context) ([]EdgeProgress, error)
}

// EdgeProgress says how far the clicks of an edge are counted.
type EdgeProgress struct {
	Node    string
	Region  waypost.Region
	Until   time.Time // clicks before that, by the edge's clock, are counted; zero: unknown
	Pending int64     // clicks that are not counted yet; -1: unknown
	Left    bool      // it has stopped and all clicks are counted, or it was given up
	At      time.Time // time of the report; zero to store: now
}

// Completeness says up to when all clicks are counted.
type Completeness struct {
	Until  time.Time // clicks before that are counted; zero: unknown
	Behind []string  // nodes with clicks that may be missing in the span, sorted
}

const (
	// reportSlack is the normal age of the newest report of a healthy edge.
	reportSlack = 15 * time.Second

	// LongestProgress is the silence after which statistics no longer wait for an edge.
	// Clicks that are older on arrival count at the time of their receipt.
	LongestProgress = 30 * 24 * time.Hour

	// shortestSilence is the silence that an edge must have kept before it is given up.
	shortestSilence = time.Minute
)

// CompletenessOf returns the completeness of a span that ends at to. Edges that have
// stopped and have shipped everything do not count.
func CompletenessOf(nodes []EdgeProgress, to, now time.Time) Completeness {
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
