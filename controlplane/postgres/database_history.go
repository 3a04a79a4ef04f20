package postgres

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/postgres/scoped"
	"waypost/replication"
)

// DatabaseHistory notices that PostgreSQL went back in time, and then opens a new epoch
// of the changelog. It implements controlplane.DigestStore.
type DatabaseHistory struct {
	pool    *pool
	cfg     Config
	unheard unheard
}

// checkHistory runs on every new connection, before anything else does. It looks without
// the head lock first; changelog_open_epoch looks again under it. Every error has the
// code EUnavailable, because a connection that cannot be made is never the fault of a
// request's data.
func (db *DatabaseHistory) checkHistory(ctx context.Context, conn *pgx.Conn) error {
	err := db.history(ctx, conn)
	if err != nil && waypost.CodeOf(err) != waypost.EUnavailable {
		return waypost.WrapError(waypost.EUnavailable, "the database cannot be used at the moment", err)
	}
	return err
}

// history compares the database with itself at the start of its epoch, and with the
// high-water mark. A database that went back in time gets a new epoch; if another control
// plane has opened the epoch, it learns of the keys that this process has seen.
func (db *DatabaseHistory) history(ctx context.Context, conn *pgx.Conn) error {
	var standby, same, forked bool
	var told time.Time
	asked := time.Now()
	if err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery(), clock_timestamp()`).Scan(&standby, &told); err != nil {
		return err
	}
	db.pool.clock.heard(asked, told)
	if standby {
		return waypost.Errorf(waypost.EUnavailable, "this PostgreSQL is a standby: point the control plane at the primary")
	}
	if db.cfg.ReadOnly {
		return nil
	}
	seen := db.pool.highWater.current() // before the head is read, which others go on moving
	var head begun
	var cluster *string
	var secret []byte
	err := scoped.Operator.QueryRowOn(ctx, conn, `
		SELECT h.epoch, e.id, h.seq, (e.system_identifier, e.timeline) = (i.system_identifier, i.timeline),
		       changelog_forked($1, $2, $3, $4), (SELECT id::text FROM cluster), (SELECT secret_check FROM cluster)
		FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch, waypost_history() i`,
		[]any{int32(seen.position.Epoch.Ordinal), seen.position.Epoch.ID, int64(seen.position.Seq), int64(seen.position.Stamp)},
		&head.epoch, &head.id, &head.seq, &same, &forked, &cluster, &secret)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if s := db.cfg.Secret; s != nil && secret != nil && !hmac.Equal(secret, SecretCheck(*s)) {
		return errOtherSecret
	}
	if err := seen.checkCluster(cluster); err != nil {
		return err
	}
	own := head.position()
	newer := seen.superseded(own.Epoch)
	var reason string
	switch {
	case same && newer != nil:
		// An epoch opened now would be above the one that edges have seen elsewhere. The
		// operator who decides may know that this PostgreSQL has gone back besides.
		if err := db.supersede(ctx, conn, *newer, own.Epoch); !isSuperseded(err) {
			return err
		}
		return nil
	case !same:
		reason = "PostgreSQL has another identity: it was failed over or restored"
	case seen.revision().Newer(own.Revision()):
		reason = "PostgreSQL has forgotten commits that this control plane has seen"
	case forked:
		reason = "PostgreSQL has other commits than those that this control plane has seen"
	case seen.foreign(own.Epoch.Ordinal):
		return db.tell(ctx, conn, seen)
	default:
		silent, err := db.unremembered(ctx, conn, seen)
		if err != nil || !silent {
			return err
		}
		reason = "no control plane was seen for " + longestSilence.String() + ", so that PostgreSQL may be an old copy of itself"
		seen.position.Epoch, seen.position.Seq = own.Epoch, own.Seq+1 // as if it were
	}
	return db.openEpoch(ctx, conn, own.Epoch.Ordinal, reason, seen)
}

// longestSilence is the time without any control plane after which a control plane
// without a high-water mark takes the database for an old copy.
const longestSilence = 10 * time.Minute

// unremembered reports whether keys may have been issued that no process remembers: this
// process should have a high-water mark and lacks it, and no other control plane was
// there recently. A copy of the files has the identity of PostgreSQL, so no other check
// detects it.
func (db *DatabaseHistory) unremembered(ctx context.Context, conn *pgx.Conn, seen sight) (silent bool, err error) {
	if db.cfg.Memory == nil || seen.cluster != "" || seen.epoch != 0 {
		return false, nil
	}
	err = scoped.Operator.QueryRowOn(ctx, conn, `
		SELECT EXISTS (SELECT FROM key_lease)
		   AND greatest((SELECT max(seen_at) FROM control_node), (SELECT max(c.at) FROM changelog c WHERE c.seq = h.seq), e.opened_at)
		       < clock_timestamp() - $1::interval
		FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch`, []any{longestSilence}, &silent)
	if err != nil {
		return false, fmt.Errorf("look for other control planes: %w", err)
	}
	return silent, nil
}

func (db *DatabaseHistory) openEpoch(ctx context.Context, conn *pgx.Conn, epoch uint32, reason string, seen sight) error {
	var opened bool
	var skipped *int64
	var held *string
	err := scoped.Operator.QueryRowOn(ctx, conn, `SELECT opened, skipped, held_back
		FROM changelog_open_epoch($1, $2, $3, $4, $5, $6, $7::jsonb, least($8, key_prefix_size() / 50000.0), $9)`,
		[]any{
			reason, int32(epoch), int32(seen.position.Epoch.Ordinal), seen.position.Epoch.ID, int64(seen.position.Seq),
			int64(seen.position.Stamp), seen.mark(), peakRate, leasesUnseen,
		}, &opened, &skipped, &held)
	if err != nil {
		return fmt.Errorf("open an epoch: %w", err)
	}
	switch {
	case opened && held != nil:
		db.pool.Log.Error("opened a new epoch of the changelog; no key is issued until 'waypost ranges resume'", "reason", *held)
	case opened:
		db.pool.Log.Warn("opened a new epoch of the changelog", "reason", reason, "skipped_counters", scoped.Deref(skipped))
	default:
		return db.history(ctx, conn) // another process was faster, but the high-water mark still counts
	}
	db.beginMark(ctx, conn, seen)
	return nil
}

// beginMark starts a new high-water mark in an epoch that knows the old one, with a
// complete look. Without the look the next change of history holds the keys back.
func (db *DatabaseHistory) beginMark(ctx context.Context, conn *pgx.Conn, seen sight) {
	db.pool.highWater.beginEpoch(seen)
	db.pool.moved()
	if err := db.learnRanges(ctx, conn); err != nil {
		db.pool.Log.Warn("cannot look at the key ranges of a new epoch yet, will try again", "error", err)
	}
}

// peakRate is an upper bound of the keys that the cluster issues in a second, unless the
// key space is small. A new epoch skips the keys that may have been issued while no
// process was watching.
const peakRate = 10_000.0

// leasesUnseen is the number of leases for which a new epoch makes room because they may
// have been lost unseen.
const leasesUnseen = 20

// tell informs an epoch that another control plane has opened of the keys that this one
// has seen in the epoch before.
func (db *DatabaseHistory) tell(ctx context.Context, conn *pgx.Conn, seen sight) error {
	if err := tellRanges(ctx, conn, seen.ranges()); err != nil {
		return fmt.Errorf("tell the new epoch which keys were issued before: %w", err)
	}
	db.pool.Log.Info("recorded in the new epoch which keys were issued before it")
	db.beginMark(ctx, conn, seen)
	return nil
}

func tellRanges(ctx context.Context, conn *pgx.Conn, ranges []byte) error {
	return pgx.BeginTxFunc(ctx, conn, scoped.Operator.TxOptions(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT changelog_begin()`); err != nil {
			return err
		}
		return scoped.Exec(ctx, tx, `SELECT key_remember($1::jsonb)`, ranges)
	})
}

