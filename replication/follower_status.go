package replication

import (
	"time"

	"waypost"
)

// Status is what a follower knows about itself.
type Status struct {
	Connected bool  // to the stream, with a hello received
	Restoring bool  // a snapshot is being taken; the old replica serves
	Repairing bool  // slots that differ are being replaced; the replica serves
	Err       error // why the last connection ended; nil while connected
	Failures  int   // connections in a row that brought nothing
	Held      *Held // what is held back until it is accepted; nil: nothing
	Wait      Wait  // until the source serves fewer snapshots; the old replica serves

	Head       Head      // the origin's, as last heard
	HeardAt    time.Time // when the source was last heard (monotonic); zero: never
	AdvancedAt time.Time // when the origin's clock was last heard to move on
	Via        []string  // the nodes through which the source has its changelog; none: it is the origin
	Position   waypost.Position
	Snapshots  int    // taken and swapped in since the start
	Repairs    int    // that ended well since the start
	Repaired   uint64 // slots that they have replaced
}

// Wait describes a follower whose source serves as many snapshots as it may. The zero Wait
// is of one that does not wait.
type Wait struct {
	Since   time.Time // when the source first refused
	HeardAt time.Time // when it last did
}

// Waits reports whether the follower waits.
func (w Wait) Waits() bool { return !w.Since.IsZero() }

// Lag is how many transactions the replica is behind the head last heard; false
// when that cannot be said: nothing heard yet, another history, or a repair.
func (s Status) Lag() (uint64, bool) {
	if s.HeardAt.IsZero() || s.Repairing || s.Position.Epoch != s.Head.Position.Epoch {
		return 0, false
	}
	return s.Head.Position.Seq - min(s.Position.Seq, s.Head.Position.Seq), true
}

// Status gives a copy of what is known now. Any goroutine may call it.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *Follower) noteConnected(p waypost.Position) {
	f.mu.Lock()
	f.status.Connected, f.status.Err, f.status.Position = true, nil, p
	f.mu.Unlock()
	f.cfg.Logger.Info("following", "url", f.base, "after", p)
}

// noteApplied says that the sink has taken something.
func (f *Follower) noteApplied() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noteTaken()
}

func (f *Follower) notePosition(p waypost.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Position, f.status.Failures = p, 0
}

func (f *Follower) noteEnd(err error, failures int) {
	p := f.cfg.Sink.Position()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Connected, f.status.Err, f.status.Failures, f.status.Position = false, err, failures, p
}

func (f *Follower) noteRestoring(restoring bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Restoring = restoring
}

// noteWaiting says that the source is busy.
func (f *Follower) noteWaiting() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, w := time.Now(), &f.status.Wait
	if !w.Waits() {
		w.Since = now
		f.cfg.Logger.Info("waiting for a busy source", "url", f.base)
	}
	w.HeardAt = now
}

// noteTurn says that it waits no longer.
func (f *Follower) noteTurn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Wait = Wait{}
}

func (f *Follower) noteRepairing(repairing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Repairing = repairing
}

func (f *Follower) noteRepair(p waypost.Position, slots int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Position, f.status.Failures = p, 0
	f.noteTaken()
	f.status.Repairs++
	f.status.Repaired += uint64(slots)
}

func (f *Follower) noteSnapshot(p waypost.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Position, f.status.Failures = p, 0
	f.noteTaken()
	f.status.Snapshots++
}
