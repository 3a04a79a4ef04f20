// Package postgres keeps the control plane's data in PostgreSQL and is the only
// place with SQL, but for the schema itself (package migrations). It implements
// the stores of package controlplane and the replication source.
//
// The database holds the invariants: triggers write the changelog, constraints
// keep ranges and leases disjoint, and row-level security keeps tenants apart.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"waypost"
	"waypost/controlplane"
	"waypost/migrations"
	"waypost/replication"
)

// Config of a database. Zero fields mean the default.
type Config struct {
	URL      string
	MaxConns int32 // default 10
	// EpochGap is how many counters every prefix skips in a new epoch: more than
	// can have been issued since the state that a restore or failover went back to.
	EpochGap int64 // default 40 million: an hour at 10,000 a second, and some
	// Retention is how long the changelog is kept; a follower that was away for
	// longer takes a snapshot.
	Retention time.Duration // default 72 h
	// MaxTransaction is the number of records above which a transaction is not
	// streamed: followers take a snapshot instead.
	MaxTransaction int // default 100,000
	Logger         *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxConns == 0 {
		c.MaxConns = 10
	}
	if c.EpochGap == 0 {
		c.EpochGap = 40_000_000
	}
	if c.Retention == 0 {
		c.Retention = 72 * time.Hour
	}
	if c.MaxTransaction == 0 {
		c.MaxTransaction = 100_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// DB is the control plane's database.
type DB struct {
	pool    *pgxpool.Pool
	cfg     Config
	log     *slog.Logger
	changed *hint

	mu   sync.Mutex
	seen waypost.Revision // newest committed sequence that this process knows of
}

var (
	_ controlplane.LinkStore  = (*DB)(nil)
	_ controlplane.LeaseStore = (*DB)(nil)
	_ controlplane.KeyStore   = (*DB)(nil)
	_ replication.Source      = (*DB)(nil)
)

// Open connects, and refuses a standby and a schema that is not this program's.
// Every new connection checks PostgreSQL's identity: when it is not that of the
// current epoch, or has forgotten commits that this process has seen, a new epoch is opened.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	db := &DB{cfg: cfg, log: cfg.Logger, changed: newHint()}
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errors.New("the database URL cannot be read; it looks like postgres://user@host/name")
	}
	pc.MaxConns = cfg.MaxConns
	pc.ConnConfig.ConnectTimeout = 3 * time.Second
	for name, value := range map[string]string{
		"application_name":                    "waypost",
		"statement_timeout":                   "4500",
		"lock_timeout":                        "4000",
		"idle_in_transaction_session_timeout": "2000",
		"TimeZone":                            "UTC",
	} {
		pc.ConnConfig.RuntimeParams[name] = value
	}
	if err := checkSchema(ctx, pc.ConnConfig); err != nil {
		return nil, err
	}
	pc.AfterConnect = db.checkHistory
	if db.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, err
	}
	if err := db.pool.Ping(ctx); err != nil {
		db.pool.Close()
		return nil, classify("connect", err)
	}
	return db, nil
}

// Close waits for what is under way and ends all connections.
func (db *DB) Close() { db.pool.Close() }

func checkSchema(ctx context.Context, cc *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return classify("connect", err)
	}
	defer conn.Close(ctx)
	var version int
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&version)
	if pgCode(err) == "42P01" { // undefined_table
		version, err = 0, nil
	}
	if err != nil {
		return classify("read the schema version", err)
	}
	switch {
	case version < migrations.Newest:
		return fmt.Errorf("the database has schema version %d, this program needs %d: run 'waypost migrate'", version, migrations.Newest)
	case version > migrations.Newest:
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: use a newer waypost", version, migrations.Newest)
	}
	return nil
}

// checkHistory runs on every new connection, before anything else does. It looks
// without the head lock first; changelog_open_epoch looks again under it. What
// keeps a connection from being made is never the fault of a request's data.
func (db *DB) checkHistory(ctx context.Context, conn *pgx.Conn) error {
	err := db.history(ctx, conn)
	if err != nil && waypost.CodeOf(err) != waypost.EUnavailable {
		return waypost.WrapError(waypost.EUnavailable, "the database cannot be used at the moment", err)
	}
	return err
}

