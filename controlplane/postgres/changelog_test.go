package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/replication"
)

// follow reads the whole changelog from a position on and keeps the rows in a
// map, as a replica would, checking every sequence and digest on the way.
type follow struct {
	at   waypost.Position
	rows map[string]waypost.Record
}

func newFollow(t *testing.T, db *postgres.DB) *follow {
	t.Helper()
	f := &follow{rows: make(map[string]waypost.Record)}
	head, err := db.Snapshot(t.Context(), 0, waypost.Slots-1, func(b []byte) error { return f.put(b) })
	require.NoError(t, err)
	f.at = head.Position
	require.Equal(t, head.Digest, f.digest())
	return f
}

func (f *follow) put(b []byte) error {
	var r waypost.Record
	if err := replication.DecodeRecord(slices.Clone(b), &r); err != nil {
		return err
	}
	key := fmt.Sprintf("%d/%d/%s", r.Kind, r.Domain, r.Name)
	if old, ok := f.rows[key]; ok && old.Revision.Newer(r.Revision) {
		return errors.New("an older revision came later")
	}
	if r.State == waypost.Purged {
		delete(f.rows, key)
		return nil
	}
	f.rows[key] = r
	return nil
}

func (f *follow) digest() (d uint64) {
	for _, r := range f.rows {
		d ^= r.Stamp
	}
	return d
}

func (f *follow) catchUp(t *testing.T, db *postgres.DB, chunk int) (seqs []uint64) {
	t.Helper()
	for {
		b, err := db.Read(t.Context(), f.at, chunk)
		require.NoError(t, err)
		if len(b.Transactions) == 0 {
			return seqs
		}
		for _, tx := range b.Transactions {
			require.Equal(t, f.at.Seq+1, tx.Seq, "no sequence is missing")
			for _, rec := range tx.Records {
				require.NoError(t, f.put(rec))
			}
			require.Equal(t, tx.Digest, f.digest(), "the digest holds after every transaction")
			f.at = waypost.Position{Epoch: b.Epoch, Seq: tx.Seq, Stamp: tx.Stamp}
			seqs = append(seqs, tx.Seq)
		}
	}
}

func TestWhatIsChangedByHandReplicatesToo(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	insert(t, db, links(3)...)
	exec(t, hand, `UPDATE link SET original_url = 'https://example.org/by-hand' WHERE code = 'link-1'`)
	exec(t, hand, `DELETE FROM link WHERE code = 'link-2'`)
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'by-hand', 'https://example.net/')
	               ON CONFLICT (domain_id, code) DO UPDATE SET title = 'x'`)
	exec(t, hand, `UPDATE link SET active = false WHERE code = 'by-hand'`)
	f.catchUp(t, db, 1000)

	require.Equal(t, "https://example.org/by-hand", string(f.rows["1/1/link-1"].Payload))
	require.NotContains(t, f.rows, "1/1/link-2")
	require.Equal(t, waypost.Disabled, f.rows["1/1/by-hand"].State)
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, head.Position, f.at)
	require.Equal(t, head.Digest, f.digest())
	require.Equal(t, f.rows, newFollow(t, db).rows, "a snapshot holds the same as the tail")
}

func TestLinksAreStampedWhoeverInsertsThem(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	insert(t, db, links(3)...)
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url, slot, rev_epoch, rev_seq, stamp)
	               SELECT 1, 1, 'copy-' || code, original_url, slot, rev_epoch, rev_seq, stamp FROM link`)
	f.catchUp(t, db, 1000)
	require.Equal(t, f.rows, newFollow(t, db).rows)

	var links, stamps, slots, revisions int
	require.NoError(t, hand.QueryRow(t.Context(), `
		SELECT count(*), count(DISTINCT stamp), count(*) FILTER (WHERE slot = waypost_slot(1, domain_id, code)),
		       count(*) FILTER (WHERE (rev_epoch, rev_seq) = (SELECT c.epoch, max(c.seq) FROM changelog c WHERE c.name = code GROUP BY 1))
		FROM link`).Scan(&links, &stamps, &slots, &revisions))
	require.Equal(t, []int{6, 6, 6, 6}, []int{links, stamps, slots, revisions})
}

