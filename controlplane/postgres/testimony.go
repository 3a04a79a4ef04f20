package postgres

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"waypost/replication"
)

// Hear takes in what a follower has seen, at a position that this cluster has signed. A
// database that is behind it, or has another transaction there, went back in time, though no
// control plane has noticed: it gets a new epoch, in which keys are held back. It takes no
// longer than a follower may be kept waiting: when PostgreSQL does not answer in time,
// [DB.Watch] sees to it later.
func (db *DB) Hear(ctx context.Context, said replication.Testimony) error {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.HearTimeout)
	defer cancel()
	err := db.hear(ctx, said)
	if err != nil {
		db.unheard.keep(&said)
	}
	return err
}

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
	// What this process remembers itself comes first: it knows the keys.
	if err := db.checkHistory(ctx, conn.Conn()); err != nil {
		return err
	}
	seen := db.witness.look()
	p := said.Position
	var epoch uint32
	var forgotten bool
	var b pgx.Batch
	system.first(&b)
	b.Queue(`SELECT h.epoch, (h.epoch, h.seq) < ($1::integer, $2::bigint) OR changelog_forked($1, $2, $3) FROM changelog_head h`,
		int32(p.Epoch.Ordinal), int64(p.Seq), int64(p.Stamp)).QueryRow(func(row pgx.Row) error { return row.Scan(&epoch, &forgotten) })
	if err := conn.Conn().SendBatch(ctx, &b).Close(); err != nil {
		return classify("hold a follower's position against the history", err)
	}
	if !forgotten {
		return nil
	}
	// A follower cannot tell which keys were issued before, in a way that could be believed. This process does
	// not reach as far, or it would have noticed: its memory may be of the database after that went back. So
	// the epoch has no witness of the keys, and an operator decides.
	seen.position, seen.epoch, seen.at = p, 0, 0
	return db.openEpoch(ctx, conn.Conn(), epoch, "PostgreSQL has forgotten commits that an edge has seen", seen)
}
