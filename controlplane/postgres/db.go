// Package postgres keeps the control plane's data in PostgreSQL. It has all SQL, except
// for clicks (package analytics) and the schema (package migrations). It implements the
// stores of package controlplane and the replication source.
//
// The database holds the invariants: triggers write the changelog, constraints keep
// ranges and leases disjoint, and row-level security keeps tenants apart. docs/schema.md
// explains the tables.
//
// DB is made of one store per kind of row. All stores share a pool of connections. Each
// transaction runs in one scope: a role and the workspaces that it may see.
package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"waypost/controlplane"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/postgres/scoped"
	"waypost/migrations"
	"waypost/replication"
)

// Config of a database. Zero fields mean the default.
type Config struct {
	// URL may set connect_timeout, statement_timeout, lock_timeout and
	// idle_in_transaction_session_timeout.
	URL      string
	MaxConns int32 // default 20; requests of one workspace take at most half
	// Memory keeps one small document on disk. Save is durable, and all or nothing, when it
	// returns; Load returns nil if nothing was ever saved.
	Memory Memory
	// Secret is the cluster's. Open refuses a database that was set up with another
	// secret before it changes anything. nil: Open does not compare.
	Secret *[32]byte
	// ReadOnly is for commands, which have no high-water mark: it opens no epoch.
	ReadOnly bool
	// KeepChangelog bounds the age of the changelog. A follower that was away for longer
	// takes a snapshot.
	KeepChangelog time.Duration // default 72 h
	// KeepChangelogBytes bounds the changelog with its indexes: the oldest million
	// transactions go while it is larger. The million with the head stays.
	KeepChangelogBytes int64 // default 64 GiB
	// SaltRetention is the time for which the salt of a day is kept after the day. Clicks
	// that arrive later count without a visitor.
	SaltRetention time.Duration // default 48 h
	// MaxTransaction is the number of records above which a transaction is not
	// streamed: followers take a snapshot instead.
	MaxTransaction int // default 100,000
	// HearTimeout bounds the wait of a follower while its position is compared with
	// PostgreSQL. It is far below the silence after which a follower reconnects.
	HearTimeout time.Duration // default 1 s
	// EventSample: one of that many clicks is kept as an event, in workspaces that want
	// a sample.
	EventSample int // default 100
	// EventMonths is the number of whole months for which single clicks are kept.
	EventMonths int // default 13
	// ExportEvents is a directory that gets the single clicks of a month before they
	// are dropped. Empty: they are dropped.
	ExportEvents string
	Logger       *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxConns == 0 {
		c.MaxConns = 20
	}
	if c.KeepChangelog == 0 {
		c.KeepChangelog = 72 * time.Hour
	}
	if c.KeepChangelogBytes == 0 {
		c.KeepChangelogBytes = 64 << 30
	}
	if c.SaltRetention == 0 {
		c.SaltRetention = 48 * time.Hour
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

// DB is the control plane's database. It implements controlplane.Store, keys.Store and
// blocks.Store.
type DB struct {
	*LinkStore
	*DomainStore
	*KeyRangeStore
	*AccessStore
	*SignInStore
	*FleetStore
	*BudgetStore
	*BlockStore
	*ImportStore
	*analytics.Store
	*ViewStore
	*UnknownStore
	*ReaperStore
	*SaltStore
	*Changelog
	*DatabaseHistory
	*Notifier

	pool    *pool
	dropped string // settings that a pooler drops, for people
	harmful string // settings of PostgreSQL that do harm, for people
}

// Open connects, and refuses a standby and a schema that is not this program's. Every new
// connection checks PostgreSQL's identity. Open opens a new epoch if the identity differs
// from the current epoch's, or if PostgreSQL has forgotten commits that this process has
// seen.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	highWater, err := loadHighWaterMark(cfg.Memory, cfg.Logger)
	if err != nil {
		return nil, err
	}
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkSchema(ctx, pc.ConnConfig); err != nil {
		return nil, err
	}
	p := &pool{Pool: scoped.NewPool(cfg.Logger, cfg.MaxConns), highWater: highWater, changed: newHint(), news: make(chan struct{}, 1)}
	history := &DatabaseHistory{pool: p, cfg: cfg}
	budgets := &BudgetStore{pool: p}
	fleet := &FleetStore{pool: p}
	counted := analytics.New(p.Pool, analytics.Config{
		EventSample: cfg.EventSample, EventMonths: cfg.EventMonths, ExportEvents: cfg.ExportEvents, Budgets: budgets, Now: p.clock.now,
		Complete: func(ctx context.Context) (controlplane.Completeness, error) {
			nodes, err := fleet.Progress(ctx)
			return controlplane.CompletenessOf(nodes, p.clock.now(), p.clock.now()), err
		},
	})
	access := &AccessStore{pool: p, eventSample: cfg.EventSample}
	db := &DB{
		LinkStore:       &LinkStore{pool: p},
		DomainStore:     &DomainStore{pool: p},
		KeyRangeStore:   &KeyRangeStore{pool: p, history: history},
		AccessStore:     access,
		SignInStore:     &SignInStore{access},
		FleetStore:      fleet,
		BudgetStore:     budgets,
		BlockStore:      &BlockStore{pool: p},
		ImportStore:     &ImportStore{pool: p},
		Store:           counted,
		ViewStore:       &ViewStore{pool: p},
		UnknownStore:    &UnknownStore{pool: p},
		ReaperStore:     &ReaperStore{pool: p, clicks: counted},
		SaltStore:       &SaltStore{pool: p, retention: cfg.SaltRetention},
		Changelog:       &Changelog{pool: p, cfg: cfg},
		DatabaseHistory: history,
		Notifier:        &Notifier{pool: p},
		pool:            p,
	}
	pc.ConnConfig.RuntimeParams["role"] = scoped.NoRole
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return history.checkHistory(ctx, conn)
	}
	if err := p.Connect(ctx, pc); err != nil {
		return nil, err
	}
	if err := db.readDropped(ctx, slices.Collect(maps.Keys(pc.ConnConfig.RuntimeParams))); err != nil {
		p.Close()
		return nil, err
	}
	if err := db.readHarmful(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return db, nil
}

// readDropped looks for settings of connections that a pooler has dropped, and that the
// operator has not made for the login instead.
func (db *DB) readDropped(ctx context.Context, asked []string) error {
	var dropped []string
	rows, err := db.pool.Query(ctx, `
		SELECT name FROM pg_settings WHERE name = ANY ($1) AND source NOT IN ('client', 'session', 'user', 'database', 'database user')
		ORDER BY 1`, asked)
	if err == nil {
		dropped, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return scoped.Classify("read the settings of a connection", err)
	}
	if db.dropped = strings.Join(dropped, ", "); db.dropped != "" {
		db.pool.Log.Warn("lost settings of connections to a pooler", "settings", db.dropped)
	}
	return nil
}

// Unremembered returns why the disk does not take which keys were issued, nil if it does.
func (db *DB) Unremembered() error {
	if err := db.pool.highWater.unsaved.Load(); err != nil {
		return *err
	}
	return nil
}

// ClockAhead returns by how much PostgreSQL's clock is ahead of this machine's, as last
// heard.
func (db *DB) ClockAhead() time.Duration { return time.Duration(db.pool.clock.ahead.Load()) }

// Settings describes settings that do harm, or that a pooler drops; "" without any.
func (db *DB) Settings() string {
	switch {
	case db.dropped != "":
		return "a pooler before PostgreSQL drops settings: " + db.dropped
	case db.harmful != "":
		return "settings of PostgreSQL do harm: " + db.harmful
	}
	return ""
}

func poolConfig(cfg Config) (*pgxpool.Config, error) {
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
		// Each statement sees the commits from before the head was locked.
		"default_transaction_isolation": "read committed",
		"TimeZone":                      "UTC",
		"client_encoding":               "UTF8", // an operator may have set another for a role or a database
		// A statement that takes less than a millisecond never earns its compilation, which
		// takes hundreds. PostgreSQL would compile it because a scan that is disabled has a
		// cost without bound.
		"jit": "off",
	} {
		if _, own := pc.ConnConfig.RuntimeParams[name]; !own || !strings.HasSuffix(name, "_timeout") {
			pc.ConnConfig.RuntimeParams[name] = value
		}
	}
	return pc, nil
}

