package postgres

import (
	"sync/atomic"
	"time"
)

// clock reports PostgreSQL's time without asking, so that an expiry means the same
// whichever control plane computes it. It may be used by many goroutines.
type clock struct {
	ahead atomic.Int64 // nanoseconds by which PostgreSQL's clock is ahead of this machine's
}

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// heard notes a time that PostgreSQL reported, to the millisecond. It was asked at the
// moment after. The known difference stays while it is possible, because a new one would
// be no more exact than the round trip.
func (c *clock) heard(after, told time.Time) {
	least, most := time.Until(told), told.Sub(after)+time.Millisecond
	if known := time.Duration(c.ahead.Load()); known < least || known > most {
		c.ahead.Store(int64((least + most) / 2))
	}
}

// Now returns the time by PostgreSQL's clock, as of the last connection or look at the
// head. It does not block.
func (db *DB) Now() time.Time { return db.pool.clock.now() }
