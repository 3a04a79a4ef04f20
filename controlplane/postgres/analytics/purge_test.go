package analytics_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres/analytics"
)

func TestTheClicksOfPurgedLinksGoWithThemAndTheWorkspaceKeepsItsOwn(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"), link("summer"), link("autumn"))
	exec(t, hand, `INSERT INTO link_dedupe (workspace_id, domain_id, target, link_id) SELECT 1, 1, sha256(code::bytea), id FROM link`)
	send(t, db, 1, rows("spring", 1, 0, 5, at(22, 20)), rows("summer", 1, 1, 7, at(22, 20)), rows("autumn", 1, 1, 1, at(22, 20)))
	fold(t, db)
	exec(t, hand, `INSERT INTO click_day SELECT link_id, day - n, workspace_id, 0, 0, '', '', ''
		FROM click_day, generate_series(1, 11000) n WHERE link_id = (SELECT id FROM link
			WHERE code = 'spring')`) // more than one statement deletes
	send(t, db, 2, rows("spring", 1, 0, 2, at(1, 0)), rows("summer", 1, 0, 3, at(1, 0))) // which is not folded yet
	total, bots, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.EqualValues(t, 18, total)
	summer := linkID(t, db, "summer")
	exec(t, hand, `UPDATE link SET deleted_at = now() - interval '2 hours' WHERE code IN ('spring', 'autumn')`)
	exec(t, hand, `UPDATE link SET deleted_at = now() WHERE code = 'summer'`)
	gone := []string{"link", "link_dedupe"}
	for _, table := range gone {
		require.EqualValues(t, 3, number(t, hand, `SELECT count(*) FROM `+table))
	}

	n, err := db.PurgeLinks(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for _, table := range gone {
		require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM `+table), table)
	}
	fold(t, db)
	_, err = db.SweepClicks(t.Context())
	require.NoError(t, err)
	for _, table := range []string{"link_click", "click_part", "click_day"} {
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table+` WHERE link_id <> $1`, summer), table)
	}
	for _, table := range []string{"link_click", "click_day"} {
		require.Positive(t, number(t, hand, `SELECT count(*) FROM `+table+` WHERE link_id = $1`, summer),
			"%s of a tombstone that is not old enough", table)
	}
	after, botsAfter, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.Equal(t, [2]int64{total, bots}, [2]int64{after, botsAfter}, "the workspace had these clicks nevertheless")
}

func TestClicksOfALinkThatIsPurgedMeanwhileCountForItsWorkspaceAlone(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"), link("summer"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(22, 20)), rows("summer", 1, 1, 7, at(22, 20)))
	exec(t, hand, `UPDATE link SET deleted_at = now() - interval '2 hours' WHERE code = 'spring'`)
	n, err := db.PurgeLinks(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	send(t, db, 2, rows("summer", 1, 0, 1, at(12, 0)), rows("spring", 1, 0, 2, at(12, 0)), rows("spring", 1, 1, 2, at(1, 0)))
	exec(t, hand, `UPDATE click_pack SET details = array_replace(details, details[1], '\xff')`) // what is broken of it is no one's, either
	fold(t, db)
	n, err = db.SweepClicks(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	summer := linkID(t, db, "summer")
	for _, table := range []string{"link_click", "click_part", "click_day", "click_set_aside"} {
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table+` WHERE link_id <> $1`, summer), table)
	}
	require.EqualValues(t, 8, clicks(t, db, "summer"))
	total, _, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.EqualValues(t, 5+7+1+2+2, total)
	_, top, err := db.WorkspaceClicks(t.Context(), waypost.DefaultWorkspace, everything(t), nil, 10)
	require.NoError(t, err)
	require.Len(t, top.Links, 1)
}

func TestClicksWithoutALinkAreFoundStepByStep(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(22, 20)))
	fold(t, db)
	exec(t, hand, `INSERT INTO link_click (link_id, workspace_id, clicks, bot_clicks, last_accessed_at)
		SELECT 1000 + n, 1, 1, 0, now() FROM generate_series(1, 60000) n`)
	for _, want := range []int{49_999, 10_001, 0} {
		n, err := db.SweepClicks(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.EqualValues(t, 5, number(t, hand, `SELECT sum(clicks)::bigint FROM link_click`))
}

func TestSweepClicks_ThatFailsHalfWayIsEndedByTheNext(t *testing.T) {
	db, hand := open(t)
	const days = 11_000 // more than one transaction deletes
	// There is no link of that id.
	exec(t, hand, `INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) VALUES (1000, 1, 5, now())`)
	exec(t, hand, `INSERT INTO click_event SELECT now(), 1, 1000, 5, false, '', '', '', '', '', '' FROM generate_series(1, 3)`)
	exec(t, hand, fmt.Sprintf(`INSERT INTO click_day SELECT 1000, current_date - n, 1, CASE n WHEN 1 THEN 5 ELSE 0 END, 0, '', '', ''
		FROM generate_series(1, %d) n`, days))
	exec(t, hand, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	for _, failing := range []string{"click_event", "click_day"} {
		when := ""
		if failing == "click_day" {
			when = `WHEN (OLD.clicks > 0)`
		}
		exec(t, hand, `CREATE TRIGGER fail BEFORE DELETE ON `+failing+` FOR EACH ROW `+when+` EXECUTE FUNCTION fail()`)
		_, err := db.SweepClicks(t.Context())
		require.Error(t, err, failing)
		require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM link_click`), failing)
		exec(t, hand, `DROP TRIGGER fail ON `+failing)
	}
	left := number(t, hand, `SELECT count(*) FROM click_day`)
	require.Positive(t, left)
	require.Less(t, left, int64(days), "the first transaction went through")
	n, err := db.SweepClicks(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, table := range []string{"click_event", "click_day", "link_click"} {
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table), table)
	}
}

