package postgres

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
	"waypost/controlplane/limit"
	"waypost/internal/failpoint"
)

// pool holds the connections that all stores share, and what they must do with every
// commit. It may be used by many goroutines.
type pool struct {
	*pgxpool.Pool
	log       *slog.Logger
	highWater *highWaterMark
	clock     clock
	changed   *hint       // wakes the followers of this process
	news      unsentHints // for other control planes
	tenants   *limit.Shares[waypost.WorkspaceID]
}

// freeOfTenants is the number of connections that requests of workspaces never take.
// They are for authentication, creates, clicks, edges and operators, which wait for no
// share.
const freeOfTenants = 4

// newShares divides the connections of a pool among workspaces. One has at most half, so
// that its slow requests leave the rest to others.
func newShares(conns int32) *limit.Shares[waypost.WorkspaceID] {
	return limit.NewShares[waypost.WorkspaceID](max(1, int(conns)-freeOfTenants), max(1, int(conns)/2))
}

// share waits for a place in the share of a scope's workspace. Every transaction takes
// its place before its connection, so that none waits for a place while it holds a
// connection or a lock. The caller calls leave when it has no connection any more.
func (p *pool) share(ctx context.Context, s scope) (leave func(), err error) {
	if s.sharer == 0 {
		return func() {}, nil
	}
	if !p.tenants.Take(ctx, s.sharer) {
		return nil, waypost.WrapError(waypost.EUnavailable, "too many requests of this workspace use the database at once", ctx.Err())
	}
	return func() { p.tenants.Return(s.sharer, 1) }, nil
}

// scope bounds a transaction: the role that it takes on with its first statement, and the
// workspaces that row-level security then shows it. It ends with the transaction. Between
// transactions a connection has a role without any rights.
type scope struct {
	role, workspaces string
	lookups          bool                // see lookingUp
	sharer           waypost.WorkspaceID // whose share a transaction waits for; 0: it does not wait
}

// noRole is the role of a connection between transactions, see migrations/access.
const noRole = "waypost_nobody"

var (
	// operator manages the installation: keys, key ranges, authentication, domains.
	operator = scope{role: "waypost_operator"}
	// stream reads the changelog and the replicated tables.
	stream = scope{role: "waypost_stream"}
	// ingest counts clicks.
	ingest = scope{role: "waypost_ingest"}
	// reaper removes expired rows.
	reaper = scope{role: "waypost_reaper"}
	// owner is the login, which alone makes and drops partitions. Row-level security
	// shows it no row of a tenant.
	owner = scope{role: "none"}
)

// tenant returns the scope of workspaces, in the form of workspaceList.
func tenant(workspaces string) scope { return scope{role: "waypost_tenant", workspaces: workspaces} }

func tenantOf(ws waypost.WorkspaceID) scope {
	return tenant(strconv.FormatInt(int64(ws), 10)).sharedBy(ws)
}

// sharedBy returns the scope for a request of a workspace, which waits for the share of
// the connections that the workspace has.
func (s scope) sharedBy(ws waypost.WorkspaceID) scope {
	s.sharer = ws
	return s
}

// lookingUp returns the scope for statements that find rows by an index. PostgreSQL keeps
// a plan that it made while a table was small, and such a plan may read the whole table.
func (s scope) lookingUp() scope {
	s.lookups = true
	return s
}

const enterScope = `SELECT set_config('role', $1, true), set_config('waypost.workspaces', $2, true)`

// enterLookups has rows read one after the other, so that a LIMIT ends that, and not
// first gathered in a bitmap.
const enterLookups = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// first makes the following statements of a batch run in the scope.
func (s scope) first(b *pgx.Batch) {
	b.Queue(enterScope, s.role, s.workspaces)
	if s.lookups {
		b.Queue(enterLookups)
	}
}

// enter makes the following statements of a transaction run in the scope.
func (s scope) enter(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	s.first(&b)
	return tx.SendBatch(ctx, &b).Close()
}

