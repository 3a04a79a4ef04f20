package analytics

import (
	"cmp"
	"context"
	"testing"
	"time"

	"waypost/controlplane/postgres/scoped"
)

// Limits bound the work of a roller; zero fields stay as they are.
type Limits struct {
	Interval              time.Duration
	Parts, Bytes, Workers int
}

// With sets limits of a roller that does not run yet.
func (r *Roller) With(l Limits) *Roller {
	r.limits = rollerLimits{
		interval: cmp.Or(l.Interval, r.limits.interval), parts: cmp.Or(l.Parts, r.limits.parts),
		bytes: cmp.Or(l.Bytes, r.limits.bytes), workers: cmp.Or(l.Workers, r.limits.workers),
	}
	return r
}

// CountIn returns the one number of a query in the scope of workspaces.
func (db *Store) CountIn(ctx context.Context, workspaces, sql string) (n int64, err error) {
	err = db.pool.QueryRowIn(ctx, scoped.Tenant(workspaces), sql, nil, &n)
	return n, err
}

// LimitGroups sets the bounds of groups until the end of a test.
func LimitGroups(t testing.TB, links, days int) {
	l, d, tl, td := liveLinks, liveDays, tableLinks, tableDays
	t.Cleanup(func() { liveLinks, liveDays, tableLinks, tableDays = l, d, tl, td })
	liveLinks, liveDays, tableLinks, tableDays = links, days, links, days
}

// LimitSingles sets the bound of crossed clicks until the end of a test.
func LimitSingles(t testing.TB, rows int) {
	n := crossedRows
	t.Cleanup(func() { crossedRows = n })
	crossedRows = rows
}
