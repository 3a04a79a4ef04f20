package replication

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waypost"
)

// Status describes a follower.
type Status struct {
	Connected bool  // to the stream, with a hello received
	Restoring bool  // a snapshot is being taken; the old replica serves
	Repairing bool  // slots that differ are being replaced; the replica serves
	Err       error // why the last connection ended; nil while connected
	Failures  int   // connections in a row that brought nothing
	Held      *Held // what is held back until it is accepted; nil: nothing
	Wait      Wait  // until the source serves fewer snapshots; the old replica serves

	Head       Head          // the origin's, as last heard
	HeardAt    time.Time     // when the source was last heard (monotonic); zero: never
	AdvancedAt time.Time     // when the origin's clock was last heard to move on
	Ahead      time.Duration // of the origin's clock over this machine's, as last heard without nodes between; 0: unknown
	Via        []string      // nodes between the origin and the source; none: the source is the origin
	Position   waypost.Position
	Snapshots  int    // taken and swapped in since the start
	Repairs    int    // that ended well since the start
	Repaired   uint64 // slots that they have replaced
}

// Wait describes a follower that waits because its source serves as many snapshots as it
// may. The zero Wait describes a follower that does not wait.
type Wait struct {
	Since   time.Time // when the source first refused
	HeardAt time.Time // when it last did
}

// Waits reports whether the follower waits.
func (w Wait) Waits() bool { return !w.Since.IsZero() }

// Lag returns how many transactions the replica is behind the head last heard; false
// when that is not known: nothing heard yet, another history, or a repair.
func (s Status) Lag() (uint64, bool) {
	if s.HeardAt.IsZero() || s.Repairing || s.Position.Epoch != s.Head.Position.Epoch {
		return 0, false
	}
	return s.Head.Position.Seq - min(s.Position.Seq, s.Head.Position.Seq), true
}

// statusBoard holds a follower's Status. Any goroutine may use it.
type statusBoard struct {
	log *slog.Logger
	url string // of the source, for the log

	mu     sync.Mutex // guards status
	status Status
}

// newStatusBoard continues the status of the sink's last follower.
func newStatusBoard(before Status, url string, log *slog.Logger) *statusBoard {
	before.Connected, before.Restoring, before.Repairing, before.Failures, before.Wait = false, false, false, 0, Wait{}
	return &statusBoard{log: log, url: url, status: before}
}

func (b *statusBoard) get() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

func (b *statusBoard) change(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

func (b *statusBoard) connected(p waypost.Position) {
	level := slog.LevelInfo
	b.change(func(st *Status) {
		st.Connected, st.Err, st.Position = true, nil, p
		if st.Failures&(st.Failures-1) != 0 { // as logEnd does: the source is well, but nothing is applied
			level = slog.LevelDebug
		}
	})
	b.log.Log(context.Background(), level, "following", "url", b.url, "after", p)
}

func (b *statusBoard) disconnected(err error, failures int, p waypost.Position) {
	b.change(func(st *Status) { st.Connected, st.Err, st.Failures, st.Position = false, err, failures, p })
}

// moved notes the sink's position after a frame.
func (b *statusBoard) moved(p waypost.Position) {
	b.change(func(st *Status) { st.Position, st.Failures = p, 0 })
}

// applied notes that the sink has taken something, so that nothing is held back.
func (b *statusBoard) applied() {
	b.change(func(st *Status) {
		if st.Held != nil {
			b.log.Info("nothing is held back any more", "what", st.Held.What)
			st.Held = nil
		}
	})
}

// held notes that the sink holds something back, and logs it when that begins.
func (b *statusBoard) held(h *Held) {
	var was *Held
	b.change(func(st *Status) { was, st.Held = st.Held, h })
	if was == nil || was.What != h.What {
		b.log.Error("the replica holds back a change until an operator accepts it, and serves its present state",
			"what", h.What, "why", h.Why)
	}
}

// busy notes that the source has refused a snapshot.
func (b *statusBoard) busy() {
	b.change(func(st *Status) {
		now := time.Now()
		if !st.Wait.Waits() {
			st.Wait.Since = now
			b.log.Info("waiting for a busy source", "url", b.url)
		}
		st.Wait.HeardAt = now
	})
}

func (b *statusBoard) admitted() { b.change(func(st *Status) { st.Wait = Wait{} }) }

func (b *statusBoard) restoring(is bool) { b.change(func(st *Status) { st.Restoring = is }) }

func (b *statusBoard) repairing(is bool) { b.change(func(st *Status) { st.Repairing = is }) }

func (b *statusBoard) restored(p waypost.Position) {
	b.applied()
	b.change(func(st *Status) {
		st.Position, st.Failures = p, 0
		st.Snapshots++
	})
}

func (b *statusBoard) repaired(p waypost.Position, slots int) {
	b.applied()
	b.change(func(st *Status) {
		st.Position, st.Failures = p, 0
		st.Repairs++
		st.Repaired += uint64(slots)
	})
}

func (b *statusBoard) via(nodes []string) { b.change(func(st *Status) { st.Via = nodes }) }

// heard notes the origin's head. A head that came through other nodes was true at the
// time of the origin's clock, and not when it is heard. If such a head is older than the
// known one, it changes HeardAt only.
func (b *statusBoard) heard(h Head) {
	b.change(func(st *Status) {
		now, first := time.Now(), st.HeardAt.IsZero()
		st.HeardAt = now
		relayed, known := len(st.Via) > 0, st.Head
		if !relayed && !first && h.At != known.At { // the first may be old
			st.Ahead = time.UnixMilli(h.At).Sub(now)
		}
		if relayed && known.Position.Epoch.Ordinal >= h.Position.Epoch.Ordinal && known.At >= h.At {
			return
		}
		switch {
		case !relayed && (h.At > known.At || st.AdvancedAt.IsZero()):
			st.AdvancedAt = now
		case relayed && h.At > 0:
			if then := now.Add(-max(0, now.Sub(time.UnixMilli(h.At)))); then.After(st.AdvancedAt) {
				st.AdvancedAt = then
			}
		}
		st.Head = h
	})
}
