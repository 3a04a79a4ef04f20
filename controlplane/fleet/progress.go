package fleet

import (
	"context"
	"errors"
	"time"

	"waypost"
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

// KeepProgress stores the reports of edges every interval (2 s if it is 0), reads the
// reports to all instances, and warns of twins, until ctx ends.
func (f *Fleet) KeepProgress(ctx context.Context, store controlplane.ProgressStore, interval time.Duration) {
	if interval <= 0 {
		interval = 2 * time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failing := false
	var since time.Time
	for round := 0; ; round++ {
		nodes, boots, newest := f.progressSince(since)
		if len(nodes) > 0 {
			err := f.noteProgress(ctx, store, nodes, boots)
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
		f.warnOfTwins()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (f *Fleet) noteProgress(ctx context.Context, store controlplane.ProgressStore, nodes []controlplane.EdgeProgress, boots []Boot) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return errors.Join(f.cfg.Boots.NoteBoots(ctx, boots), store.NoteProgress(ctx, nodes))
}

// readNoted reads the edges that report elsewhere, and drops the boots that others have
// followed. While the read fails, their state is unknown: they may be healthy.
func (f *Fleet) readNoted(ctx context.Context, store controlplane.ProgressStore) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	began := f.cfg.Now()
	noted, err := store.Progress(ctx)
	boots, bootsErr := f.cfg.Boots.Boots(ctx)
	if err != nil || bootsErr != nil {
		noted, boots = nil, nil
	}
	serving := make(map[bootKey]Boot, len(boots))
	for _, b := range boots {
		serving[bootKey{b.Node, b.ID}] = b
	}
	f.mu.Lock()
	f.noted, f.serving, f.notedAt = noted, serving, began
	followed := f.followed(f.cfg.Now())
	f.mu.Unlock()
	if err := f.cfg.Boots.DropBoots(ctx, followed); err != nil && ctx.Err() == nil {
		f.cfg.Logger.Warn("cannot drop boots of edges that others have followed", "error", err)
	}
}

// progressSince returns the reports after a time, and the time of the newest of them.
func (f *Fleet) progressSince(since time.Time) (nodes []controlplane.EdgeProgress, boots []Boot, newest time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest = since
	last := make(map[string]*fleetNode) // by name, because statistics know no boots
	for _, n := range f.nodes {
		if !n.seen.After(since) {
			continue
		}
		boots = append(boots, *n.boot())
		if o := last[n.report.Node]; o == nil || n.seen.After(o.seen) {
			last[n.report.Node] = n
		}
		if n.seen.After(newest) {
			newest = n.seen
		}
	}
	for _, n := range last {
		r := &n.report
		nodes = append(nodes, controlplane.EdgeProgress{
			Node: r.Node, Region: waypost.Region(r.Region), Until: r.ClicksUntil, Pending: r.ClicksPending,
			Left: r.Leaving && r.ClicksPending == 0 && !r.ClicksUntil.IsZero(), At: n.seen,
		})
	}
	return nodes, boots, newest
}

// warnOfTwins logs once that several edges report under one name.
func (f *Fleet) warnOfTwins() {
	found := make(map[string]bool)
	for _, e := range f.Edges() {
		if len(e.Twins) == 0 {
			continue
		}
		if found[e.Node] = true; !f.twins[e.Node] {
			f.cfg.Logger.Warn("found several edges that report under one name, such as an edge and a copy of its disk; no change counts as applied there",
				"node", e.Node, "addr", e.Addr, "others", e.Twins)
		}
	}
	f.twins = found
}