func setTenant(ctx context.Context, tx pgx.Tx, ws waypost.WorkspaceID) error {
	return tenantOf(ws).enter(ctx, tx)
}

// begin returns options that begin a transaction in the scope, in one round trip and
// without taking a snapshot.
func (s scope) begin() pgx.TxOptions { return s.options("begin") }

// beginReading returns options for a transaction that sees a single moment.
func (s scope) beginReading() pgx.TxOptions {
	return s.options("begin isolation level repeatable read read only")
}

func (s scope) options(begin string) pgx.TxOptions {
	begin += "; set local role " + s.role
	if s.workspaces != "" {
		begin += "; set local waypost.workspaces = '" + s.workspaces + "'" // digits and commas
	}
	if s.lookups {
		begin += "; set local enable_seqscan = off; set local enable_bitmapscan = off"
	}
	return pgx.TxOptions{BeginQuery: begin}
}

// listOf returns the value of waypost.workspaces for some workspaces.
func listOf(ids []int64) string {
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

// send runs a batch that begins with a scope, in one round trip and one transaction.
func (p *pool) send(ctx context.Context, s scope, b *pgx.Batch) error {
	leave, err := p.share(ctx, s)
	if err != nil {
		return err
	}
	defer leave()
	return p.SendBatch(ctx, b).Close()
}

// queryIn runs one query in a scope, in one round trip and one transaction.
func (p *pool) queryIn(ctx context.Context, s scope, sql string, args []any, read func(pgx.Rows) error) error {
	var b pgx.Batch
	s.first(&b)
	b.Queue(sql, args...).Query(read)
	return p.send(ctx, s, &b)
}

// queryRowIn does the same for a query that returns exactly one row.
func (p *pool) queryRowIn(ctx context.Context, s scope, sql string, args []any, into ...any) error {
	var b pgx.Batch
	s.first(&b)
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	return p.send(ctx, s, &b)
}

// execIn runs one statement in a scope and returns the number of rows.
func (p *pool) execIn(ctx context.Context, s scope, sql string, args ...any) (n int64, err error) {
	var b pgx.Batch
	s.first(&b)
	b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		n = tag.RowsAffected()
		return nil
	})
	return n, p.send(ctx, s, &b)
}

// collect reads the single column of all rows.
func collect[T any](into *[]T) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, pgx.RowTo[T])
		return err
	}
}

// within runs f in one transaction of a scope.
func (p *pool) within(ctx context.Context, s scope, doing string, f func(tx pgx.Tx) error) error {
	return classify(doing, p.transact(ctx, s, s.begin(), f))
}

// transact runs f in one transaction of a scope, as begin or beginReading begin it.
func (p *pool) transact(ctx context.Context, s scope, begin pgx.TxOptions, f func(tx pgx.Tx) error) error {
	leave, err := p.share(ctx, s)
	if err != nil {
		return err
	}
	defer leave()
	return pgx.BeginTxFunc(ctx, p, begin, f)
}

// change runs f in a transaction of the scope operator that holds the head of the
// changelog, and notes the new head after the commit.
func (p *pool) change(ctx context.Context, doing string, f func(tx pgx.Tx, epoch uint32) error) error {
	_, err := p.changeIn(ctx, operator, doing, f)
	return err
}