// Close waits for running transactions and ends all connections.
func (db *DB) Close() { db.pool.Close() }

func checkSchema(ctx context.Context, cc *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return scoped.Classify("connect", err)
	}
	defer conn.Close(ctx)
	var version int
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&version)
	if scoped.PgCode(err) == scoped.UndefinedTable {
		version, err = 0, nil
	}
	if err != nil {
		return scoped.Classify("read the schema version", err)
	}
	switch {
	case version < migrations.Newest:
		return fmt.Errorf("the database has schema version %d, this program needs %d: run 'waypost migrate'", version, migrations.Newest)
	case version > migrations.Newest:
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: use a newer waypost", version, migrations.Newest)
	}
	return nil
}

// ClusterConfig holds the settings that never change after the first start.
type ClusterConfig struct {
	CodeLength, PrefixLength int
	Secret                   [32]byte // keys the permutation of codes; never stored
	DefaultHost              string   // of the shared domain; may change
}

// SecretCheck returns the check value of a cluster's secret that the database holds.
func SecretCheck(secret [32]byte) []byte {
	mac := hmac.New(sha256.New, secret[:])
	mac.Write([]byte("waypost cluster secret check"))
	return mac.Sum(nil)
}

var errOtherSecret = errors.New("the cluster secret is not the one that this database was set up with: configure that one, or codes would repeat")