func (db *DB) history(ctx context.Context, conn *pgx.Conn) error {
	var standby, same bool
	if err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby); err != nil {
		return err
	}
	if standby {
		return waypost.Errorf(waypost.EUnavailable, "this PostgreSQL is a standby: point the control plane at the primary")
	}
	seen := db.lastSeen() // before the head is read, which others go on moving
	var head waypost.Revision
	if err := conn.QueryRow(ctx, `
		SELECT h.epoch, h.seq, (e.system_identifier, e.timeline) = (i.system_identifier, i.timeline)
		FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch, waypost_history() i`).
		Scan(&head.Epoch, &head.Seq, &same); err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if same && !seen.Newer(head) {
		return nil
	}
	reason := "PostgreSQL has another identity: it was failed over or restored"
	if same {
		reason = "PostgreSQL has forgotten commits that this control plane has seen"
	}
	var opened bool
	if err := conn.QueryRow(ctx, `SELECT changelog_open_epoch($1, $2, $3, $4, $5)`,
		reason, db.cfg.EpochGap, head.Epoch, seen.Epoch, seen.Seq).Scan(&opened); err != nil {
		return fmt.Errorf("open an epoch: %w", err)
	}
	if opened {
		db.log.Warn("opened a new epoch of the changelog", "reason", reason)
	}
	db.changed.tell()
	return nil
}

func (db *DB) lastSeen() waypost.Revision {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.seen
}

// note remembers a committed sequence and wakes the followers.
func (db *DB) note(r waypost.Revision) {
	db.mu.Lock()
	if r.Newer(db.seen) {
		db.seen = r
	}
	db.mu.Unlock()
	db.changed.tell()
}

// begun is where a write stands in the changelog, as changelog_begin_in tells.
type begun struct {
	epoch      int32
	id         [16]byte
	seq, stamp int64
}

func (b *begun) scan(row pgx.Row) error { return row.Scan(&b.epoch, &b.id, &b.seq, &b.stamp) }

func (b *begun) revision() waypost.Revision {
	return waypost.Revision{Epoch: uint32(b.epoch), Seq: uint64(b.seq)}
}

func (b *begun) position() waypost.Position {
	return waypost.Position{
		Epoch: waypost.Epoch{Ordinal: uint32(b.epoch), ID: b.id}, Seq: uint64(b.seq), Stamp: uint64(b.stamp),
	}
}

const selectBegin = `SELECT epoch, epoch_id, seq, stamp FROM changelog_begin_in($1)`

// scope is what row-level security lets a transaction see.
type scope struct{ setting, value string }

func tenant(workspaces string) scope { return scope{"waypost.workspaces", workspaces} }

var system = scope{"waypost.system", "on"}

// queryIn runs one query under a scope, in one round trip and one transaction.
func (db *DB) queryIn(ctx context.Context, s scope, sql string, args []any, read func(pgx.Rows) error) error {
	var b pgx.Batch
	b.Queue(`SELECT set_config($1, $2, true)`, s.setting, s.value)
	b.Queue(sql, args...).Query(read)
	return db.pool.SendBatch(ctx, &b).Close()
}

// pgCode gives PostgreSQL's error code, "" when err is not from it.
func pgCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// passing are the classes of PostgreSQL's errors that say nothing of the request:
// connection, invalid transaction state, authorization, database missing, rollback,
// resources, object state, operator intervention, system error, internal error.
var passing = []string{"08", "25", "28", "3D", "40", "53", "55", "57", "58", "XX"}

// classify makes an error of the domain out of one of the database. What may
// pass by itself is EUnavailable; data that the database refuses is EInvalid.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*waypost.Error](err); ok {
		return e
	}
	wrapped := fmt.Errorf("%s: %w", doing, err)
	code := pgCode(err)
	var netErr net.Error
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case connecting:
		return waypost.WrapError(waypost.EUnavailable, "the database is out of reach", wrapped)
	case code == "WP001":
		return controlplane.ErrEpoch
	case len(code) == 5 && (code[:2] == "22" || code[:2] == "23" || code[:2] == "54"): // data exception, integrity violation, limit exceeded
		return waypost.WrapError(waypost.EInvalid, "the database refuses this value", wrapped)
	case len(code) == 5 && slices.Contains(passing, code[:2]):
		return waypost.WrapError(waypost.EUnavailable, "the database is not available at the moment", wrapped)
	case code != "":
		return wrapped
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &netErr):
		return waypost.WrapError(waypost.EUnavailable, "the database did not answer in time", wrapped)
	}
	return waypost.WrapError(waypost.EUnavailable, "the database is out of reach", wrapped)
}

// hint wakes everybody who waits for the head to move.
type hint struct {
	mu sync.Mutex
	ch chan struct{}
}

func newHint() *hint { return &hint{ch: make(chan struct{})} }

func (h *hint) wait() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ch
}

func (h *hint) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.ch)
	h.ch = make(chan struct{})
}
