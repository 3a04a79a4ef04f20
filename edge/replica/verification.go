package replica

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"waypost"
	"waypost/replication"
)

// storeSum adds up the records of a store that was opened, in the order of their keys,
// while writes continue. In the end the sum must be the digest of the state. The writer
// of the store owns it.
//
// Pebble takes a damaged end of its MANIFEST for the end, and then lacks its newest
// tables. But every batch rewrites the state, so that the newest one may be in the WAL.
type storeSum struct {
	next   []byte // records before this key are in the sum
	sum    replication.Sum
	rotten error // error of a damaged record; nil: there is none
	begun  time.Time
}

// has reports whether the record of a key is in the sum.
func (c *storeSum) has(key []byte) bool { return bytes.Compare(key, c.next) < 0 }

// addSum adds a change of records that are in the sum.
func (c *storeSum) addSum(change replication.Sum) {
	c.sum.Digest ^= change.Digest
	c.sum.Records += change.Records
}

// addRecord adds a record, or keeps the error with which it was read.
func (c *storeSum) addRecord(r *waypost.Record, err error) {
	if err != nil {
		c.rotten = err
		return
	}
	c.addSum(replication.Sum{Digest: r.Stamp, Records: 1})
}

// compareSum compares the sum with a state.
func (c *storeSum) compareSum(s *state) error {
	if c.rotten != nil {
		return c.rotten
	}
	return compareTotal(c.sum, s)
}

// compareTotal compares the sum of all records on disk with a state.
func compareTotal(all replication.Sum, s *state) error {
	if all.Digest != s.digest || all.Records != s.records {
		return fmt.Errorf("the records on disk are %d with the digest %016x instead of %d with %016x",
			all.Records, all.Digest, s.records, s.digest)
	}
	return nil
}

// unverified reports whether the records are still to be added up. A repair adds them up,
// and a damaged store is repaired or replaced.
func (st *store) unverified() bool {
	return !st.verified.Load() && !st.applied.Load().repairing && !st.health.damaged()
}

// sound reports whether the records have added up, and no damage was found since.
func (st *store) sound() bool { return st.verified.Load() && !st.health.damaged() }

// verify adds up the records of the live store after its start, if filling the table has
// not done that.
func (f *filler) verify(ctx context.Context) error {
	s := f.serving
	s.mu.Lock()
	st := s.live.Load()
	needed := st != nil && st.unverified() && f.usable()
	s.mu.Unlock()
	if !needed {
		return nil
	}
	_, err := f.walk(ctx, st, storeVisit{})
	return err
}

// beginCheck begins to add up the records of a store, if they must be, or again. The
// caller holds serving.mu.
func (st *store) beginCheck(again bool) {
	st.guarded.check = nil
	if st.unverified() || again && st.sound() && !st.applied.Load().repairing {
		st.guarded.check = &storeSum{next: recordStart, begun: time.Now()}
	}
}

// endCheck compares the sum of all records with the state, and asks for a repair if it is
// wrong, or if the records could not be read. The caller holds serving.mu.
func (f *filler) endCheck(w *storeWalk, unreadable error) {
	st := w.st
	c := st.guarded.check
	if c == nil { // it was not needed, or a repair came in between
		return
	}
	st.guarded.check = nil
	damage := unreadable
	if damage == nil {
		damage = c.compareSum(st.applied.Load())
	}
	if w.added != nil {
		w.added(c.sum, damage)
	}
	if damage != nil {
		f.metrics.rotten.Inc()
		st.health.rot(damage)
		return
	}
	f.metrics.rounds.Inc()
	st.verified.Store(true)
	f.cfg.Logger.Info("verified the replica: its records add up to its digest",
		"records", c.sum.Records, "seconds", time.Since(c.begun).Seconds())
}

// Verification is the result of adding up all records of a replica.
type Verification struct {
	Records  uint64
	Position waypost.Position // at the end
	Damage   error            // nil: the records add up to the digest; else a repair follows
}

// verified is the answer to a call of Verify.
type verified struct {
	Verification
	err error
}

// Verify reads all records on disk, and compares them with their checksums and, added up,
// with the digest that the control plane has signed, while the replica serves and takes
// changes. The error says why that was not possible.
func (db *DB) Verify(ctx context.Context) (Verification, error) {
	answer := make(chan verified, 1)
	select {
	case db.filler.verifications <- answer:
	case <-ctx.Done():
		return Verification{}, fmt.Errorf("wait for the replica: %w", ctx.Err())
	case <-db.stopped:
		return Verification{}, errClosed
	}
	select {
	case v := <-answer:
		return v.Verification, v.err
	case <-ctx.Done():
		return Verification{}, fmt.Errorf("verify the replica: %w", ctx.Err())
	case <-db.stopped:
		return Verification{}, errClosed
	}
}

// verifyAgain adds up the records of the live store, whether they have been or not.
func (f *filler) verifyAgain(ctx context.Context) (v verified) {
	s := f.serving
	s.mu.Lock()
	st := s.live.Load()
	var why error
	switch {
	case st == nil:
		why = errEmpty
	case !f.usable():
		why = errClosed
	case st.health.failed() != nil:
		v.Damage = st.health.failed().err
	case st.applied.Load().repairing:
		why = errRepairing
	}
	s.mu.Unlock()
	if why != nil || v.Damage != nil {
		v.err = why
		return v
	}
	added := false
	live, err := f.walk(ctx, st, storeVisit{added: func(sum replication.Sum, damage error) {
		added, v.Records, v.Position, v.Damage = true, sum.Records, st.applied.Load().position, damage
	}})
	switch {
	case added:
	case err != nil:
		v.err = err
	case !live:
		v.err = errReplaced
	default:
		v.err = errRepairing
	}
	return v
}

// Reasons for which records were not added up.
var (
	errRepairing = waypost.Errorf(waypost.EUnavailable, "the replica is being repaired")
	errReplaced  = waypost.Errorf(waypost.EUnavailable, "a snapshot has replaced the replica meanwhile")
)
