package postgres

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/replication"
)

// Hear takes in what a follower has seen, at a position that this cluster has signed. A
// database that is behind it, or has another transaction there, went back in time, though no
// control plane has noticed: it gets a new epoch. One that has got it already learns which
// keys were issued before. It takes no longer than a follower may be kept waiting: when
// PostgreSQL does not answer in time, [DB.Watch] sees to it later.
func (db *DB) Hear(ctx context.Context, said replication.Testimony) error {
	ctx, cancel := context.WithTimeout(ctx, hearTimeout)
	defer cancel()
	err := db.hear(ctx, said)
	if err != nil {
		db.unheard.keep(&said)
	}
	return err
}

// hearTimeout is far below the silence after which a follower gives up.
const hearTimeout = time.Second

// unheard is the newest testimony that could not be held against PostgreSQL yet.
type unheard struct {
	atomic.Pointer[replication.Testimony]
}

func (u *unheard) keep(said *replication.Testimony) {
	for {
		kept := u.Load()
		if kept != nil && kept.Position.Revision().Newer(said.Position.Revision()) || u.CompareAndSwap(kept, said) {
			return
		}
	}
}

// hearLate takes in what could not be at its time.
func (db *DB) hearLate(ctx context.Context) error {
	said := db.unheard.Load()
	if said == nil {
		return nil
	}
	err := db.hear(ctx, *said)
	if err == nil {
		db.unheard.CompareAndSwap(said, nil)
	}
	return err
}

func (db *DB) hear(ctx context.Context, said replication.Testimony) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return classify("connect", err)
	}
	defer conn.Release()
	// What this process remembers itself comes first: it is told in full.
	if err := db.checkHistory(ctx, conn.Conn()); err != nil {
		return err
	}
	seen := db.witness.look()
	p := said.Position
	ranges, err := json.Marshal(said.Ranges)
	if err != nil || said.Ranges == nil {
		ranges = []byte("[]") // strings and numbers always marshal
	}
	var epoch uint32
	var forgotten, untold bool
	var b pgx.Batch
	system.first(&b)
	b.Queue(`
		SELECT h.epoch, (h.epoch, h.seq) < ($1::integer, $2::bigint) OR changelog_forked($1, $2, $3),
		       h.epoch > $1 AND EXISTS (
		           SELECT FROM jsonb_to_recordset($4::jsonb) w (prefix integer, lo bigint, hi bigint, next bigint)
		           WHERE NOT EXISTS (SELECT FROM key_range r WHERE r.prefix = w.prefix)
		              OR EXISTS (SELECT FROM key_range r WHERE r.prefix = w.prefix AND r.state <> 'retired'
		                         AND w.lo < r.hi AND least(r.hi, w.next) > r.next))
		FROM changelog_head h`, int32(p.Epoch.Ordinal), int64(p.Seq), int64(p.Stamp), ranges).QueryRow(func(row pgx.Row) error {
		return row.Scan(&epoch, &forgotten, &untold)
	})
	if err := conn.Conn().SendBatch(ctx, &b).Close(); err != nil {
		return classify("hold a follower's position against the history", err)
	}
	switch {
	case forgotten:
		return db.believe(ctx, conn.Conn(), epoch, seen, said)
	case untold:
		// The epoch's memory stays as it is: this is about an older one.
		if err := tellRanges(ctx, conn.Conn(), ranges); err != nil {
			return classify("tell the epoch which keys were issued before", err)
		}
		db.log.Warn("an edge knew of keys that were issued before this epoch", "position", p)
	}
	return nil
}

// believe opens an epoch on a follower's word. What this process remembers is of the
// database after it went back, or of long before: its time says nothing of when the
// forgotten keys were looked at, and only the follower's does.
func (db *DB) believe(ctx context.Context, conn *pgx.Conn, epoch uint32, seen sight, said replication.Testimony) error {
	seen.position, seen.epoch, seen.at = said.Position, 0, 0
	if said.Ranges != nil {
		known := make([]rememberedRange, len(said.Ranges))
		for i, r := range said.Ranges {
			known[i] = rememberedRange(r)
		}
		seen.keys, seen.epoch, seen.at = remembering(known, seen.keys), said.Position.Epoch.Ordinal, float64(said.At)/1000
	}
	return db.openEpoch(ctx, conn, epoch, "PostgreSQL has forgotten commits that an edge has seen", seen)
}
