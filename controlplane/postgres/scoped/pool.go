// Package scoped runs the transactions of the control plane's stores in PostgreSQL, each
// in one scope: a role and the workspaces that row-level security shows it. It classifies
// PostgreSQL's errors, and has helpers that stores in several packages use: the filter by
// workspace, the settings of a workspace, the audit log. It knows no table of links, keys
// or clicks.
package scoped

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"waypost"
	"waypost/controlplane"
	"waypost/internal/semaphore"
)

// Pool holds the connections that all stores share. Each transaction runs in one
// scope. It may be used by many goroutines.
type Pool struct {
	*pgxpool.Pool
	Log     *slog.Logger
	tenants *semaphore.Keyed[waypost.WorkspaceID]
}

// NewPool returns a pool without connections, which Connect opens.
func NewPool(log *slog.Logger, conns int32) *Pool {
	return &Pool{Log: log, tenants: newShares(conns)}
}

// Connect opens the pool and checks that the database answers.
func (p *Pool) Connect(ctx context.Context, cfg *pgxpool.Config) (err error) {
	if p.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	if err := p.Ping(ctx); err != nil {
		p.Close()
		return Classify("connect", err)
	}
	return nil
}

// freeOfTenants is the number of connections that requests of workspaces never take.
// They are for authentication, creates, clicks, edges and operators, which wait for no
// share.
const freeOfTenants = 4

// newShares divides the connections of a pool among workspaces. One has at most half, so
// that its slow requests leave the rest to others.
func newShares(conns int32) *semaphore.Keyed[waypost.WorkspaceID] {
	return semaphore.NewKeyed[waypost.WorkspaceID](max(1, int(conns)-freeOfTenants), max(1, int(conns)/2))
}

// Share waits for a place in the share of a scope's workspace. Every transaction takes
// its place before its connection, so that none waits for a place while it holds a
// connection or a lock. The caller calls leave after it has returned its connection.
func (p *Pool) Share(ctx context.Context, s Scope) (leave func(), err error) {
	if s.sharer == 0 {
		return func() {}, nil
	}
	if !p.tenants.Acquire(ctx, s.sharer) {
		return nil, waypost.WrapError(waypost.EUnavailable, "too many requests of this workspace use the database at once", ctx.Err())
	}
	return func() { p.tenants.Release(s.sharer, 1) }, nil
}

// Scope bounds a transaction: the role that it takes on with its first statement, and the
// workspaces that row-level security then shows it. It ends with the transaction. Between
// transactions a connection has a role without any rights.
type Scope struct {
	Role, workspaces string
	lookups          bool                // see LookingUp
	sharer           waypost.WorkspaceID // a transaction waits for this workspace's share; 0: it does not wait
}

// NoRole is the role of a connection between transactions, see migrations/access.
const NoRole = "waypost_nobody"

var (
	// Operator manages the installation: keys, key ranges, authentication, domains.
	Operator = Scope{Role: "waypost_operator"}
	// Stream reads the changelog and the replicated tables.
	Stream = Scope{Role: "waypost_stream"}
	// Ingest counts clicks.
	Ingest = Scope{Role: "waypost_ingest"}
	// Reaper removes expired rows.
	Reaper = Scope{Role: "waypost_reaper"}
	// Owner is the login, which alone makes and drops partitions. Row-level security
	// shows it no row of a tenant.
	Owner = Scope{Role: "none"}
)

// Tenant returns the scope of workspaces, in the form of workspaceList.
func Tenant(workspaces string) Scope { return Scope{Role: "waypost_tenant", workspaces: workspaces} }

func TenantOf(ws waypost.WorkspaceID) Scope {
	return Tenant(strconv.FormatInt(int64(ws), 10)).SharedBy(ws)
}

// SharedBy returns the scope for a request of a workspace, which waits for the share of
// the connections that the workspace has.
func (s Scope) SharedBy(ws waypost.WorkspaceID) Scope {
	s.sharer = ws
	return s
}

// LookingUp returns the scope for statements that find rows by an index. PostgreSQL keeps
// a plan that it made while a table was small, and such a plan may read the whole table.
func (s Scope) LookingUp() Scope {
	s.lookups = true
	return s
}

const enterScope = `SELECT set_config('role', $1, true), set_config('waypost.workspaces', $2, true)`

