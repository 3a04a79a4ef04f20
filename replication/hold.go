package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waypost"
)

// HoldKind is a reason for which a replica does not take what it is asked to.
type HoldKind string

// The reasons.
const (
	HoldMassDelete    HoldKind = "mass-delete"    // very many links would go at once
	HoldEmptySnapshot HoldKind = "empty-snapshot" // a snapshot, or a repair, would leave far less than is held
	HoldRecord        HoldKind = "record"         // a record is of an unknown version, too large, or not what was written
)

// Held is the error of what a sink does not take until it is accepted. Nothing is changed, and what
// is held serves.
type Held struct {
	What HoldKind
	Why  string
	At   waypost.Position // of a mass deletion: that of the first transaction that is not taken
}

func (h *Held) Error() string { return fmt.Sprintf("held (%s): %s", h.What, h.Why) }

// Accepter is a Sink that holds back what looks like an accident: its Apply, and that of its repairs, their Judge
// and Replace, and Commit of its restores may fail with [Held].
type Accepter interface {
	Sink

	// Accept lets pass what is held back: of mass deletions those up to a position, of
	// snapshots and repairs the next. Any goroutine may call it.
	Accept(what HoldKind, upTo waypost.Position)
}

// heldBy finds out whether an error is a hold. A record that cannot be understood, in a frame whose checksum
// holds, is one as well: passing it over would lose it, and asking again at once does not help.
func heldBy(err error) (*Held, bool) {
	if h, ok := errors.AsType[*Held](err); ok {
		return h, true
	}
	if errors.Is(err, ErrRecord) && !errors.Is(err, ErrDiverged) {
		return &Held{What: HoldRecord, Why: err.Error()}, true
	}
	return nil, false
}

// errNothingHeld answers who accepts what is not held.
var errNothingHeld = errors.New("nothing is held")

// Accept lets the sink take what is held back, which it names; what "" is anything. Of a record that cannot be
// understood it only tries again. Any goroutine may call it.
func (f *Follower) Accept(what HoldKind) (HoldKind, error) {
	st := f.Status()
	switch {
	case st.Held == nil:
		return "", errNothingHeld
	case what != "" && what != st.Held.What:
		return "", fmt.Errorf("what is held is %s and not %s", st.Held.What, what)
	}
	if sink, ok := f.cfg.Sink.(Accepter); ok {
		upTo := st.Head.Position
		if at := st.Held.At; at.Epoch == upTo.Epoch && at.Seq > upTo.Seq { // a repair may have heard of more
			upTo = at
		}
		sink.Accept(st.Held.What, upTo)
	}
	select {
	case f.accepted <- struct{}{}:
	default:
	}
	return st.Held.What, nil
}

// noteHeld says that the sink holds something back, in the log when that begins.
func (f *Follower) noteHeld(h *Held) {
	f.mu.Lock()
	was := f.status.Held
	f.status.Held = h
	f.mu.Unlock()
	if was == nil || was.What != h.What {
		f.cfg.Logger.Error("the replica holds back what it is asked to do, and serves what it has, until somebody accepts it",
			"what", h.What, "why", h.Why)
	}
}

// noteTaken says that nothing is held back any more. f.mu is held.
func (f *Follower) noteTaken() {
	if f.status.Held != nil {
		f.cfg.Logger.Info("nothing is held back any more", "what", f.status.Held.What)
		f.status.Held = nil
	}
}

// whileHeld reads on, and applies nothing, until what is held is accepted, or is to be tried again, or the
// connection ends.
func (f *Follower) whileHeld(d *dial) error {
	until := time.Now().Add(f.cfg.HoldRetry)
	for {
		t, _, payload, err := d.next()
		if err != nil {
			if reset, ok := errors.AsType[*resetError](err); ok {
				f.diverged = reset
			}
			return err
		}
		switch t {
		case frameHeartbeat:
			err = f.beat(payload, d)
		case frameAsk:
			if f.cfg.Asked != nil {
				f.cfg.Asked()
			}
		default: // what follows on what is held
		}
		if errors.Is(err, ErrDiverged) {
			f.diverged = err
		}
		if err != nil {
			return err
		}
		select {
		case <-f.accepted:
			return nil
		default:
		}
		if time.Now().After(until) {
			return nil
		}
	}
}

// awaitAcceptance waits, without a connection, until what is held is accepted or is to be tried again.
func (f *Follower) awaitAcceptance(ctx context.Context) error {
	timer := time.NewTimer(f.cfg.HoldRetry)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.accepted:
	case <-timer.C:
	}
	return nil
}

// Serves reports whether a record leads a visitor anywhere at a moment, Unix milliseconds.
func Serves(r *waypost.Record, at int64) bool {
	return r.Kind == waypost.KindLink && r.State == waypost.Live && (r.ExpiresAt == 0 || r.ExpiresAt > at)
}
