package replica

import (
	"errors"

	"waypost"
	"waypost/edge/aside"
	"waypost/replication"
)

// A restore beside a store that answers redirects stands aside for them. The first one of an edge,
// when there is nothing to answer with, does not.

// restoreThreads is how many goroutines of a restore stand aside at once: one that makes a table of a snapshot, and one that fills
// the lookup table beside it. What the next is made of is gathered where long batches are applied.
const restoreThreads = 2

// small is what a restore may have of records, in bytes, without standing aside: it is over at once.
const small = 1 << 20

// disturbs says whether there are redirects that a restore could keep waiting.
func (r *restore) disturbs() bool {
	return r.volume.Load() > int64(r.db.small) && r.db.live.Load() != nil
}

// takeTurn waits for a turn where there are redirects to keep waiting. What it gives is to be told how it goes on.
func (r *restore) takeTurn() *turns {
	if !r.disturbs() {
		return nil
	}
	r.turns.take()
	return r.turns
}

// gather takes records into the range that is being taken. The caller has other things to do later, and so
// does not stand aside itself.
func (r *restore) gather(records [][]byte) error {
	for _, raw := range records {
		r.volume.Add(int64(len(raw)))
	}
	if !r.disturbs() {
		return r.add(records, nil)
	}
	if r.giveBack == nil {
		r.giveBack = aside.MakeRoom(restoreThreads)
	}
	return r.db.lengthily(true, func() error {
		turns := r.takeTurn()
		defer turns.end()
		return r.add(records, turns)
	})
}

func (r *restore) add(records [][]byte, turns *turns) error {
	var rec waypost.Record
	for i, raw := range records {
		turns.pass(i)
		err := replication.DecodeRecord(raw, &rec)
		if err != nil && !errors.Is(err, replication.ErrContent) {
			return err
		}
		if rec.State != waypost.Purged {
			r.pending.add(&rec, raw, err != nil)
		}
	}
	return nil
}