// EnsureCluster writes the cluster's settings at the first start, and at every later
// start refuses a configuration that contradicts them, because another secret or length
// would repeat codes. It returns the cluster's identity.
func (db *DB) EnsureCluster(ctx context.Context, cfg ClusterConfig) (replication.Cluster, error) {
	check := SecretCheck(cfg.Secret)
	var id replication.Cluster
	var code, prefix int
	var stored []byte
	_, err := db.pool.ExecIn(ctx, scoped.Operator, `INSERT INTO cluster (code_length, prefix_length, secret_check) VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`,
		cfg.CodeLength, cfg.PrefixLength, check)
	if err == nil {
		err = db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT id, code_length, prefix_length, secret_check FROM cluster`, nil,
			(*[16]byte)(&id), &code, &prefix, &stored)
	}
	if err != nil {
		return id, scoped.Classify("read the cluster's settings", err)
	}
	if code != cfg.CodeLength || prefix != cfg.PrefixLength {
		return id, fmt.Errorf("this cluster has code length %d and prefix length %d, the configuration says %d and %d: set once, they cannot change",
			code, prefix, cfg.CodeLength, cfg.PrefixLength)
	}
	if !hmac.Equal(stored, check) {
		return id, errOtherSecret
	}
	if err := db.ensureDefaultHost(ctx, cfg.DefaultHost); err != nil {
		return id, err
	}
	return id, db.WatchOnce(ctx)
}

const (
	maintenanceInterval  = time.Minute
	maintenanceTimeLimit = 30 * time.Second
)

// Maintain does the periodic work of all stores until ctx ends: it deletes the rows that
// retention lists, and makes partitions of the changelog and salts ahead of their use.
func (db *DB) Maintain(ctx context.Context) {
	db.pool.RunEvery(ctx, maintenanceInterval, "maintenance", db.MaintainOnce)
}

// MaintainOnce does one round of Maintain. Several instances may do it at the same time.
func (db *DB) MaintainOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maintenanceTimeLimit)
	defer cancel()
	var errs []error
	for _, r := range db.retention() {
		if r.forget != nil {
			errs = append(errs, r.forget(ctx))
		}
	}
	return errors.Join(errs...)
}