func TestNobodyWritesUnderTheNumberOfAnotherTransaction(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	insert(t, db, links(2)...)
	before, err := db.Head(t.Context())
	require.NoError(t, err)
	for name, statements := range map[string][]string{
		"links that bring the number of an earlier one": {
			`SELECT set_config('waypost.epoch', rev_epoch::text, true), set_config('waypost.stamped', rev_seq::text, true) FROM link LIMIT 1`,
			`INSERT INTO link (workspace_id, domain_id, code, original_url, slot, rev_epoch, rev_seq, stamp)
			 SELECT 1, 1, 'forged', original_url, slot, rev_epoch, rev_seq, stamp FROM link LIMIT 1`,
		},
		"a transaction that says it has one": {
			`SELECT set_config('waypost.writer', pg_current_xact_id()::text, true)`,
			`UPDATE link SET title = 'forged'`,
		},
		"the same with new links": {
			`SELECT set_config('waypost.writer', pg_current_xact_id()::text, true)`,
			`INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'forged', 'https://example.com/')`,
		},
	} {
		tx, err := hand.Begin(t.Context())
		require.NoError(t, err)
		exec(t, tx, statements[0])
		_, err = tx.Exec(t.Context(), statements[1])
		require.Error(t, err, name)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	after, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Position, after.Position)
	require.Equal(t, before.Digest, after.Digest)
	f.catchUp(t, db, 1000)
	require.Equal(t, f.rows, newFollow(t, db).rows)
}

// What a lost history has named by an id is named by no other thing after a restore.
func TestANewEpochLeavesAGapInAllIds(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("before"))
	exec(t, hand, `INSERT INTO domain (host) VALUES ('before.example')`)
	exec(t, hand, openEpoch)
	insert(t, db, link("after"))
	exec(t, hand, `INSERT INTO domain (host) VALUES ('after.example')`)
	exec(t, hand, `INSERT INTO workspace (slug, name) VALUES ('after', 'After')`)
	require.Greater(t, number(t, hand, `SELECT max(id) - min(id) FROM link`), int64(1_000_000_000))
	require.Greater(t, number(t, hand, `SELECT max(id) - min(id) FROM domain`), int64(10_000))
	require.Greater(t, number(t, hand, `SELECT max(id) - min(id) FROM workspace`), int64(1_000_000))
}

func TestARollbackLeavesNoGapAndNoTrace(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'gone', 'https://example.net/')`)
	require.NoError(t, tx.Rollback(t.Context()))

	tx, err = hand.Begin(t.Context())
	require.NoError(t, err)
	sub, err := tx.Begin(t.Context())
	require.NoError(t, err)
	exec(t, sub, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'gone', 'https://example.net/')`)
	require.NoError(t, sub.Rollback(t.Context()), "with the number that the transaction had taken")
	exec(t, tx, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'kept', 'https://example.net/')`)
	sub, err = tx.Begin(t.Context())
	require.NoError(t, err)
	exec(t, sub, `UPDATE link SET original_url = 'https://example.net/sub' WHERE code = 'kept'`)
	require.NoError(t, sub.Rollback(t.Context()))
	require.NoError(t, tx.Commit(t.Context()))

	require.Len(t, f.catchUp(t, db, 1000), 1)
	require.NotContains(t, f.rows, "1/1/gone")
	require.Equal(t, "https://example.net/", string(f.rows["1/1/kept"].Payload))
}

func TestAReaderNeverSkipsAWriterThatCommitsLate(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'early', 'https://example.net/')`)

	late := make(chan error, 1)
	go func() { // waits for the head until the first has committed
		_, _, err := db.InsertLinks(context.WithoutCancel(t.Context()), 0, insertions(links(1)...))
		late <- err
	}()
	waiting(t, db, hand)
	require.Empty(t, f.catchUp(t, db, 1000))
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-late)
	require.Len(t, f.catchUp(t, db, 1000), 2)
	require.Less(t, f.rows["1/1/early"].Revision.Seq, f.rows["1/1/link-0"].Revision.Seq)
}

// waiting returns once some session waits for a lock.
func waiting(t *testing.T, db *postgres.DB, hand *pgx.Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		// A transaction keeps the first answer of pg_stat_activity until it is cleared.
		exec(t, hand, `SELECT pg_stat_clear_snapshot()`)
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock'`).Scan(&n))
		_, err := db.Head(t.Context())
		require.NoError(t, err)
		return n > 0
	}, time.Minute, time.Millisecond, "no session waits for a lock")
}

