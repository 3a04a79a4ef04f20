package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waypost"
)

// HoldKind is a reason for which a replica does not take a change.
type HoldKind string

// The reasons.
const (
	HoldMassDelete    HoldKind = "mass-delete"    // very many links would go at once
	HoldEmptySnapshot HoldKind = "empty-snapshot" // a snapshot, or a repair, would leave far less than is held
	HoldRecord        HoldKind = "record"         // a record is of an unknown version, too large, or damaged
)

// Held is the error of a sink that does not take a change until an operator accepts it.
// Nothing is changed, and the replica serves its present state.
type Held struct {
	What HoldKind
	Why  string
	At   waypost.Position // of a mass deletion: that of the first transaction that is not taken
}

func (h *Held) Error() string { return fmt.Sprintf("held (%s): %s", h.What, h.Why) }

// heldBy returns the hold in an error. A record that cannot be understood, in a frame
// with the right checksum, is a hold too, because skipping the record would lose it, and
// asking again at once does not help.
func heldBy(err error) (*Held, bool) {
	if h, ok := errors.AsType[*Held](err); ok {
		return h, true
	}
	if errors.Is(err, ErrRecord) && !errors.Is(err, ErrDiverged) {
		return &Held{What: HoldRecord, Why: err.Error()}, true
	}
	return nil, false
}

var errNothingHeld = errors.New("nothing is held")

// Accept lets the sink take the change that it holds back, and returns its kind. An empty
// kind accepts any. A record that cannot be understood is only tried again. Any goroutine
// may call it.
func (f *Follower) Accept(what HoldKind) (HoldKind, error) {
	st := f.Status()
	switch {
	case st.Held == nil:
		return "", errNothingHeld
	case what != "" && what != st.Held.What:
		return "", fmt.Errorf("what is held is %s and not %s", st.Held.What, what)
	}
	upTo := st.Head.Position
	if at := st.Held.At; at.Epoch == upTo.Epoch && at.Seq > upTo.Seq { // a repair may have heard of more
		upTo = at
	}
	f.cfg.Sink.Accept(st.Held.What, upTo)
	select {
	case f.accepted <- struct{}{}:
	default:
	}
	return st.Held.What, nil
}

// readWhileHeld reads on and applies nothing, until the held change is accepted or is to
// be tried again, or the connection ends.
func (f *Follower) readWhileHeld(d *sourceConn) error {
	until := time.Now().Add(f.cfg.HoldRetry)
	for {
		t, _, payload, err := d.next()
		if err != nil {
			if reset, ok := errors.AsType[*resetError](err); ok {
				f.diverged = reset
			}
			return err
		}
		if t == frameHeartbeat || t == frameReport {
			err = f.takeOther(d, t, payload)
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

// awaitAcceptance waits, without a connection, until the held change is accepted or is
// to be tried again.
func (f *Follower) awaitAcceptance(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.accepted:
	case <-time.After(f.cfg.HoldRetry):
	}
	return nil
}

// Serves reports whether a record leads a visitor anywhere at a time, Unix milliseconds.
func Serves(r *waypost.Record, at int64) bool {
	return r.Kind.IsLink() && r.State == waypost.Live && (r.ExpiresAt == 0 || r.ExpiresAt > at)
}