// Watch keeps the high-water mark up to date with the changes of other control planes,
// until ctx ends.
func (db *DatabaseHistory) Watch(ctx context.Context) {
	db.pool.RunEvery(ctx, watchInterval, "look at the key ranges", db.WatchOnce)
}

// WatchOnce does one round of Watch.
func (db *DatabaseHistory) WatchOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	if err := db.hearLate(ctx); err != nil {
		return err
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return scoped.Classify("connect", err)
	}
	defer conn.Release()
	if err := db.checkHistory(ctx, conn.Conn()); err != nil {
		return err
	}
	return db.learnRanges(ctx, conn.Conn())
}

// learnRanges takes the key ranges into the high-water mark.
func (db *DatabaseHistory) learnRanges(ctx context.Context, conn *pgx.Conn) error {
	var now float64
	var head begun
	var ranges []rememberedRange
	var cluster string
	var b pgx.Batch // one transaction, the time and the head first: what is read with them is as new, or newer
	scoped.Operator.EnterBatch(&b)
	// While keys are held, reports of edges neither free them nor hold them again,
	// whether they are of the lost history or of the held one; and a control plane that
	// looks at the database in this time learns nothing new about keys.
	b.Queue(`SELECT CASE WHEN k.held = '' THEN extract(epoch FROM clock_timestamp())::float8 ELSE 0 END, c.id::text
		FROM cluster c, key_state k`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&now, &cluster)
	})
	b.Queue(selectPosition).QueryRow(head.scan)
	b.Queue(`SELECT prefix, region, lo, hi, next FROM key_range`).Query(scoped.CollectWith(&ranges, pgx.RowToStructByPos[rememberedRange]))
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return scoped.Classify("look at the key ranges", err)
	}
	db.pool.highWater.learn(cluster, head.position(), ranges, now)
	return nil
}

