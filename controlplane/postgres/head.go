package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
)

// pool holds the connections that all stores share, and notes each of their commits. Many
// goroutines may use it.
type pool struct {
	*scoped.Pool
	highWater *highWaterMark
	clock     clock
	changed   *hint         // wakes the followers of this process
	news      chan struct{} // has a token when there are commits of which the others were not notified
}

var errWentBack = waypost.Errorf(waypost.EUnavailable, "the database went back in time: a new epoch of the changelog begins in a moment, "+
	"or, if /readyz says superseded, when an operator has decided which PostgreSQL is the right one")

// change runs f in a transaction of the scope operator that holds the head of the
// changelog, and notes the new head after the commit.
func (p *pool) change(ctx context.Context, doing string, f func(tx pgx.Tx, epoch uint32) error) error {
	_, err := p.changeIn(ctx, scoped.Operator, doing, f)
	return err
}

// changeIn is change in a scope, and returns the position. If f acts for a tenant in the
// scope operator, f enters the tenant's scope.
func (p *pool) changeIn(
	ctx context.Context, s scoped.Scope, doing string, f func(tx pgx.Tx, epoch uint32) error,
) (waypost.Position, error) {
	failpoint.Hit(doing + ": asked")
	var at begun
	err := p.Transact(ctx, s, s.TxOptions(), func(tx pgx.Tx) error {
		if err := at.scan(tx.QueryRow(ctx, selectBegin, 0)); err != nil {
			return err
		}
		// No other transaction can commit now, so this position must be newer than every
		// position seen.
		if seen := p.highWater.current(); !at.position().Revision().Newer(seen.revision()) {
			return errWentBack
		}
		failpoint.Hit(doing + ": begun")
		err := f(tx, uint32(at.epoch))
		failpoint.Hit(doing + ": before commit")
		return err
	})
	if err != nil {
		return waypost.Position{}, scoped.Classify(doing, err)
	}
	failpoint.Hit(doing + ": committed")
	p.noteCommit(at.position())
	return at.position(), nil
}

// noteCommit remembers a committed position and wakes the followers.
func (p *pool) noteCommit(at waypost.Position) {
	p.highWater.saw(at)
	p.moved()
}

// moved wakes the followers of this control plane and of others.
func (p *pool) moved() {
	p.changed.wake()
	select {
	case p.news <- struct{}{}:
	default:
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