// changeIn does the same in a scope and returns the position. If f acts for a tenant in
// the scope operator, it enters the tenant's.
func (p *pool) changeIn(
	ctx context.Context, s scope, doing string, f func(tx pgx.Tx, epoch uint32) error,
) (waypost.Position, error) {
	failpoint.Hit(doing + ": asked")
	var at begun
	err := p.transact(ctx, s, s.begin(), func(tx pgx.Tx) error {
		if err := at.scan(tx.QueryRow(ctx, selectBegin, 0)); err != nil {
			return err
		}
		// No other transaction commits meanwhile, so every position seen lies before.
		if seen := p.highWater.look(); !at.position().Revision().Newer(seen.revision()) {
			return waypost.Errorf(waypost.EUnavailable, "the database went back in time: a new epoch of the changelog begins in a moment, "+
				"or, if /readyz says superseded, when an operator has decided which PostgreSQL is the right one")
		}
		failpoint.Hit(doing + ": begun")
		err := f(tx, uint32(at.epoch))
		failpoint.Hit(doing + ": before commit")
		return err
	})
	if err != nil {
		return waypost.Position{}, classify(doing, err)
	}
	failpoint.Hit(doing + ": committed")
	p.note(at.position())
	return at.position(), nil
}

// alter runs f in a transaction that fails at once if another one, such as a backup,
// holds the table, because writers and readers would queue up behind it. The next round
// tries again.
func (p *pool) alter(ctx context.Context, f func(tx pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, p, owner.begin(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '100ms'`); err != nil {
			return err
		}
		return f(tx)
	})
	if pgCode(err) == lockNotAvailable {
		p.log.Info("the table is in use; it waits for the next round")
		return nil
	}
	return err
}

// note remembers a committed position and wakes the followers.
func (p *pool) note(at waypost.Position) {
	p.highWater.saw(at)
	p.moved()
}

// moved wakes the followers of this control plane and of others.
func (p *pool) moved() {
	p.changed.wake()
	p.news.add()
}

// every calls f now and at every interval, until ctx ends.
func (p *pool) every(ctx context.Context, interval time.Duration, doing string, f func(context.Context) error) {
	failing := false
	for {
		err := f(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			p.log.Warn("a round failed, will try again", "doing", doing, "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// begun is the place of a write in the changelog, as changelog_begin_in returns it.
type begun struct {
	epoch      int32
	id         [16]byte
	seq, stamp int64
}

const (
	selectBegin    = `SELECT epoch, epoch_id, seq, stamp FROM changelog_begin_in($1)`
	selectPosition = `
		SELECT h.epoch, e.id, h.seq, h.stamp FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch WHERE h.singleton`
)

func (b *begun) scan(row pgx.Row) error { return row.Scan(&b.epoch, &b.id, &b.seq, &b.stamp) }

func (b *begun) position() waypost.Position {
	return waypost.Position{
		Epoch: waypost.Epoch{Ordinal: uint32(b.epoch), ID: b.id}, Seq: uint64(b.seq), Stamp: uint64(b.stamp),
	}
}

// Error codes of PostgreSQL.
const (
	uniqueViolation  = "23505"
	undefinedTable   = "42P01"
	lockNotAvailable = "55P03"
	checkViolation   = "23514"
)

// pgCode returns PostgreSQL's error code, "" if err is not from PostgreSQL.
func pgCode(err error) string {
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

// classify turns an error of the database into one of the domain: EUnavailable if a retry
// may succeed, EInvalid for data that the database refuses. A fault of the program stays
// as it is.
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
	case code != "", isFault(err):
		return wrapped
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &netErr):
		return waypost.WrapError(waypost.EUnavailable, "the database did not answer in time", wrapped)
	}
	return waypost.WrapError(waypost.EUnavailable, "the database is out of reach", wrapped)
}

// isFault reports whether a value could not be encoded or read, which neither PostgreSQL
// nor the network is to blame for. Anything else that is unknown may come of a connection
// that was lost.
func isFault(err error) bool {
	_, marshal := errors.AsType[*json.MarshalerError](err)
	_, value := errors.AsType[*json.UnsupportedValueError](err)
	_, kind := errors.AsType[*json.UnsupportedTypeError](err)
	_, scan := errors.AsType[pgx.ScanArgError](err)
	return marshal || value || kind || scan
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// utc returns a time that may be NULL in UTC, zero for NULL.
func utc(t *time.Time) time.Time { return deref(t).UTC() }