// Hear compares the position of a follower, which this cluster has signed, with
// PostgreSQL. If the database is behind the position in the same epoch, or has another
// transaction there, it went back in time unnoticed, and gets a new epoch in which keys
// are held back. If PostgreSQL does not answer within the follower's wait,
// [History.Watch] retries.
//
// A position of a newer epoch opens none: another primary may have been promoted, and
// then a new epoch here would take its edges over. The same holds for another epoch with
// the same ordinal. The error is [*SupersededError], and keys are held back until an
// operator decides.
func (db *DatabaseHistory) Hear(ctx context.Context, said replication.Testimony) error {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.HearTimeout)
	defer cancel()
	err := db.hear(ctx, said)
	if err != nil && !isSuperseded(err) {
		db.unheard.keep(&said)
	}
	return err
}

// SupersededError says that a follower has seen a newer epoch than PostgreSQL's, or
// another one with the same ordinal.
type SupersededError struct{ Newer, Own uint32 }

// Error implements error.
func (e *SupersededError) Error() string {
	what := "epoch"
	if e.Newer == e.Own {
		what = "another epoch"
	}
	return fmt.Sprintf("this PostgreSQL is in epoch %d of the changelog, and an edge has seen %s %d: another primary was promoted, or this "+
		"PostgreSQL is an old copy. Stop this control plane, or run 'waypost ranges resume --gap N' if this PostgreSQL is the right one",
		e.Own, what, e.Newer)
}

func isSuperseded(err error) bool {
	_, is := errors.AsType[*SupersededError](err)
	return is
}

// Superseded returns an error if a follower has seen a newer epoch than the head's, and
// nil otherwise.
func (db *DatabaseHistory) Superseded(head waypost.Position) error {
	seen := db.pool.highWater.current()
	if newer := seen.superseded(head.Epoch); newer != nil {
		return &SupersededError{newer.Ordinal, head.Epoch.Ordinal}
	}
	return nil
}

// Outdated returns EUnavailable for an edge that has seen an epoch, if a newer primary
// has to take its clicks, because the edge or another follower has seen a newer epoch
// than PostgreSQL's. An edge of an older epoch has not followed yet, and may send its
// clicks.
func (db *DatabaseHistory) Outdated(ctx context.Context, seen waypost.Epoch) error {
	own := db.pool.highWater.current().position.Epoch
	if beyond(seen, own) { // which another control plane may have opened a moment ago
		var head begun
		if err := db.pool.QueryRowIn(ctx, scoped.Operator, selectPosition, nil, &head.epoch, &head.id, &head.seq, &head.stamp); err != nil {
			return scoped.Classify("read the newest epoch", err)
		}
		own = head.position().Epoch
	}
	return db.pool.outdated(own, seen)
}

// outdated advises the operator only if a signed position showed a newer epoch. An edge
// can invent the epoch of a request.
func (p *pool) outdated(own, seen waypost.Epoch) error {
	mark := p.highWater.current()
	if newer := mark.superseded(own); newer != nil {
		why := &SupersededError{newer.Ordinal, own.Ordinal}
		return waypost.WrapError(waypost.EUnavailable, why.Error(), why)
	}
	if beyond(seen, own) {
		return waypost.Errorf(waypost.EUnavailable, "the edge claims to have seen epoch %d of the changelog, without proof, and this PostgreSQL "+
			"is in epoch %d: the edge has to send this to the control plane that it follows", seen.Ordinal, own.Ordinal)
	}
	return nil
}

