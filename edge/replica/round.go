package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// round is a store's sums by slot as its records on disk were found, one slot after
// another, and as they have changed since. DB.mu guards it.
type round struct {
	sums  [waypost.Slots]replication.Sum
	known [waypost.Slots]bool
	found int // slots that are known
}

// slotChange is what a write changes in a slot's sum.
type slotChange struct {
	slot    uint16
	digest  uint64
	records uint64 // wraps below zero
}

func (r *round) apply(changes []numberedChange) {
	for _, c := range changes {
		r.sums[c.slot].Digest ^= c.digest
		r.sums[c.slot].Records += c.records
	}
}

// verifyLoop adds up the records on disk, slot by slot, one round in each interval, from
// anywhere on, so that a replica that is often restarted is gone through as well.
func (db *DB) verifyLoop(ctx context.Context) {
	pause := db.cfg.VerifyInterval / waypost.Slots
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for slot := uint16(rand.N(waypost.Slots)); ; slot = (slot + 1) % waypost.Slots {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(pause)
		if err := db.verifySlot(ctx, slot); err != nil && ctx.Err() == nil && db.noise.allow() {
			db.cfg.Logger.Error("a slot of the replica cannot be verified", "slot", slot, "error", err)
		}
	}
}

// verifySlot adds up a slot from the disk. What it finds must be what a round before has
// found, with the changes since; and once all slots are known, the whole must be what the
// replica's digest says. If not, a repair is asked for.
func (db *DB) verifySlot(ctx context.Context, slot uint16) error {
	db.mu.Lock()
	st := db.pin(slot)
	if st == nil {
		db.mu.Unlock()
		return nil
	}
	defer st.unpin(slot)
	if db.detached || db.repairing != nil || st.pdb == nil || st.applied.Load().repairing || st.health.failed() != nil {
		db.mu.Unlock()
		return nil // it is at work, or on its way to be replaced
	}
	if st.round == nil {
		st.round = &round{}
	}
	r := st.round
	expected, known := r.sums[slot], r.known[slot]
	r.sums[slot] = replication.Sum{} // gathers what changes while the slot is read
	snapshot := st.pdb.NewSnapshot()
	db.mu.Unlock()

	sums := make([]slotSum, 1)
	err := errors.Join(addUp(ctx, snapshot, slot, slot, sums), snapshot.Close())
	found := &sums[0]

	db.mu.Lock()
	defer db.mu.Unlock()
	if err != nil {
		if pebble.IsCorruptionError(err) {
			st.health.fail(err, true)
		}
		st.round = nil
		return err
	}
	db.metrics.verified.Inc()
	if st.round != r { // a repair came in between
		return nil
	}
	r.sums[slot].Digest ^= found.Digest
	r.sums[slot].Records += found.Records
	switch {
	case found.rotten != nil:
		err = fmt.Errorf("slot %d: %w", slot, found.rotten)
	case known && found.Sum != expected:
		err = fmt.Errorf("slot %d holds %d records with the digest %016x instead of %d with %016x",
			slot, found.Records, found.Digest, expected.Records, expected.Digest)
	case !known:
		r.known[slot] = true
		if r.found++; r.found == waypost.Slots {
			err = r.judge(st.applied.Load())
			db.metrics.rounds.Inc()
		}
	}
	if err != nil {
		st.round = nil
		db.metrics.rotten.Inc()
		st.health.rot(err)
	}
	return nil
}

// judge holds the sums of all slots against what the store says of itself.
func (r *round) judge(s *state) error {
	var all replication.Sum
	for i := range r.sums {
		all.Digest ^= r.sums[i].Digest
		all.Records += r.sums[i].Records
	}
	if all.Digest != s.digest || all.Records != s.records {
		return fmt.Errorf("the records on disk are %d with the digest %016x instead of %d with %016x",
			all.Records, all.Digest, s.records, s.digest)
	}
	return nil
}
