package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

func TestACodeThatAForgottenHistoryMayHaveIssuedCannotBeChosen(t *testing.T) {
	url := cluster.Database(t)
	db := startNode(t, url, &memory{})
	l := lease(t, db, "eu")
	db.Close()
	hand := psql(t, url)
	exec(t, hand, otherIdentity)
	db = startNode(t, url, nil) // without a high-water mark, keys are held back
	defer db.Close()
	unused := (l.Prefix + 1) % 3844
	space, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	require.Greater(t, space.ResumeGap, int64(1000))
	expect := func(want controlplane.InsertResult) {
		t.Helper()
		require.Equal(t, want, choose(t, db, l.Prefix, l.Hi+500), "in a range, above what the backup knows")
		require.Equal(t, want, choose(t, db, unused, 500), "in a prefix that looks unused")
	}
	expect(controlplane.Issuable)
	require.Equal(t, controlplane.Placed, choose(t, db, l.Prefix, l.Hi+2*space.ResumeGap), "nobody can have got as far")
	require.Equal(t, controlplane.Placed, choose(t, db, unused, 2*space.ResumeGap))

	_, err = db.ChangeRanges(t.Context(), operator, resume(nil, false))
	require.NoError(t, err)
	expect(controlplane.Issuable)

	// A prefix that only the forgotten history used, and further than the high-water mark.
	given := (l.Prefix + 2) % 3844
	exec(t, hand, fmt.Sprintf(`SELECT key_remember('[{"prefix": %d, "region": "eu", "lo": 7000000, "hi": 7000100, "next": 7000100}]')`, given))
	for _, counter := range []int64{6_999_999, 7_000_050, 7_000_100, 900_000_000} {
		require.Equal(t, controlplane.Issuable, choose(t, db, given, counter))
	}
}

func TestASecondFailoverBeforeTheFirstLookIsNotGuessed(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	lease(t, db, "eu")
	db.Close()
	hand := psql(t, url)
	// All that this control plane has seen of the epoch is one block.
	m.sinceThen([]byte(`"at":0`))
	exec(t, hand, otherIdentity)
	db = startNode(t, url, m)
	defer db.Close()
	_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.ErrorContains(t, err, "no control plane remembers")
}

func TestEveryEpochIsLookedAtAsAWholeWhenItBegins(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	lease(t, db, "eu")
	lease(t, db, "us")
	hand := psql(t, url)
	exec(t, hand, otherIdentity)
	exec(t, hand, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.Eventually(t, func() bool { _, err := db.Head(t.Context()); return err == nil }, waitLimit, pause)
	db.Close() // before any round of Watch
	var epoch uint32
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT epoch FROM changelog_head`).Scan(&epoch))
	require.Contains(t, string(m.document), fmt.Sprintf(`"epoch":%d`, epoch))
	require.Contains(t, string(m.document), `"region":"eu"`)
	require.Contains(t, string(m.document), `"region":"us"`)
	require.NotContains(t, string(m.document), `"at":0,`)
}

func TestTimesOfAWrongClockDoNotMakeTheGapSmall(t *testing.T) {
	for name, c := range map[string]struct {
		statement string
		at        time.Time // of the last look
		held      string
	}{
		"a control plane was seen in a year to come": {
			statement: `INSERT INTO control_node (node, region, seen_at) VALUES ('n/9', 'eu', now() + interval '1 year')`,
			at:        time.Now().Add(-3 * time.Hour), held: "so long ago",
		},
		"the clock is behind the one of the last look": {statement: `SELECT 1`, at: time.Now().Add(time.Hour), held: "its clock is behind"},
	} {
		t.Run(name, func(t *testing.T) {
			url, m := cluster.Database(t), &memory{}
			db := startNode(t, url, m)
			lease(t, db, "eu")
			db.Close()
			hand := psql(t, url)
			exec(t, hand, otherIdentity)
			m.sinceThen(fmt.Appendf(nil, `"at":%d`, c.at.Unix()))
			exec(t, hand, `UPDATE changelog_epoch SET opened_at = opened_at - interval '1 day'`)
			exec(t, hand, `ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
			exec(t, hand, `UPDATE changelog SET at = at - interval '1 day'`)
			exec(t, hand, `ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)
			exec(t, hand, c.statement)
			db = startNode(t, url, m)
			defer db.Close()
			_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
			require.ErrorContains(t, err, c.held)
		})
	}
}

// A disk that was rolled back keeps its identity. The first control plane to connect
// writes on as if nothing had happened; the one that remembers connects later.
func TestWhatWasWrittenAfterARollbackDoesNotMakeTheGapSmall(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	insert(t, db, links(1)...)
	require.NoError(t, db.WatchOnce(t.Context()))
	db.Close()
	m.sinceThen(fmt.Appendf(nil, `"at":%d`, time.Now().Add(-3*time.Hour).Unix()))
	hand := psql(t, url)
	exec(t, hand, `ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
	exec(t, hand, `UPDATE changelog SET stamp = stamp + 1 WHERE seq = (SELECT seq FROM changelog_head)`)
	exec(t, hand, `ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)
	other := startNode(t, url, nil)
	require.NoError(t, other.Beat(t.Context(), "n/9", "eu", nil))
	other.Close()

	db = startNode(t, url, m)
	defer db.Close()
	_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.ErrorContains(t, err, "so long ago")
}

// A pooler between Waypost and PostgreSQL can keep connections open over a failover.
func TestADatabaseThatGoesBackUnderAnOpenConnectionLeasesNothing(t *testing.T) {
	db, hand := open(t)
	lease(t, db, "eu")
	backup := dump(t, hand)
	var seq int64
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT seq FROM changelog_head`).Scan(&seq))
	forgotten := lease(t, db, "eu")
	insert(t, db, links(1)...)
	insert(t, db, link("another"))
	insert(t, db, link("one-more"))
	require.NoError(t, db.WatchOnce(t.Context()))

	restore(t, hand, backup)
	exec(t, hand, `ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
	exec(t, hand, fmt.Sprintf(`DELETE FROM changelog WHERE seq > %d`, seq))
	exec(t, hand, `ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)
	exec(t, hand, fmt.Sprintf(`UPDATE changelog_head SET seq = %d`, seq))
	_, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.ErrorContains(t, err, "back in time")
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	require.Equal(t, map[string]int{"held": 1}, states(t, hand))

	require.NoError(t, db.WatchOnce(t.Context()))
	next := lease(t, db, "eu")
	require.True(t, next.Prefix != forgotten.Prefix || next.Lo >= forgotten.Hi, "%+v", next)
}

func TestAnEpochThatCannotBeToldCostsNoLeases(t *testing.T) {
	db, hand := open(t)
	lease(t, db, "eu")
	exec(t, hand, openEpoch)
	exec(t, hand, `CREATE OR REPLACE FUNCTION key_remember(ranges jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$`)
	for range 5 {
		_, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
		require.ErrorContains(t, err, "not now")
	}
	require.Equal(t, map[string]int{"burned": 1, "free": 1}, states(t, hand))
}
