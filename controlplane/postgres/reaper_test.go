package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

func expiring(code string, ago time.Duration) *waypost.Link {
	l := link(code)
	l.ExpiresAt = time.Now().Add(-ago)
	return l
}

func TestWhatHasExpiredBecomesATombstoneAndInTheEndNothing(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	old, fresh := expiring("long-ago", 2*time.Hour), expiring("just-now", time.Minute)
	minted := expiring("Ab3dEf7", 2*time.Hour)
	minted.Custom = false
	insert(t, db, old, fresh, minted, link("for-ever"))
	exec(t, hand, `INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) SELECT id, 1, 5, now() FROM link`)
	for _, sql := range []string{
		`INSERT INTO click_day SELECT id, current_date - n, 1, 5, 0, '', '', '' FROM link, generate_series(1, 6000) n`,
		`INSERT INTO click_workspace_day VALUES (1, current_date, 20, 0, '', '', '')`,
		`INSERT INTO click_event SELECT now(), 1, id, 5, false, '', '', '', '', '', '' FROM link, generate_series(1, 3)`,
	} {
		exec(t, hand, sql)
	}
	f.catchUp(t, db, 100)

	r := controlplane.NewReaper(controlplane.ReaperConfig{Patience: waitLimit, Store: db, Buffer: time.Hour, PurgeAfter: time.Hour})
	stats, err := db.CleanupStats(t.Context())
	require.NoError(t, err)
	require.Equal(t, api.CleanupStats{Backlog: 3}, stats)
	require.NoError(t, r.Once(t.Context()))
	f.catchUp(t, db, 100)
	require.Equal(t, waypost.Deleted, f.rows["1/1/long-ago"].State)
	require.Empty(t, f.rows["1/1/long-ago"].Payload, "a tombstone does not keep the target")
	require.Equal(t, waypost.Live, f.rows["1/1/just-now"].State,
		"within the buffer for clocks that differ; edges answer 410 from the expiry on")
	stats, err = db.CleanupStats(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), *stats.LastCleanupTime, time.Minute)
	require.Positive(t, stats.AverageCleanupMS)
	stats.LastCleanupTime, stats.AverageCleanupMS = nil, 0
	require.Equal(t, api.CleanupStats{TotalCleaned: 2, LastBatchSize: 2, SuccessfulRuns: 1, Backlog: 1}, stats)

	exec(t, hand, `UPDATE link SET deleted_at = deleted_at - interval '2 hours' WHERE deleted_at IS NOT NULL`)
	require.NoError(t, r.Once(t.Context()))
	f.catchUp(t, db, 100)
	require.NotContains(t, f.rows, "1/1/long-ago")
	require.NotContains(t, f.rows, "1/1/Ab3dEf7")
	require.Contains(t, f.rows, "1/1/for-ever")
	for _, table := range []string{"link_click", "click_day", "click_event"} {
		require.EqualValues(t, 2, number(t, hand, `SELECT count(DISTINCT link_id) FROM `+table), "their clicks are gone, too: %s", table)
	}
	require.EqualValues(t, 20, number(t, hand, `SELECT clicks FROM click_workspace_day`), "the workspace has had them all the same")
	require.Equal(t, "long-ago", textOf(t, hand, `SELECT string_agg(code, ' ') FROM retired_code`),
		"a minted code is a counter, which never comes again")

	placed, _, err := db.InsertLinks(t.Context(), 0, insertions(link("long-ago"), link("another")))
	require.NoError(t, err)
	require.Equal(t, []controlplane.InsertResult{controlplane.Retired, controlplane.Placed}, placed, "a code of one's own stays retired for ever")
}