// supersede holds the keys back, because a follower has seen a newer epoch. The error is
// [*SupersededError] if that succeeds.
func (db *DatabaseHistory) supersede(ctx context.Context, conn *pgx.Conn, newer, own waypost.Epoch) error {
	why := &SupersededError{newer.Ordinal, own.Ordinal}
	var news bool
	err := scoped.Operator.QueryRowOn(ctx, conn, `SELECT changelog_supersede($1, $2, $3)`,
		[]any{int32(newer.Ordinal), newer.ID, why.Error()}, &news)
	if err != nil {
		return scoped.Classify("hold keys back", err)
	}
	db.pool.highWater.supersede(newer)
	if news {
		db.pool.Log.Error("refused an edge that has seen a newer epoch of the changelog; no key is issued", "error", why)
	}
	return why
}

// overrule opens an epoch above the one that a follower has seen, because an operator
// says that this PostgreSQL is the right one. Without such an epoch it does nothing.
func (db *DatabaseHistory) overrule(ctx context.Context, gap *int64) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return scoped.Classify("connect", err)
	}
	defer conn.Release()
	var epoch, newer uint32
	err = scoped.Operator.QueryRowOn(ctx, conn, `SELECT h.epoch, k.superseded FROM changelog_head h, key_state k`, nil, &epoch, &newer)
	if err != nil {
		return scoped.Classify("read the newest epoch", err)
	}
	if newer < epoch {
		return nil
	}
	if gap == nil {
		return waypost.Errorf(waypost.EConflict, "an edge has seen epoch %d, which this PostgreSQL does not have: say by how many counters "+
			"every prefix skips, the most keys that can have been issued in one prefix since this PostgreSQL lost that history", newer)
	}
	seen := db.pool.highWater.current()
	seen.position, seen.epoch, seen.at = waypost.Position{Epoch: waypost.Epoch{Ordinal: newer}}, 0, 0
	return db.openEpoch(ctx, conn.Conn(), epoch, "an operator prefers this PostgreSQL to a newer epoch that an edge has seen", seen)
}

// unheard is the newest position of a follower that could not be compared with PostgreSQL
// yet.
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

// hearLate retries the report that could not be compared in time.
func (db *DatabaseHistory) hearLate(ctx context.Context) error {
	said := db.unheard.Load()
	if said == nil {
		return nil
	}
	err := db.hear(ctx, *said)
	if isSuperseded(err) {
		err = nil // keys are held back, and the follower is told when it comes again
	}
	if err == nil {
		db.unheard.CompareAndSwap(said, nil)
	}
	return err
}

func (db *DatabaseHistory) hear(ctx context.Context, said replication.Testimony) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return scoped.Classify("connect", err)
	}
	defer conn.Release()
	// Check this process's own memory first, because it knows the keys.
	if err := db.checkHistory(ctx, conn.Conn()); err != nil {
		return err
	}
	seen := db.pool.highWater.current()
	p := said.Position
	var head begun
	var forgotten bool
	err = scoped.Operator.QueryRowOn(ctx, conn, `
		SELECT h.epoch, e.id, (h.epoch, h.seq) < ($1::integer, $3::bigint) OR changelog_forked($1, $2, $3, $4)
		FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch`,
		[]any{int32(p.Epoch.Ordinal), p.Epoch.ID, int64(p.Seq), int64(p.Stamp)}, &head.epoch, &head.id, &forgotten)
	if err != nil {
		return scoped.Classify("hold a follower's position against the history", err)
	}
	own := head.position().Epoch
	if beyond(p.Epoch, own) {
		return db.supersede(ctx, conn.Conn(), p.Epoch, own)
	}
	if !forgotten {
		return nil
	}
	if newer := seen.superseded(own); newer != nil {
		return &SupersededError{newer.Ordinal, own.Ordinal}
	}
	// A follower cannot say credibly which keys were issued before. The high-water mark of
	// this process does not reach as far, or it would have noticed, and may be of the
	// database after it went back. So the epoch opens without it, and an operator decides.
	seen.position, seen.epoch, seen.at = p, 0, 0
	return db.openEpoch(ctx, conn.Conn(), own.Ordinal, "PostgreSQL has forgotten commits that an edge has seen", seen)
}
