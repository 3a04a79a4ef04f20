package node

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/replication"
)

// freshness remembers when the replica was last at the head, so that redirects can ask
// for its age without a lock. It inherits that time from the process before, and keeps it
// for the next one: see head.go.
type freshness struct {
	start  time.Time
	at     atomic.Int64 // nanoseconds after start (monotonic); negative: before
	known  atomic.Bool  // false: at is the start of this process
	latest atomic.Pointer[headSeen]
	news   chan struct{} // holds a token when latest may be newer than the file

	kept  *headSeen // contents of the file, by this process; owned by the goroutine that saves
	fails bool      // the last write of the file failed; owned likewise
}

// startAt counts the age from now, or from the last head that the process before has
// seen. It is called first, and once.
func (f *freshness) startAt(now time.Time, before headSeen) {
	f.start, f.news = now, make(chan struct{}, 1)
	if before.at.IsZero() {
		return
	}
	// The two processes share only the wall clock. If that was set back, the time in
	// between is unknown, and this process counts from its start.
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
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		f.noteStatus(status())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// noteStatus takes in the status of a follower. Only watch calls it.
func (f *freshness) noteStatus(st replication.Status) {
	if lag, known := st.Lag(); !known || lag > 0 || st.AdvancedAt.IsZero() {
		return
	}
	// News through other edges may be older than this process, and never replaces newer
	// news.
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

// keepEvery bounds the age of the file while the replica is at the head. After a crash an
// edge may look older by this much.
const keepEvery = 10 * time.Second

// run calls keep until ctx ends: at once, and then for news.
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

// headStore keeps the time at which the replica was last at the head.
type headStore interface {
	Sync() error
	Synced() waypost.Position
	keepHead(h headSeen) error
}

// save makes the newest head seen durable, if it has changed since the last call. The
// replica that a crash leaves was at the head at the time in the file, or is newer.
func (f *freshness) save(s headStore, log *slog.Logger) {
	latest := f.latest.Load()
	if latest == f.kept {
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
		log.Warn("cannot write down when the replica was last at the head: after a restart this edge looks older than it is", "error", err)
	}
	f.fails = err != nil
}