func TestPurgeLinks_DeletesChangesBeforeItTakesTheHead(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"), link("summer"), link("autumn"))
	const change = `INSERT INTO link_change (link_id, rev_epoch, rev_seq, workspace_id, what, actor, before, after)
		SELECT id, 0, n, 1, 'changed', '{}', '{}', '{}' FROM link, generate_series(1, 2500) n WHERE code = `
	exec(t, hand, `UPDATE link SET deleted_at = now() - interval '2 hours' WHERE code <> 'autumn'`)
	exec(t, hand, change+`'spring'`)
	exec(t, hand, change+`'autumn'`)
	autumn := `SELECT count(*) FROM link_change WHERE link_id = ` + strconv.FormatInt(number(t, hand, `SELECT id FROM link WHERE code = 'autumn'`), 10)

	holding, err := psql(t, hand.Config().ConnString()).Begin(t.Context())
	require.NoError(t, err)
	exec(t, holding, `SELECT changelog_begin()`)
	purged := make(chan int, 1)
	go func() {
		n, err := db.PurgeLinks(context.WithoutCancel(t.Context()), time.Hour, 10)
		if err != nil {
			n = -1
		}
		purged <- n
	}()
	waiting(t, db, psql(t, hand.Config().ConnString()))
	require.EqualValues(t, 3, number(t, hand, `SELECT count(*) FROM link`))
	require.EqualValues(t, 2500, number(t, hand, `SELECT count(*) FROM link_change`), "those of a link that lives")
	exec(t, holding, change+`'summer'`)
	require.NoError(t, holding.Commit(t.Context()))
	require.Equal(t, 1, <-purged, "a link that has changes meanwhile waits, because they would go under the head")

	n, err := db.PurgeLinks(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 2500, number(t, hand, autumn))
	require.EqualValues(t, 2500, number(t, hand, `SELECT count(*) FROM link_change`))
}

// An edge that was cut off delivers clicks of a link that was purged meanwhile, and that
// the control plane may still remember.
// What is left of the clicks of a link is found by its counter, which goes last.
func TestSeveralReapersDoTheWorkOnce(t *testing.T) {
	db, hand := open(t)
	const n = 300
	var ls []*waypost.Link
	for i := range n {
		ls = append(ls, expiring(fmt.Sprintf("old-%d", i), 2*time.Hour))
	}
	insert(t, db, ls...)
	f := newFollow(t, db)
	r := controlplane.NewReaper(controlplane.ReaperConfig{Patience: waitLimit, Store: db, BatchSize: 25, PurgeAfter: time.Hour})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { require.NoError(t, r.Once(t.Context())) })
	}
	wg.Wait()
	require.NoError(t, r.Once(t.Context()))
	f.catchUp(t, db, 1000)
	for key, rec := range f.rows {
		require.True(t, rec.Kind != waypost.KindLink || rec.State == waypost.Deleted, key)
	}
	stats, err := db.CleanupStats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, stats.TotalCleaned)
	require.EqualValues(t, 25, stats.LastBatchSize)
	require.False(t, stats.IsRunning)
	require.EqualValues(t, n/25, number(t, hand, `SELECT count(DISTINCT seq) FROM changelog WHERE state = 2`), "a transaction has 25 links")
}

// stopping ends a context after some batches.
type stopping struct {
	*postgres.DB
	left atomic.Int64
	stop context.CancelFunc
}

func (s *stopping) ExpireLinks(ctx context.Context, buffer time.Duration, limit int) (int, error) {
	n, err := s.DB.ExpireLinks(ctx, buffer, limit)
	if s.left.Add(-1) == 0 {
		s.stop()
	}
	return n, err
}

func TestAReaperThatIsStoppedEndsAfterItsBatchAndTheNextRunGoesOn(t *testing.T) {
	db, _ := open(t)
	for i := range 40 {
		insert(t, db, expiring(fmt.Sprintf("old-%d", i), time.Hour))
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &stopping{DB: db, stop: stop}
	s.left.Store(2)
	require.ErrorIs(t, controlplane.NewReaper(controlplane.ReaperConfig{Patience: waitLimit, Store: s, BatchSize: 10}).Once(ctx),
		context.Canceled)
	stats, err := db.CleanupStats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, stats.TotalCleaned)
	require.EqualValues(t, 20, stats.Backlog)
	require.Zero(t, stats.FailedRuns, "a stop is no failure")
	require.False(t, stats.IsRunning, "another instance may begin at once")

	require.NoError(t, controlplane.NewReaper(controlplane.ReaperConfig{
		Patience: waitLimit, Store: db,
		PurgeAfter: time.Hour,
	}).Once(t.Context()))
	stats, err = db.CleanupStats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats.Backlog)
}

