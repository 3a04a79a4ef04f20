package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
)

const byHand = `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, '%s', 'https://example.com/%s')`

// requireAsPostgreSQL holds a replica of the tail against a snapshot.
func (f *follow) requireAsPostgreSQL(t *testing.T, db *postgres.DB) {
	t.Helper()
	f.catchUp(t, db, 1000)
	require.Equal(t, newFollow(t, db).rows, f.rows)
}

// target returns the target of a link in the replica.
func (f *follow) target(code string) string { return string(f.rows["1/1/"+code].Payload) }

// Polling by transaction ids ends wrong here: the low id writes last.
func TestAnIdleWriterThatUpdatesAfterYoungerTransactionsComesLast(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	insert(t, db, link("contested"))
	idle, err := hand.Begin(t.Context())
	require.NoError(t, err)
	var old, young uint64
	require.NoError(t, idle.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&old))

	other := psql(t, hand.Config().ConnString())
	for i := range 3 {
		tx, err := other.Begin(t.Context())
		require.NoError(t, err)
		exec(t, tx, fmt.Sprintf(`UPDATE link SET original_url = 'https://example.com/young-%d' WHERE code = 'contested'`, i))
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&young))
		require.NoError(t, tx.Commit(t.Context()))
		f.catchUp(t, db, 1000)
		require.Equal(t, fmt.Sprintf("https://example.com/young-%d", i), f.target("contested"), "an open transaction holds nobody up")
	}
	require.Less(t, old, young)
	exec(t, idle, `UPDATE link SET original_url = 'https://example.com/old' WHERE code = 'contested'`)
	require.NoError(t, idle.Commit(t.Context()))
	f.requireAsPostgreSQL(t, db)
	require.Equal(t, "https://example.com/old", f.target("contested"))
}

func TestAnInsertThatIsUpdatedInItsTransactionAgainstAnUpdateFromOutside(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	other := psql(t, hand.Config().ConnString())
	first, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, first, fmt.Sprintf(byHand, "contested", "1"))
	exec(t, first, `UPDATE link SET original_url = 'https://example.com/2' WHERE code = 'contested'`)
	updated := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.WithoutCancel(t.Context()), `UPDATE link SET original_url = 'https://example.com/3'
			WHERE code = 'contested'`)
		updated <- err
	}()
	waiting(t, db, another(t, hand))
	exec(t, first, `UPDATE link SET original_url = original_url || '?last' WHERE code = 'contested'`)
	require.NoError(t, first.Commit(t.Context()))
	require.NoError(t, <-updated)
	f.requireAsPostgreSQL(t, db)
	// The update began before the link was there. What it sees of it PostgreSQL decides, and
	// replicas have the same.
	require.Contains(t, []string{"https://example.com/2?last", "https://example.com/3"}, f.target("contested"))
}

// another is another connection of an operator's.
func another(t *testing.T, hand *pgx.Conn) *pgx.Conn {
	t.Helper()
	return psql(t, hand.Config().ConnString())
}

func TestBatchesThatOverlapInAnyOrderNeitherDeadlockNorPlaceACodeTwice(t *testing.T) {
	db, _ := open(t)
	f := newFollow(t, db)
	const batches, codes = 6, 40
	all := make([][]controlplane.InsertResult, batches)
	var wg sync.WaitGroup
	for i := range batches {
		wg.Go(func() {
			ls := links(codes)
			if i%2 == 1 {
				slices.Reverse(ls)
			}
			placed, _, err := db.InsertLinks(t.Context(), 0, insertions(ls[i:]...))
			if err != nil {
				t.Error(err)
			}
			all[i] = placed
		})
	}
	wg.Wait()
	count := 0
	for _, placed := range all {
		for _, p := range placed {
			if p == controlplane.Placed {
				count++
			}
		}
	}
	f.requireAsPostgreSQL(t, db)
	require.Equal(t, count, len(slices.DeleteFunc(keysOf(f), func(k string) bool { return len(k) < 9 || k[:9] != "1/1/link-" })), "each once")
}