// enterLookups turns off scans of whole tables, and bitmaps, so that rows are read one
// after the other and a LIMIT ends the reading.
const enterLookups = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// EnterBatch makes the following statements of a batch run in the scope.
func (s Scope) EnterBatch(b *pgx.Batch) {
	b.Queue(enterScope, s.Role, s.workspaces)
	if s.lookups {
		b.Queue(enterLookups)
	}
}

// Enter makes the following statements of a transaction run in the scope.
func (s Scope) Enter(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	s.EnterBatch(&b)
	return tx.SendBatch(ctx, &b).Close()
}

func EnterTenant(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID) error {
	return TenantOf(ws).Enter(ctx, tx)
}

// TxOptions returns options that begin a transaction in the scope, in one round trip and
// without taking a snapshot.
func (s Scope) TxOptions() pgx.TxOptions { return s.options("begin") }

// ReadOptions returns options for a transaction that sees a single moment.
func (s Scope) ReadOptions() pgx.TxOptions {
	return s.options("begin isolation level repeatable read read only")
}

// SnapshotOptions returns options for a transaction that writes and sees a single moment.
func (s Scope) SnapshotOptions() pgx.TxOptions {
	return s.options("begin isolation level repeatable read")
}

func (s Scope) options(begin string) pgx.TxOptions {
	begin += "; set local role " + s.Role
	if s.workspaces != "" {
		begin += "; set local waypost.workspaces = '" + s.workspaces + "'" // digits and commas
	}
	if s.lookups {
		begin += "; set local enable_seqscan = off; set local enable_bitmapscan = off"
	}
	return pgx.TxOptions{BeginQuery: begin}
}

// WorkspaceList returns the value of waypost.workspaces for some workspaces.
func WorkspaceList(ids []int64) string {
	slices.Sort(ids)
	var b strings.Builder
	for i, id := range slices.Compact(ids) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(id, 10))
	}
	return b.String()
}

// Send runs a batch that begins with a scope, in one round trip and one transaction.
func (p *Pool) Send(ctx context.Context, s Scope, b *pgx.Batch) error {
	leave, err := p.Share(ctx, s)
	if err != nil {
		return err
	}
	defer leave()
	return p.SendBatch(ctx, b).Close()
}

// QueryIn runs one query in a scope, in one round trip and one transaction.
func (p *Pool) QueryIn(ctx context.Context, s Scope, sql string, args []any, read func(pgx.Rows) error) error {
	var b pgx.Batch
	s.EnterBatch(&b)
	b.Queue(sql, args...).Query(read)
	return p.Send(ctx, s, &b)
}

// QueryRowIn is QueryIn for a query that returns exactly one row.
func (p *Pool) QueryRowIn(ctx context.Context, s Scope, sql string, args []any, into ...any) error {
	leave, err := p.Share(ctx, s)
	if err != nil {
		return err
	}
	defer leave()
	return s.QueryRowOn(ctx, p, sql, args, into...)
}

// QueryRowOn is [Pool.QueryRowIn] on a connection that the caller has.
func (s Scope) QueryRowOn(ctx context.Context, conn interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}, sql string, args []any, into ...any,
) error {
	var b pgx.Batch
	s.EnterBatch(&b)
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	return conn.SendBatch(ctx, &b).Close()
}

// ExecIn runs one statement in a scope and returns the number of rows.
func (p *Pool) ExecIn(ctx context.Context, s Scope, sql string, args ...any) (n int64, err error) {
	var b pgx.Batch
	s.EnterBatch(&b)
	b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		n = tag.RowsAffected()
		return nil
	})
	return n, p.Send(ctx, s, &b)
}

// RowInto scans the only row, if there is one.
func RowInto(into ...any) func(pgx.Rows) error { return ForEach(into, func() error { return nil }) }

// ForEach scans each row, and then calls f.
func ForEach(into []any, f func() error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, f)
		return err
	}
}

// CollectInto reads the single column of all rows.
func CollectInto[T any](into *[]T) func(pgx.Rows) error { return CollectWith(into, pgx.RowTo[T]) }

// CollectWith reads all rows.
func CollectWith[T any](into *[]T, scan pgx.RowToFunc[T]) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, scan)
		return err
	}
}

