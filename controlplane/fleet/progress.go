package fleet

import (
	"context"
	"time"

	"waypost/controlplane"
)

const (
	// noteSlack bounds the delay with which a report is stored: a round of KeepProgress on
	// a slow database.
	noteSlack = 17 * time.Second

	// readNote is the number of rounds of KeepProgress between two reads of the store, and
	// staleNote the greatest age of a read that is shown.
	readNote  = 5
	staleNote = time.Minute
)

// KeepProgress stores the reports of edges every interval (2 s if it is 0), and reads the
// reports to all instances, until ctx ends.
func (f *Fleet) KeepProgress(ctx context.Context, store controlplane.ProgressStore, interval time.Duration) {
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
				f.cfg.Logger.Warn("cannot store the progress of edges", "error", err)
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

func noteProgress(ctx context.Context, store controlplane.ProgressStore, nodes []controlplane.EdgeProgress) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return store.NoteProgress(ctx, nodes)
}

// readNoted reads the edges that report elsewhere. While the read fails, their state is
// unknown: they may be healthy.
func (f *Fleet) readNoted(ctx context.Context, store controlplane.ProgressStore) {
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

// progressSince returns the reports after a time, and the time of the newest of them.
func (f *Fleet) progressSince(since time.Time) (nodes []controlplane.EdgeProgress, newest time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest = since
	for _, n := range f.nodes {
		if !n.seen.After(since) {
			continue
		}
		r := &n.report
		nodes = append(nodes, controlplane.EdgeProgress{
			Node: r.Node, Region: r.Region, Until: r.ClicksUntil, Pending: r.ClicksPending,
			Left: r.Leaving && r.ClicksPending == 0 && !r.ClicksUntil.IsZero(), At: n.seen,
		})
		if n.seen.After(newest) {
			newest = n.seen
		}
	}
	return nodes, newest
}