func keysOf(f *follow) (keys []string) {
	for k := range f.rows {
		keys = append(keys, k)
	}
	return keys
}

func TestInsertsOnConflictReplicateWhatTheyDid(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	insert(t, db, link("there"))
	const update = ` ON CONFLICT (domain_id, code) DO UPDATE SET original_url = excluded.original_url || '?again'`
	exec(t, hand, fmt.Sprintf(byHand, "there", "new")+update)
	f.catchUp(t, db, 1000)
	require.Equal(t, "https://example.com/new?again", f.target("there"))
	before := f.rows["1/1/there"]
	exec(t, hand, fmt.Sprintf(byHand, "there", "never")+` ON CONFLICT DO NOTHING`)
	f.requireAsPostgreSQL(t, db)
	require.Equal(t, before, f.rows["1/1/there"])

	// Against a transaction that has not ended: it waits, and then updates what is there.
	for name, commit := range map[string]bool{"committed": true, "rolled-back": false} {
		first, err := hand.Begin(t.Context())
		require.NoError(t, err)
		exec(t, first, fmt.Sprintf(byHand, name, "first"))
		other := another(t, hand)
		done := make(chan error, 1)
		go func() {
			_, err := other.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf(byHand, name, "second")+update)
			done <- err
		}()
		waiting(t, db, another(t, hand))
		if commit {
			require.NoError(t, first.Commit(t.Context()))
		} else {
			require.NoError(t, first.Rollback(t.Context()))
		}
		require.NoError(t, <-done)
		f.requireAsPostgreSQL(t, db)
		want := "https://example.com/second"
		if commit {
			want += "?again"
		}
		require.Equal(t, want, f.target(name))
	}
}

// hurried opens a control plane with the default timeouts.
func hurried(t *testing.T, hand *pgx.Conn) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgservertest.Plain(hand.Config().ConnString())})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

func TestAFrozenClientThatHoldsTheHeadIsEndedAndLosesItsTransactionAlone(t *testing.T) {
	t.Parallel() // waits for a limit
	db, hand := open(t)
	behind := hurried(t, hand)
	f := newFollow(t, db)
	frozen, err := pgx.ConnectConfig(t.Context(), hand.Config())
	require.NoError(t, err)
	t.Cleanup(func() { _ = frozen.Close(context.Background()) })
	tx, err := frozen.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, fmt.Sprintf(byHand, "frozen", "x"))
	exec(t, tx, `SET idle_in_transaction_session_timeout = 2000`) // as each of the control plane's has

	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for i := 0; ; i++ { // each waits for the head, and answers in time
		_, _, err = behind.InsertLinks(ctx, 0, insertions(link(fmt.Sprintf("behind-%d", i))))
		if err == nil {
			break
		}
		require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "%v", err)
		require.NoError(t, ctx.Err())
	}
	require.Error(t, tx.Commit(t.Context()), "it was ended")
	f.requireAsPostgreSQL(t, db)
	require.NotContains(t, f.rows, "1/1/frozen")
}

func TestAClientWithoutAnyLimitThatHoldsTheHeadCostsErrorsAndNoWaiting(t *testing.T) {
	t.Parallel() // waits for a limit
	db, hand := open(t)
	behind := hurried(t, hand)
	f := newFollow(t, db)
	tx, err := hand.Begin(t.Context()) // psql of an operator who went to lunch
	require.NoError(t, err)
	exec(t, tx, fmt.Sprintf(byHand, "lunch", "x"))
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	_, _, err = behind.InsertLinks(ctx, 0, insertions(link("behind")))
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "%v", err)
	require.NoError(t, ctx.Err())
	require.Empty(t, f.catchUp(t, db, 1000), "readers are not held up")
	require.NoError(t, tx.Commit(t.Context()))
	insert(t, db, link("behind"))
	f.requireAsPostgreSQL(t, db)
	require.Contains(t, f.rows, "1/1/lunch")
}