func TestAnExpiryThatIsPutOffMeanwhileCounts(t *testing.T) {
	db, hand := open(t)
	insert(t, db, expiring("revived", time.Hour))
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `UPDATE link SET expires_at = now() + interval '1 day'`) // and holds the head
	reaped := make(chan int, 1)
	go func() {
		n, err := db.ExpireLinks(context.WithoutCancel(t.Context()), 0, 10)
		if err != nil {
			n = -1
		}
		reaped <- n
	}()
	waiting(t, db, psql(t, hand.Config().ConnString()))
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, <-reaped)
	l, err := db.Link(t.Context(), 1, 1, "revived")
	require.NoError(t, err)
	require.True(t, l.ExpiresAt.After(time.Now()))
}

func TestOldKeysAreDeletedOnceNobodyMissesThem(t *testing.T) {
	db, hand := open(t)
	for range 4 {
		_, err := db.CreateKey(t.Context(), "default", "k", []string{"links:read"})
		require.NoError(t, err)
	}
	exec(t, hand, `UPDATE api_key SET expires_at = now() - interval '31 days' WHERE id = 1`)
	exec(t, hand, `UPDATE api_key SET revoked_at = now() - interval '31 days' WHERE id = 2`)
	exec(t, hand, `UPDATE api_key SET expires_at = now() - interval '29 days' WHERE id = 3`)
	r := controlplane.NewReaper(controlplane.ReaperConfig{
		Patience: waitLimit, Store: db, KeysAfter: 30 * 24 * time.Hour,
		PurgeAfter: time.Hour,
	})
	require.NoError(t, r.Once(t.Context()))
	require.Equal(t, "3 4", textOf(t, hand, `SELECT string_agg(id::text, ' ' ORDER BY id) FROM api_key`))
}

func textOf(t *testing.T, hand *pgx.Conn, sql string) (s string) {
	t.Helper()
	require.NoError(t, hand.QueryRow(t.Context(), sql).Scan(&s), sql)
	return s
}

// countingPurges counts how often links are to be purged.
type countingPurges struct {
	controlplane.ReaperStore
	n int
}

func (c *countingPurges) PurgeLinks(context.Context, time.Duration, int) (int, error) {
	c.n++
	return 0, nil
}

func TestARunEndsWhenNothingIsLeftHoweverSmallItsBatches(t *testing.T) {
	db, _ := open(t)
	s := &countingPurges{ReaperStore: db}
	r := controlplane.NewReaper(controlplane.ReaperConfig{Patience: waitLimit, Store: s, BatchSize: 1, MaxDuration: time.Second})
	require.NoError(t, r.Once(t.Context()))
	require.Equal(t, 1, s.n)
}

// failing expires and purges nothing.
type failing struct{ controlplane.ReaperStore }

func (failing) ExpireLinks(context.Context, time.Duration, int) (int, error) {
	return 0, errors.New("cannot expire")
}

func (failing) PurgeLinks(context.Context, time.Duration, int) (int, error) {
	return 0, errors.New("cannot purge")
}

func TestReaper_GoesOnWithOtherKindsWhenOneFails(t *testing.T) {
	db, hand := open(t)
	_, err := db.CreateKey(t.Context(), "default", "k", []string{"links:read"})
	require.NoError(t, err)
	exec(t, hand, `UPDATE api_key SET expires_at = now() - interval '1 day'`)
	err = controlplane.NewReaper(controlplane.ReaperConfig{Patience: waitLimit, Store: failing{db}}).Once(t.Context())
	require.ErrorContains(t, err, "cannot expire")
	require.ErrorContains(t, err, "cannot purge")
	require.Zero(t, number(t, hand, `SELECT count(*) FROM api_key`))
	stats, err := db.CleanupStats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.FailedRuns)
	require.Zero(t, stats.SuccessfulRuns)
}
