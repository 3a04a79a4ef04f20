package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/time/rate"

	"waypost"
	"waypost/replication"
)

// scrubber verifies the records on disk, slot by slot, one round in each interval. A
// round begins at a random slot, so that a replica that is often restarted is verified as
// a whole too.
type scrubber struct {
	cfg     *Config
	metrics *metrics
	serving *serving
	noise   *rate.Limiter
}

// scrub holds a store's sums by slot as its records were found on disk, one slot after
// another, and as writes have changed them since. serving.mu guards it.
type scrub struct {
	sums  [waypost.Slots]replication.Sum
	known [waypost.Slots]bool
	found int // slots that are known
}

// slotChange is the change of a slot's sum by a write.
type slotChange struct {
	slot    uint16
	digest  uint64
	records uint64 // wraps below zero
}

func (r *scrub) apply(changes []numberedChange) {
	for _, c := range changes {
		r.sums[c.slot].Digest ^= c.digest
		r.sums[c.slot].Records += c.records
	}
}

func (s *scrubber) scrubLoop(ctx context.Context) {
	pause := s.cfg.VerifyInterval / waypost.Slots
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for slot := uint16(rand.N(waypost.Slots)); ; slot = (slot + 1) % waypost.Slots {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(pause)
		if err := s.verifySlot(ctx, slot); err != nil && ctx.Err() == nil && s.noise.Allow() {
			s.cfg.Logger.Error("cannot verify a slot of the replica", "slot", slot, "error", err)
		}
	}
}

// verifySlot adds up a slot from the disk. The sum must be the one of an earlier round,
// with the changes since; and once all slots are known, their total must be the digest of
// the replica. Otherwise it asks for a repair.
func (s *scrubber) verifySlot(ctx context.Context, slot uint16) error {
	mu := &s.serving.mu
	mu.Lock()
	st := s.serving.pin(slot)
	if st == nil {
		mu.Unlock()
		return nil
	}
	defer st.unpin(slot)
	if mu.repairing != nil || st.applied.Load().repairing || st.health.failed() != nil {
		mu.Unlock()
		return nil // it is under repair, or will be replaced
	}
	if st.guarded.scrub == nil {
		st.guarded.scrub = &scrub{}
	}
	r := st.guarded.scrub
	expected, known := r.sums[slot], r.known[slot]
	r.sums[slot] = replication.Sum{} // collects the changes while the slot is read
	snapshot := st.pdb.NewSnapshot()
	mu.Unlock()

	sums := make([]slotSum, 1)
	err := errors.Join(addUp(ctx, snapshot, slot, slot, sums), snapshot.Close())
	found := &sums[0]

	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		if pebble.IsCorruptionError(err) {
			st.health.fail(err, true)
		}
		st.guarded.scrub = nil
		return err
	}
	s.metrics.verified.Inc()
	if st.guarded.scrub != r { // a repair came in between
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
			err = r.compareSums(st.applied.Load())
			s.metrics.rounds.Inc()
		}
	}
	if err != nil {
		st.guarded.scrub = nil
		s.metrics.rotten.Inc()
		st.health.rot(err)
	}
	return nil
}

// compareSums compares the sums of all slots with the state of the store.
func (r *scrub) compareSums(s *state) error {
	var all replication.Sum
	for i := range r.sums {
		all.Digest ^= r.sums[i].Digest
		all.Records += r.sums[i].Records
	}
	return compareTotal(all, s)
}