// Each calls f with each row.
func Each(f func(pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := f(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// Exec runs a statement in a transaction.
func Exec(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	_, err := tx.Exec(ctx, sql, args...)
	return err
}

// ExecOr is Exec for a statement that changes rows, and returns none if there are none.
func ExecOr(ctx context.Context, tx pgx.Tx, none error, sql string, args ...any) error {
	tag, err := tx.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() == 0 {
		return none
	}
	return err
}

// IfNoRow replaces the error of a query that found no row. Other errors stay as they are.
func IfNoRow(err, instead error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return instead
	}
	return err
}

// Within runs f in one transaction of a scope.
func (p *Pool) Within(ctx context.Context, s Scope, doing string, f func(tx pgx.Tx) error) error {
	return Classify(doing, p.Transact(ctx, s, s.TxOptions(), f))
}

// Transact runs f in one transaction of a scope, as begin or ReadOptions begin it.
func (p *Pool) Transact(ctx context.Context, s Scope, begin pgx.TxOptions, f func(tx pgx.Tx) error) error {
	leave, err := p.Share(ctx, s)
	if err != nil {
		return err
	}
	defer leave()
	return pgx.BeginTxFunc(ctx, p, begin, f)
}

// AlterTable runs f in a transaction that fails at once if another one, such as a backup,
// holds the table, because writers and readers would queue up behind it. The next round
// tries again.
func (p *Pool) AlterTable(ctx context.Context, f func(tx pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, p, Owner.TxOptions(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '100ms'`); err != nil {
			return err
		}
		return f(tx)
	})
	if PgCode(err) == lockNotAvailable {
		p.Log.Info("cannot alter a table in use, will try again in the next round")
		return nil
	}
	return err
}

// RunEvery calls f now and at every interval, until ctx ends. It logs the first failure,
// each other error after it, and the first success after failures.
func (p *Pool) RunEvery(ctx context.Context, interval time.Duration, doing string, f func(context.Context) error) {
	var last error
	for {
		err := f(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && (last == nil || err.Error() != last.Error()):
			p.Log.Warn("cannot finish a round, will try again", "doing", doing, "error", err)
		case err == nil && last != nil:
			p.Log.Info("finished a round again", "doing", doing)
		}
		last = err
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// Error codes of PostgreSQL.
const (
	UniqueViolation     = "23505"
	ForeignKeyViolation = "23503"
	UndefinedTable      = "42P01"
	lockNotAvailable    = "55P03"
	QueryCanceled       = "57014"
	CheckViolation      = "23514"
)

// PgCode returns PostgreSQL's error code, "" if err is not from PostgreSQL.
func PgCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// passing are the classes of PostgreSQL's errors that do not depend on the request:
// connection, invalid transaction state, authorization, database missing, rollback,
// resources, object state, operator intervention, system error, internal error.
var passing = []string{"08", "25", "28", "3D", "40", "53", "55", "57", "58", "XX"}

// fenced returns the leases that key_check_leases found void.
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

// Classify turns an error of the database into one of the domain: EUnavailable if a retry
// may succeed, EInvalid for data that the database refuses. A fault of the program stays
// as it is.
func Classify(doing string, err error) error {
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
	code := PgCode(err)
	var netErr net.Error
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case connecting:
		return waypost.WrapError(waypost.EUnavailable, "the database is out of reach", wrapped)
	case code == "WP001":
		return controlplane.ErrEpoch
	case code == "WP002":
		return fenced(err)
	case code == "WP003":
		return waypost.WrapError(waypost.EConflict, waypost.MessageOf(controlplane.ErrSwitching), errors.Join(controlplane.ErrSwitching, wrapped))
	case len(code) == 5 && (code[:2] == "22" || code[:2] == "23" || code[:2] == "54"): // data exception, integrity violation, limit exceeded
		return waypost.WrapError(waypost.EInvalid, "the database refuses this value", wrapped)
	case len(code) == 5 && slices.Contains(passing, code[:2]):
		return waypost.WrapError(waypost.EUnavailable, "the database is not available at the moment", wrapped)
	case code != "", isFault(err):
		return wrapped
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &netErr):
		return waypost.WrapError(waypost.EUnavailable, "the database did not answer in time", wrapped)
	}
	return waypost.WrapError(waypost.EUnavailable, "the database is out of reach", wrapped)
}

// isFault reports whether a value could not be encoded or read, which is a fault of the
// program. Any other unknown error may come from a lost connection.
func isFault(err error) bool {
	_, marshal := errors.AsType[*json.MarshalerError](err)
	_, value := errors.AsType[*json.UnsupportedValueError](err)
	_, kind := errors.AsType[*json.UnsupportedTypeError](err)
	_, scan := errors.AsType[pgx.ScanArgError](err)
	return marshal || value || kind || scan
}

func Deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// UTC returns a time that may be NULL in UTC, zero for NULL.
func UTC(t *time.Time) time.Time { return Deref(t).UTC() }