func TestChangelog_ReplicatedTablesRefuseAChangeOfKey(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(1)...)
	for _, sql := range []string{
		`UPDATE link SET code = 'another' WHERE code = 'link-0'`,
		`UPDATE domain SET id = 9 WHERE id = 1`,
		`UPDATE link SET original_url = E'https://example.com/\r\nSet-Cookie: a' WHERE code = 'link-0'`,
		`UPDATE link SET original_url = 'https://example.com/é' WHERE code = 'link-0'`,
		`INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'x x', 'https://example.net/')`,
	} {
		_, err := hand.Exec(t.Context(), sql)
		require.Error(t, err, sql)
	}
	for _, target := range []string{
		"", "javascript:alert(1)", "http://", "https://", "https:/a", " https://a",
		"https://a b", "https://a\n", "https://a\x7f", "https://\u00a0",
	} {
		_, err := hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'target', $1)`, target)
		require.ErrorContains(t, err, "link_location_is_a_header", "%q", target)
	}
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'shouted', 'HTTPS://a')`)
	f := newFollow(t, db)
	require.Equal(t, "https://example.com/link-0", string(f.rows["1/1/link-0"].Payload))
}

func TestASessionInReplicaRoleIsStillLogged(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	cfg := hand.Config().Copy()
	cfg.User = "postgres"
	super, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, super.Close(context.Background())) }()
	exec(t, super, `SET session_replication_role = replica`)
	exec(t, super, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'replica', 'https://example.net/')`)
	require.Len(t, f.catchUp(t, db, 10), 1)
	require.Contains(t, f.rows, "1/1/replica")
	_, err = super.Exec(t.Context(), `UPDATE link SET workspace_id = 404 WHERE code = 'replica'`)
	require.ErrorContains(t, err, "there is no workspace 404")
}

func TestSlotsAreComputedAlikeInPostgreSQLAndGo(t *testing.T) {
	_, hand := open(t)
	for _, name := range []string{"abcd", "ZZZZZZZ", "a-b_c", "1", "00000000000000000000000000000000"} {
		for _, domain := range []waypost.DomainID{0, 1, 4_000_000} {
			var slot uint16
			require.NoError(t, hand.QueryRow(t.Context(), `SELECT waypost_slot(1, $1, $2)`, domain, name).Scan(&slot))
			require.Equal(t, waypost.Slot(waypost.KindLink, domain, []byte(name)), slot)
		}
	}
}

func TestALongTransactionIsReadWholeHoweverSmallTheChunk(t *testing.T) {
	db, _ := open(t)
	f := newFollow(t, db)
	insert(t, db, links(50)...)
	insert(t, db, link("after"))
	require.Len(t, f.catchUp(t, db, 7), 2)
	require.Contains(t, f.rows, "1/1/after")
}

func TestATransactionThatIsTooLongForTheStreamAsksForASnapshot(t *testing.T) {
	db, _ := open(t, func(c *postgres.Config) { c.MaxTransaction = 20 })
	f := newFollow(t, db)
	insert(t, db, links(50)...)
	_, err := db.Read(t.Context(), f.at, 7)
	require.ErrorIs(t, err, replication.ErrTrimmed)
}

func TestAPositionThatTheLogNoLongerReachesIsTold(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	insert(t, db, links(1)...)
	insert(t, db, link("second"))
	trim(t, hand, `seq < (SELECT seq FROM changelog_head)`)
	_, err := db.Read(t.Context(), f.at, 10)
	require.ErrorIs(t, err, replication.ErrTrimmed)
}

// trim takes a part of the log away, as dropping a partition does.
func trim(t testing.TB, hand *pgx.Conn, where string) {
	t.Helper()
	exec(t, hand, `ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
	exec(t, hand, `DELETE FROM changelog WHERE `+where)
	exec(t, hand, `ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)
}

func TestAPositionOfAnotherHistoryIsTold(t *testing.T) {
	db, _ := open(t)
	at := insert(t, db, links(1)...)
	for name, change := range map[string]func(*waypost.Position){
		"another epoch":        func(p *waypost.Position) { p.Epoch.ID[0]++ },
		"another stamp":        func(p *waypost.Position) { p.Stamp++ },
		"a sequence not known": func(p *waypost.Position) { p.Seq += 100 },
		"an ordinal not known": func(p *waypost.Position) { p.Epoch.Ordinal++ },
	} {
		t.Run(name, func(t *testing.T) {
			p := at
			change(&p)
			_, err := db.Read(t.Context(), p, 10)
			require.ErrorIs(t, err, replication.ErrOtherHistory)
		})
	}
}

func TestCommitsThatThisProcessHasSeenAndPostgreSQLForgotOpenAnEpoch(t *testing.T) {
	db, hand := open(t)
	at := insert(t, db, links(1)...)
	insert(t, db, link("lost"))
	// what a rolled-back disk looks like from inside
	exec(t, hand, `UPDATE changelog_head SET seq = seq - 1`)
	trim(t, hand, `seq > (SELECT seq FROM changelog_head)`)
	exec(t, hand, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	var head replication.Head
	var err error
	for head, err = db.Head(t.Context()); err != nil; head, err = db.Head(t.Context()) {
		require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	}
	require.Greater(t, head.Position.Epoch.Ordinal, at.Epoch.Ordinal)
}

func TestConnectionsThatComeAndGoUnderLoadOpenNoEpoch(t *testing.T) {
	db, _ := open(t)
	first := insert(t, db, links(1)...)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		for i := range 12 {
			_, _, err := db.InsertLinks(t.Context(), 0, insertions(link(fmt.Sprintf("load-%d", i))))
			if err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				// A client that hangs up: the driver closes its connection.
				hurried, stop := context.WithTimeout(ctx, time.Duration(i%5)*100*time.Microsecond)
				_, _ = db.ListLinks(hurried, waypost.DefaultWorkspace, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst,
					controlplane.ListPlace{}, 10)
				stop()
			}
		})
	}
	wg.Wait()
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, first.Epoch, head.Position.Epoch)
	require.Greater(t, head.Position.Seq, first.Seq)
}

func TestAnEpochIsAboveEveryEarlierOneAlsoAboveTheForgotten(t *testing.T) {
	db, hand := open(t)
	was := insert(t, db, links(1)...)
	_, err := db.Head(t.Context())
	require.NoError(t, err)
	open := func(seenEpoch uint32) (ordinal uint32) {
		_, err := hand.Exec(t.Context(), `SELECT opened FROM changelog_head, changelog_open_epoch('test', epoch, $1, NULL, seq + 1, 0,
			'{"ranges": []}', 1, 0)`, seenEpoch)
		require.NoError(t, err)
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT epoch FROM changelog_head`).Scan(&ordinal))
		return ordinal
	}
	second := open(was.Epoch.Ordinal)
	require.Greater(t, second, uint32(time.Now().Add(-time.Hour).Unix()/60), "no restore can give it again")
	third := open(second + 7)
	require.Equal(t, second+8, third, "a control plane saw a later one")
	require.Equal(t, third, open(second), "nobody has seen more than is there: nothing is opened")
}