func TestPurgeLinks_PassesThoseThatFail(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(5)...)
	exec(t, hand, `UPDATE link SET deleted_at = now() - interval '2 hours'`) // all at one moment
	exec(t, hand, `INSERT INTO click_event SELECT now(), 1, id, 5, false, '', '', '', '', '', '' FROM link ORDER BY id LIMIT 2`)
	exec(t, hand, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	exec(t, hand, `CREATE TRIGGER fail BEFORE DELETE ON click_event FOR EACH ROW EXECUTE FUNCTION fail()`)
	purge := func(want int) error {
		t.Helper()
		n, err := db.PurgeLinks(t.Context(), time.Hour, 2)
		require.Equal(t, want, n)
		return err
	}
	require.Error(t, purge(0))
	require.NoError(t, purge(2))
	require.NoError(t, purge(1))
	exec(t, hand, `DROP TRIGGER fail ON click_event`)
	require.NoError(t, purge(2), "they are tried again")
	require.Zero(t, number(t, hand, `SELECT count(*) FROM link`))
}

func TestPurge_SparesSingleClicksOfALinkThatIsNotDue(t *testing.T) {
	for name, c := range map[string]struct {
		change string // of the link, after it was chosen for the purge
		spared int64
	}{
		"restored":         {`deleted_at = NULL`, 3},
		"deleted just now": {`deleted_at = now()`, 3},
		"due":              {`deleted_at = now() - interval '2 hours'`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			db, hand := open(t)
			insert(t, db, link("spring"))
			exec(t, hand, `INSERT INTO click_event SELECT now(), 1, id, 5, false, '', '', '', '', '', '' FROM link, generate_series(1, 3)`)
			spring := analytics.Place{Workspace: 1, Link: linkID(t, db, "spring")}
			exec(t, hand, `UPDATE link SET `+c.change)
			_, err := db.Purge(t.Context(), []analytics.Place{spring}, time.Hour)
			require.NoError(t, err)
			require.Equal(t, c.spared, number(t, hand, `SELECT count(*) FROM click_event`))
		})
	}
}

func TestThePurgeOfALinkWaitsForTheRollerInItsArea(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(22, 20)))
	spring := linkID(t, db, "spring")
	exec(t, hand, `UPDATE link SET deleted_at = now() - interval '2 hours'`)
	rolling, err := hand.Begin(t.Context())
	require.NoError(t, err)
	kind, area := analytics.FoldLock(1, spring)
	exec(t, rolling, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d, %d)`, kind, area))
	purged := make(chan int, 1)
	go func() {
		n, err := db.PurgeLinks(context.WithoutCancel(t.Context()), time.Hour, 10)
		if err != nil {
			n = -1
		}
		purged <- n
	}()
	waiting(t, db, psql(t, hand.Config().ConnString()))
	require.NoError(t, rolling.Rollback(t.Context()))
	require.Equal(t, 1, <-purged)
	total, _, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.EqualValues(t, 5, total)
}
