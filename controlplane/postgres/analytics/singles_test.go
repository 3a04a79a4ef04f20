package analytics_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

// heldMonth returns a database with a month of single clicks that was detached and cannot
// be exported, and a function that makes the export work.
func heldMonth(t *testing.T) (db *postgres.DB, keep func() error, repair func()) {
	dir := filepath.Join(t.TempDir(), "events")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	db, hand := open(t, func(c *postgres.Config) { c.ExportEvents, c.EventMonths = dir, 13 })
	insert(t, db, link("spring"), link("summer"))
	exec(t, hand, `INSERT INTO click_event SELECT date_trunc('month', now()) - interval '1 day', 1, l.id, n, false, '', '', '', '', '', ''
		FROM link l, generate_series(1, 3) n`)
	now := time.Now().UTC()
	later := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, 14, 0)
	keep = func() error { return db.KeepEventsOnce(t.Context(), later) }
	require.Error(t, keep())
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_event`), "the month is out of the way")
	return db, keep, func() { require.NoError(t, os.Remove(dir)) }
}

func TestForgettingReachesAMonthThatWaitsForItsExport(t *testing.T) {
	db, keep, repair := heldMonth(t)
	f, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	require.EqualValues(t, 6, f.Events)
	repair()
	require.NoError(t, keep())
	f, err = db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "summer")
	require.NoError(t, err)
	require.Zero(t, f.Events, "they are in the export by now")
}

func TestAPurgeReachesAMonthThatWaitsForItsExport(t *testing.T) {
	db, _, _ := heldMonth(t)
	_, err := db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	n, err := db.PurgeLinks(t.Context(), -time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	now := time.Now().UTC()
	month := "click_event_" + now.AddDate(0, 0, -now.Day()).Format("2006_01")
	left, err := db.CountIn(t.Context(), "1", `SELECT count(*) FROM `+month)
	require.NoError(t, err)
	require.EqualValues(t, 3, left, "those of the other link")
	none, err := db.CountIn(t.Context(), "7", `SELECT count(*) FROM `+month)
	require.NoError(t, err)
	require.Zero(t, none, "and nobody else sees them")
}

func TestABatchThatArrivesWhileItsMonthIsMadeIsCounted(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "all"}'`)
	exec(t, hand, `DROP TABLE click_event_`+time.Now().UTC().Format("2006_01"))
	ingest(t, db, batch(1, total("spring", 1))) // there was no control plane to make it
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, hand, `DELETE FROM click_event_default`)
	exec(t, hand, `SELECT click_event_month(now()::date)`)
	counted := make(chan error, 1)
	go func() {
		_, err := tryIngest(t, db, batch(2, total("spring", 100)))
		counted <- err
	}()
	require.Eventually(t, func() bool { return number(t, hand, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 0 }, waitLimit, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-counted)
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_dead_letter`))
	require.EqualValues(t, 101, clicks(t, db, "spring"))
}

func TestMonthsOfClicksAreDroppedByPostgreSQLsClock(t *testing.T) {
	url := cluster.Database(t)
	hand := psql(t, url)
	past := time.Now().UTC().AddDate(-2, 0, 0)
	exec(t, hand, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
	exec(t, hand, `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
		RETURN pg_catalog.clock_timestamp() - interval '2 years'`)
	exec(t, hand, fmt.Sprintf(`SELECT click_event_month('%s')`, past.Format(time.DateOnly)))
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); db.KeepEvents(ctx) }()
	next := "click_event_" + past.AddDate(0, 1, 1-past.Day()).Format("2006_01") // it is made ahead
	require.Eventually(t, func() bool { return number(t, hand, fmt.Sprintf(`SELECT count(to_regclass('%s'))`, next)) == 1 }, waitLimit, time.Millisecond)
	cancel()
	<-ended
	require.EqualValues(t, 1, number(t, hand, fmt.Sprintf(`SELECT count(to_regclass('click_event_%s'))`, past.Format("2006_01"))))
}
