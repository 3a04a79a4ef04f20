package main

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/replication"
)

// freshness remembers when the replica was last at the head, so that redirects
// can ask for its age without a lock. It has that from this process's predecessors,
// and leaves it to its successors: see edge_head.go.
type freshness struct {
	start  time.Time
	at     atomic.Int64 // nanoseconds after start (monotonic); negative: before
	known  atomic.Bool  // false: at is where this process began to count
	latest atomic.Pointer[headSeen]
	news   chan struct{} // has a token when latest may say more than the file

	mu    sync.Mutex // of what follows, held while the disk works; redirects and look stay away from it
	kept  *headSeen  // what the file says of this process
	given bool       // a successor has the directory
	fails bool       // the file could not be written the last time
}

// begin counts from now, or from what the process before it has seen. It is called first,
// and once.
func (f *freshness) begin(now time.Time, before headSeen) {
	f.start, f.news = now, make(chan struct{}, 1)
	if before.at.IsZero() {
		return
	}
	// By the wall clock, which both processes have. If that was set back, nobody knows how
	// long ago it was, and this process counts from its start.
	if ago := now.Round(0).Sub(before.at); ago >= 0 {
		f.at.Store(-int64(min(ago, math.MaxInt64/2)))
		f.known.Store(true)
	}
}

func (f *freshness) age() time.Duration {
	return time.Since(f.start) - time.Duration(f.at.Load())
}

// watch looks at the follower's status until ctx ends.
func (f *freshness) watch(ctx context.Context, status func() replication.Status) {
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		f.look(status())
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// look takes in what a follower knows. Only watch calls it.
func (f *freshness) look(st replication.Status) {
	if lag, known := st.Lag(); !known || lag > 0 || st.AdvancedAt.IsZero() {
		return
	}
	// What comes through others may be older than this process, but nothing takes back what
	// is known already.
	at := int64(st.AdvancedAt.Sub(f.start))
	if f.known.Load() && at <= f.at.Load() {
		return
	}
	f.at.Store(at)
	f.known.Store(true)
	f.latest.Store(&headSeen{at: st.AdvancedAt, origin: st.Head.At, position: st.Position})
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// keepEvery is how old what is kept may be, while the replica is at the head: by so much an
// edge may look too old after a crash.
const keepEvery = 10 * time.Second

// run keeps what watch sees until ctx ends: the first of it at once.
func (f *freshness) run(ctx context.Context, keep func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.news:
		}
		keep()
		select {
		case <-ctx.Done():
			return
		case <-time.After(keepEvery):
		}
	}
}

// headStore is where freshness is kept.
type headStore interface {
	Sync() error
	Synced() waypost.Position
	keepHead(h headSeen) error
}

// save makes durable what has been seen since the last time. Whatever is on the disk after a
// crash was at the head at the time that the file tells, or is newer.
func (f *freshness) save(s headStore, log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	latest := f.latest.Load()
	if f.given || latest == f.kept {
		return
	}
	err := s.Sync()
	if err == nil {
		// A store that fails does not sync, and one that is repaired has no position.
		if on := s.Synced(); on.Epoch != latest.position.Epoch || on.Seq < latest.position.Seq {
			return
		}
		err = s.keepHead(*latest)
	}
	if err == nil {
		f.kept = latest
	} else if !f.fails {
		log.Warn("when the replica was last at the head cannot be written down: after a restart this edge looks older than it is", "error", err)
	}
	f.fails = err != nil
}

// give is save for the last time: a successor writes the file from now on. After takeBack it
// is as before.
func (f *freshness) give(s headStore, log *slog.Logger) {
	f.save(s, log)
	f.mu.Lock()
	f.given = true
	f.mu.Unlock()
}

func (f *freshness) takeBack() {
	f.mu.Lock()
	f.given = false
	f.mu.Unlock()
}
