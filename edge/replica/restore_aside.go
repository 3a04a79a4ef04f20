package replica

import (
	"errors"
	"time"

	"waypost"
	"waypost/edge/aside"
	"waypost/replication"
)

// A restore beside a store that answers redirects stands aside for them. The first one of an edge,
// when there is nothing to answer with, does not.

// late is how long a table may take, or a tenth of that some records, until all that follows no longer stands as
// far aside. With the machine to itself it is some tenths of a second, and a millisecond; redirects that leave
// nothing at all must not keep an edge from becoming current.
const late = 10 * time.Second

func (r *restore) took(d, most time.Duration) {
	if d > most {
		r.late.Store(true)
	}
}

// small is what a restore may have of records, in bytes, without standing aside: it is over at once.
const small = 1 << 20

// disturbs says whether there are redirects that a restore could keep waiting.
func (r *restore) disturbs() bool { return r.volume.Load() > int64(r.db.small) && r.db.live.Load() != nil }

// level says how far it stands aside.
func (r *restore) level() aside.Level {
	if r.late.Load() {
		return aside.Behind
	}
	return aside.Idle
}

// gather takes records into the range that is being taken. The caller has other things to do later, and so
// does not stand aside itself.
func (r *restore) gather(records [][]byte) error {
	for _, raw := range records {
		r.volume.Add(int64(len(raw)))
	}
	if !r.disturbs() {
		return r.add(records)
	}
	if r.giveBack == nil {
		r.giveBack = aside.MakeRoom()
	}
	done := make(chan error, 1)
	go func() {
		aside.Thread(r.level())
		begun := time.Now()
		err := r.add(records)
		r.took(time.Since(begun), late/10)
		done <- err
	}()
	return <-done
}

func (r *restore) add(records [][]byte) error {
	var rec waypost.Record
	for _, raw := range records {
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