func TestTimesThatNobodyCouldReadAreRefused(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(1)...)
	for _, sql := range []string{
		`UPDATE link SET expires_at = '-infinity'`, `UPDATE link SET expires_at = 'infinity'`, `UPDATE link SET created_at = '-infinity'`,
		`UPDATE link SET expires_at = '12000-01-01'`, `UPDATE link SET updated_at = '0044-03-15 BC'`,
	} {
		_, err := hand.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "link_times_can_be_told", sql)
	}
}

func TestAPayloadThatBreaksTheBoundsGoesOutAsATombstoneAndDoesNotStopTheStream(t *testing.T) {
	db, hand := open(t)
	f := newFollow(t, db)
	exec(t, hand, `ALTER TABLE link DROP CONSTRAINT link_location_is_a_header`)
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url, location)
		VALUES (1, 1, 'poison', 'https://example.com/', 'https://example.com/' || repeat('x', 30000))`)
	insert(t, db, link("after"))
	f.catchUp(t, db, 10)
	require.Equal(t, waypost.Deleted, f.rows["1/1/poison"].State)
	require.Contains(t, f.rows, "1/1/after")
	require.Equal(t, f.rows, newFollow(t, db).rows)
}

func TestTheOldestOfAChangelogThatIsTooLargeIsDroppedInOrder(t *testing.T) {
	db, hand := open(t, func(c *postgres.Config) { c.KeepChangelogBytes = 1 })
	require.NoError(t, db.MaintainOnce(t.Context()), "which makes the partitions that come")
	first := insert(t, db, links(1)...)
	exec(t, hand, `UPDATE changelog_head SET seq = 1000000`) // a million transactions later
	second := insert(t, db, link("second"))
	require.NoError(t, db.MaintainOnce(t.Context()))
	exec(t, hand, `UPDATE changelog_head SET seq = 3000000`)
	third := insert(t, db, link("third"))
	left := func() (names []string) {
		rows, err := hand.Query(t.Context(), `
			SELECT inhrelid::regclass::text FROM pg_inherits JOIN changelog_head ON true
			WHERE inhparent = 'changelog'::regclass AND inhrelid::regclass::text ~ '[0-9]'
				AND substr(inhrelid::regclass::text, 11)::bigint < seq ORDER BY 1`)
		require.NoError(t, err)
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return names
	}
	require.Equal(t, []string{"changelog_1000000", "changelog_2000000", "changelog_3000000"}, left(), "the first is gone")

	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `LOCK TABLE ONLY changelog_1000000 IN ACCESS SHARE MODE`)
	require.NoError(t, db.MaintainOnce(t.Context()), "it waits for the next round")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Contains(t, left(), "changelog_2000000", "not before an older one")

	require.NoError(t, db.MaintainOnce(t.Context()))
	require.Equal(t, []string{"changelog_3000000"}, left(), "that of the head stays")
	for _, at := range []waypost.Position{first, second} {
		_, err := db.Read(t.Context(), at, 10)
		require.ErrorIs(t, err, replication.ErrTrimmed)
	}
	_, err = db.Read(t.Context(), third, 10)
	require.NoError(t, err)
}

func TestMaintenanceGivesWayToWhoeverHoldsTheChangelog(t *testing.T) {
	db, hand := open(t, func(c *postgres.Config) { c.KeepChangelog = time.Nanosecond })
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `LOCK TABLE changelog IN ACCESS SHARE MODE`) // as a backup does
	exec(t, tx, `LOCK TABLE changelog_default IN ACCESS SHARE MODE`)
	require.NoError(t, db.MaintainOnce(t.Context()), "it waits for the next round")
	require.NoError(t, tx.Rollback(t.Context()))

	require.NoError(t, db.MaintainOnce(t.Context()))
	names := func() (all []string) {
		rows, err := hand.Query(t.Context(), `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'changelog'::regclass
			ORDER BY 1`)
		require.NoError(t, err)
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return all
	}
	require.Equal(t, []string{"changelog_0", "changelog_1000000", "changelog_2000000", "changelog_3000000", "changelog_default"}, names())

	at := insert(t, db, links(1)...)
	exec(t, hand, `UPDATE changelog_head SET seq = 1000000`) // a million transactions later
	next := insert(t, db, link("later"))
	require.NoError(t, db.MaintainOnce(t.Context()))
	require.NotContains(t, names(), "changelog_0", "what is older than the retention is dropped")
	require.Contains(t, names(), "changelog_4000000")
	_, err = db.Read(t.Context(), at, 10)
	require.ErrorIs(t, err, replication.ErrTrimmed)
	b, err := db.Read(t.Context(), next, 10)
	require.NoError(t, err)
	require.Empty(t, b.Transactions)
}

func TestChangelog_HeadIsFoundByItsKeyAlsoWhenItsTableHasGrown(t *testing.T) {
	_, hand := open(t)
	// As a long transaction leaves it: the row is behind empty pages, which VACUUM keeps.
	exec(t, hand, `DO $$ BEGIN FOR i IN 1..5000 LOOP UPDATE changelog_head SET ord = ord; END LOOP; END $$`)
	exec(t, hand, `VACUUM changelog_head`)
	require.Greater(t, number(t, hand, `SELECT pg_relation_size('changelog_head') / 8192`), int64(20))

	scans := func() int64 {
		return number(t, hand, `SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'changelog_head'`)
	}
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	before := scans()
	exec(t, tx, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'some-code', 'https://example.com/')`)
	exec(t, tx, `UPDATE link SET active = false WHERE code = 'some-code'`)
	exec(t, tx, `UPDATE domain SET not_found_url = 'https://example.com/' WHERE id = 1`)
	exec(t, tx, `SELECT key_check_leases(ARRAY(SELECT id FROM key_lease))`)
	require.Equal(t, before, scans(), "no statement reads all pages")
	require.NoError(t, tx.Rollback(t.Context()))
}
