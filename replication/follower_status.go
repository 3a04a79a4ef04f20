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
	Wait      Wait  // for a turn to take a snapshot, or what a repair needs; the old replica serves

	Head       Head      // the origin's, as last heard
	HeardAt    time.Time // when the source was last heard (monotonic); zero: never
	AdvancedAt time.Time // when the origin's clock was last heard to move on
	Via        []string  // the nodes through which the source has its changelog; none: it is the origin
	Position   waypost.Position
	Snapshots  int    // taken and swapped in since the start
	Repairs    int    // that ended well since the start
	Repaired   uint64 // slots that they have replaced
}

// Wait is a place in a source's queue; zero: there is none.
type Wait struct {
	Place   int       // from 1 on, for the one that goes next
	Of      int       // how many wait
	Since   time.Time // when this connection began to wait
	HeardAt time.Time // when the source last said so
}

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

// noteWaiting says which place of how many there is in the source's queue.
func (f *Follower) noteWaiting(at, of int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, w := time.Now(), &f.status.Wait
	if w.Place == 0 {
		w.Since = now
		f.cfg.Logger.Info("waiting for its turn: others go first", "url", f.base, "place", at, "of", of)
	}
	w.Place, w.Of, w.HeardAt = at, of, now
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
