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
	"strconv"
	"strings"
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
	// URL may have timeouts of its own: connect_timeout, statement_timeout, lock_timeout and
	// idle_in_transaction_session_timeout.
	URL      string
	MaxConns int32 // default 10
	// PeakRate is the most keys a second that the cluster may ever issue, or more:
	// by it a new epoch skips what may have been issued while nobody was looking.
	PeakRate float64 // default 10,000, or less in a small key space
	// Memory keeps on disk what this process has seen of the changelog and of the
	// keys, so that a database that went back in time is noticed. Nil: the memory
	// lasts as long as the process.
	Memory Memory
	// Visitor is for commands that only look in: it opens no epoch, because it
	// remembers nothing that could be told to it.
	Visitor bool
	// Retention is how long the changelog is kept; a follower that was away for
	// longer takes a snapshot.
	Retention time.Duration // default 72 h
	// RetentionBytes is how large the changelog may become, with its indexes: the oldest million transactions go while it
	// is larger. Those that the head belongs to stay.
	RetentionBytes int64 // default 64 GiB
	// SaltRetention is how long the salt of visitors of a day is kept when the day is
	// over. Clicks that come later count without a visitor.
	SaltRetention time.Duration // default 48 h
	// KeepAnswers is for how long requests with an Idempotency-Key are remembered.
	KeepAnswers time.Duration // default 24 h
	// MaxTransaction is the number of records above which a transaction is not
	// streamed: followers take a snapshot instead.
	MaxTransaction int // default 100,000
	// HearTimeout is how long a follower is kept waiting while what it has seen is held
	// against PostgreSQL; far below the silence after which a follower gives up.
	HearTimeout time.Duration // default 1 s
	// EventSample is of how many clicks one is kept, in workspaces that want a sample.
	EventSample int // default 100
	// EventMonths is how many whole months single clicks are kept.
	EventMonths int // default 13
	// ExportEvents is a directory that gets the single clicks of a month before they
	// are dropped. Empty: they are dropped.
	ExportEvents string
	Logger       *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxConns == 0 {
		c.MaxConns = 10
	}
	if c.Retention == 0 {
		c.Retention = 72 * time.Hour
	}
	if c.RetentionBytes == 0 {
		c.RetentionBytes = 64 << 30
	}
	if c.SaltRetention == 0 {
		c.SaltRetention = 48 * time.Hour
	}
	if c.KeepAnswers == 0 {
		c.KeepAnswers = 24 * time.Hour
	}
	if c.MaxTransaction == 0 {
		c.MaxTransaction = 100_000
	}
	if c.HearTimeout <= 0 {
		c.HearTimeout = time.Second
	}
	if c.EventSample <= 0 {
		c.EventSample = controlplane.DefaultEventsSample
	}
	if c.EventMonths <= 0 {
		c.EventMonths = 13
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
	news    news // for other control planes
	links   linkCache

	witness *witness
	unheard unheard
}

var (
	_ controlplane.LinkStore     = (*DB)(nil)
	_ controlplane.LeaseStore    = (*DB)(nil)
	_ controlplane.RangeStore    = (*DB)(nil)
	_ controlplane.ReservedStore = (*DB)(nil)
	_ controlplane.AuditStore    = (*DB)(nil)
	_ controlplane.APIKeyStore   = (*DB)(nil)
	_ controlplane.SaltStore     = (*DB)(nil)
	_ replication.Source         = (*DB)(nil)
)

// Open connects, and refuses a standby and a schema that is not this program's.
// Every new connection checks PostgreSQL's identity: when it is not that of the
// current epoch, or has forgotten commits that this process has seen, a new epoch is opened.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	w, err := newWitness(cfg.Memory, cfg.Logger)
	if err != nil {
		return nil, err
	}
	db := &DB{cfg: cfg, log: cfg.Logger, changed: newHint(), witness: w}
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errors.New("the database URL cannot be read; it looks like postgres://user@host/name")
	}
	pc.MaxConns = cfg.MaxConns
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = 3 * time.Second
	}
	for name, value := range map[string]string{
		"application_name":                    "waypost",
		"statement_timeout":                   "4500",
		"lock_timeout":                        "4000",
		"idle_in_transaction_session_timeout": "2000",
		"default_transaction_isolation":       "read committed", // each statement sees what was committed before the head was locked
		"TimeZone":                            "UTC",
	} {
		if _, own := pc.ConnConfig.RuntimeParams[name]; !own || !strings.HasSuffix(name, "_timeout") {
			pc.ConnConfig.RuntimeParams[name] = value
		}
	}
	if err := checkSchema(ctx, pc.ConnConfig); err != nil {
		return nil, err
	}
	pc.ConnConfig.RuntimeParams["role"] = nobody
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		db.links.forget() // it may be another server, which was behind
		return db.checkHistory(ctx, conn)
	}
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
	if pgCode(err) == undefinedTable {
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

// begun is where a write stands in the changelog, as changelog_begin_in tells.
type begun struct {
	epoch      int32
	id         [16]byte
	seq, stamp int64
}

func (b *begun) scan(row pgx.Row) error { return row.Scan(&b.epoch, &b.id, &b.seq, &b.stamp) }

func (b *begun) position() waypost.Position {
	return waypost.Position{
		Epoch: waypost.Epoch{Ordinal: uint32(b.epoch), ID: b.id}, Seq: uint64(b.seq), Stamp: uint64(b.stamp),
	}
}

const selectBegin = `SELECT epoch, epoch_id, seq, stamp FROM changelog_begin_in($1)`

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

// fenced tells the leases that key_check_leases found void.
func fenced(err error) error {
	e, _ := errors.AsType[*pgconn.PgError](err)
	var ids []int64
	for _, text := range strings.Split(e.Detail, ",") {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	return &controlplane.FencedError{Leases: ids}
}

// classify makes an error of the domain out of one of the database. What may
// pass by itself is EUnavailable; data that the database refuses is EInvalid.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*waypost.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*controlplane.ClashError](err); ok {
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
	case code == "WP002":
		return fenced(err)
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
