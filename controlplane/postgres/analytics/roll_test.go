package analytics_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/rollup"
)

func TestWhatCannotBeReadIsSetAsideAndItsClicksStayCounted(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	ingest(t, db, batch(1, total("spring", 3)))
	fold(t, db)
	exec(t, hand, `UPDATE click_day SET quarters = '\x02', breakdown = '\x0107', visitors = '\xff'`)
	ingest(t, db, batch(2, total("spring", 4)))
	exec(t, hand, `UPDATE click_pack SET details = ARRAY['\x02'::bytea]`)
	exec(t, hand, `UPDATE click_workspace_part SET breakdown = '\x03'`)

	id := number(t, hand, `SELECT id FROM link`)
	day := int32(time.Now().Unix() / (24 * 60 * 60))
	told := func() {
		for _, links := range [][]int64{{id}, nil} {
			days, err := db.ClicksByDay(t.Context(), waypost.DefaultWorkspace, analytics.ClickDays{Links: links, First: day - 1, End: day + 2})
			require.NoError(t, err)
			var sum, country rollup.Count
			for _, d := range days {
				sum.Add(d.Total())
				country.Add(d.Breakdown.Total(rollup.Country))
			}
			require.Equal(t, rollup.Count{Clicks: 7}, sum)
			require.Equal(t, sum, country)
		}
		require.EqualValues(t, 7, clicks(t, db, "spring"))
	}
	told()
	registry := prometheus.NewRegistry()
	require.NoError(t, db.NewRoller(registry).Fold(t.Context()))
	told()
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_set_aside WHERE link_id IS NULL AND workspace_id = 1 AND body = '\x03'`))
	require.Equal(t, []int64{4, 4}, []int64{
		number(t, hand, `SELECT count(*) FROM click_set_aside WHERE link_id = $1`, id), number(t, hand,
			`SELECT count(DISTINCT what) FROM click_set_aside`),
	})
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_set_aside WHERE body = '\x0107'`))
	require.EqualValues(t, 5, metric(t, registry, "waypost_click_set_aside_total"))
	require.EqualValues(t, 1, metric(t, registry, "waypost_click_parts_folded_total"))

	ingest(t, db, batch(3, total("spring", 1)))
	fold(t, db)
	require.EqualValues(t, 5, number(t, hand, `SELECT count(*) FROM click_set_aside`), "and everything can be read again")
	require.EqualValues(t, 8, number(t, hand, `SELECT clicks FROM click_day`))
}

// Links that are followed very often fill several rounds. They are done in one pass, and
// the others have their turn.
func TestARollerStaysWithBusyLinksForSomeRounds(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("busy"))
	exec(t, hand, `SELECT setval(pg_get_serial_sequence('link', 'id'), 100000)`)
	insert(t, db, link("quiet"))
	exec(t, hand, `CREATE TABLE rounds (n serial, links bigint[])`)
	exec(t, hand, `CREATE FUNCTION note_round() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN INSERT INTO rounds (links) SELECT array_agg(l) FROM gone, unnest(links) l; RETURN NULL; END $$`)
	exec(t, hand, `CREATE TRIGGER note AFTER DELETE ON click_pack REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_round()`)
	for n := range 25 {
		ingest(t, db, batch(uint64(1+n), total("busy", 1)))
	}
	ingest(t, db, batch(26, total("quiet", 1)))
	require.NoError(t, db.NewRoller(nil).With(analytics.Limits{Parts: 2, Workers: 1}).Fold(t.Context()))

	busy, quiet := number(t, hand, `SELECT id FROM link WHERE code = 'busy'`), number(t, hand, `SELECT id FROM link WHERE code = 'quiet'`)
	require.EqualValues(t, 14, number(t, hand, `SELECT count(*) FROM rounds`))
	require.EqualValues(t, 11, number(t, hand, `SELECT n FROM rounds WHERE links = ARRAY[$1::bigint]`, quiet))
	require.EqualValues(t, 12, number(t, hand, `SELECT count(*) FROM rounds WHERE links = ARRAY[$1::bigint, $1]`, busy))
	require.EqualValues(t, 25, clicks(t, db, "busy"))
}

func TestRoller_ReportsWhatItSetAsideAfterTheCommit(t *testing.T) {
	var log bytes.Buffer
	db, hand := open(t, func(c *postgres.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	insert(t, db, links(1)...)
	ingest(t, db, batch(1, total("link-0", 4)))
	exec(t, hand, `UPDATE click_pack SET details = ARRAY['\x0107'::bytea]`)
	exec(t, hand, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no commit'; END $$`)
	exec(t, hand, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON click_set_aside DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION refuse()`)
	roller := db.NewRoller(nil).With(analytics.Limits{Workers: 1})
	require.ErrorContains(t, roller.Fold(t.Context()), "no commit")
	require.NotContains(t, log.String(), "set aside")

	exec(t, hand, `DROP TRIGGER refuse ON click_set_aside`)
	require.NoError(t, roller.Fold(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "set aside"))
}

// metric returns the value of a counter or gauge without labels.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestARollerFoldsWhatComesAndTellsWhatWaits(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(3)...)
	registry := prometheus.NewRegistry()
	roller := db.NewRoller(registry).With(analytics.Limits{Interval: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); roller.Run(ctx) }()
	for seq := range uint64(5) {
		ingest(t, db, batch(seq+1, total("link-0", 1), total("link-1", 2), total("link-2", 3)))
		require.Eventually(t, func() bool {
			return number(t, hand, `SELECT count(*) FROM click_part`) == 0
		}, 60*time.Second, 5*time.Millisecond)
	}
	require.EqualValues(t, 30, number(t, hand, `SELECT sum(clicks)::bigint FROM link_click`))
	cancel()
	<-ended
	ingest(t, db, batch(6, total("link-0", 1)))
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	roller.Run(ctx)
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_part`), "one that is stopped does nothing more")
}

func TestPartsThatAnotherRollerHasAtHandWaitInSight(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(1)...)
	ingest(t, db, batch(1, total("link-0", 4)))
	exec(t, hand, `UPDATE click_pack SET received_at = now() - interval '1 minute'`)
	class, lock := analytics.FoldLock(1, number(t, hand, `SELECT id FROM link`))
	other, err := hand.Begin(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1, $2)`, class, lock)
	require.NoError(t, err)

	registry := prometheus.NewRegistry()
	roller := db.NewRoller(registry).With(analytics.Limits{Interval: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); roller.Run(ctx) }()
	require.Eventually(t, func() bool { return metric(t, registry, "waypost_click_packs") == 1 }, 60*time.Second, 5*time.Millisecond)
	require.InDelta(t, 60, metric(t, registry, "waypost_click_parts_age_seconds"), 30)
	require.EqualValues(t, 4, clicks(t, db, "link-0"), "they are told all the same")
	require.NoError(t, other.Rollback(t.Context()))
	require.Eventually(t, func() bool {
		return metric(t, registry, "waypost_click_parts_folded_total") == 1 && metric(t, registry, "waypost_click_parts_age_seconds") == 0
	}, 60*time.Second, 5*time.Millisecond)
	cancel()
	<-ended
	require.EqualValues(t, 4, metric(t, registry, "waypost_clicks_folded_total"))
}

func TestWhoWantsEventsHasEveryClickOrASample(t *testing.T) {
	db, hand := open(t, func(c *postgres.Config) { c.EventSample = 10 })
	exec(t, hand, `INSERT INTO workspace (id, name, slug, settings)
		VALUES (7, 'All', 'all', '{"events": "all"}'), (8, 'Sample', 'sample', '{"events": "sampled"}'), (9, 'Strange', 'strange', '{"events": 3}'),
		(10, 'Seldom', 'seldom', '{"events": "sampled", "events_sample": 550}'), (11, 'Broken', 'broken', '{"events": "sampled",
			"events_sample": -4}')`)
	for code, ws := range map[string]waypost.WorkspaceID{
		"none": 1, "every": 7, "some": 8, "more": 8, "strange": 9, "seldom": 10,
		"broken": 11,
	} {
		l := link(code)
		l.Workspace = ws
		insert(t, db, l)
	}
	now := time.Now().Truncate(time.Millisecond).UnixMilli()
	b := &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Seq: 1, Exact: true, Profiles: somebody}
	for _, code := range []string{"none", "every", "some", "more", "strange", "seldom", "broken"} {
		l := waypost.LinkClicks{Domain: waypost.DefaultDomain, Code: waypost.Code(code), Last: now}
		for i := range int64(100) {
			l.Rows = append(l.Rows, waypost.ClickRow{At: now - i, Profile: 1, Count: 1})
		}
		l.Rows = append(l.Rows, waypost.ClickRow{At: now, Profile: 3, Count: 1_000})
		b.Links = append(b.Links, l)
	}
	ingest(t, db, b)
	count := func(ws int) int64 {
		return number(t, hand, `SELECT coalesce(sum(clicks), 0)::bigint FROM click_event WHERE workspace_id = $1`, ws)
	}
	require.Equal(t, []int64{0, 1_100, 220, 0}, []int64{count(1), count(7), count(8), count(9)})
	require.Equal(t, []int64{2, 110}, []int64{count(10), count(11)}, "a workspace's own sample; one that is none is the cluster's")
	told, err := db.Workspace(t.Context(), 8)
	require.NoError(t, err)
	require.Equal(t, 10, told.Settings.EventsSample, "which is what it says when it has none of its own")
	require.EqualValues(t, 1, number(t, hand, `
		SELECT count(*) FROM click_event WHERE workspace_id = 7 AND at = $1
		AND (country, city, device, browser, os, referrer) = ('DE', 'Köln', 'mobile', 'Firefox', 'Android',
			'www.example.com')`, time.UnixMilli(now)))
	require.EqualValues(t, 1_000, number(t, hand, `SELECT clicks FROM click_event WHERE workspace_id = 7
		AND bot`), "clicks that are alike are one row")

	b = &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Seq: 2, Profiles: anybody, Links: []waypost.LinkClicks{totalAt("every", 5,
		waypost.Quarter(now))}}
	ingest(t, db, b)
	require.EqualValues(t, 1_100, count(7), "a batch that was folded has no single clicks")
	require.EqualValues(t, 1_105, number(t, hand, `SELECT sum(clicks)::bigint FROM v_daily_click_stats WHERE workspace_id = 7`))
}

func TestMonthsOfEventsAreMadeAheadAndExportedBeforeTheyAreDropped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	db, hand := open(t, func(c *postgres.Config) { c.ExportEvents, c.EventMonths = dir, 13 })
	insert(t, db, link("spring"))
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "all"}'`)
	ingest(t, db, batch(1, total("spring", 2)))
	exists := func(month time.Time) bool {
		return number(t, hand, `SELECT count(*) FROM pg_class WHERE relname = $1`, "click_event_"+month.Format("2006_01")) == 1
	}
	now := time.Now().UTC()
	this := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)

	later := this.AddDate(0, 13, 20)
	require.NoError(t, db.KeepEventsOnce(t.Context(), later))
	for n := range 3 {
		require.True(t, exists(this.AddDate(0, 13+n, 0)), "ahead")
	}
	require.True(t, exists(this), "after thirteen months it is still there")
	require.False(t, exists(this.AddDate(0, -1, 0)))

	// A click that came when there was no month for it has one from then on.
	exec(t, hand, `INSERT INTO click_event SELECT now() + interval '40 years', 1, 1, 5, false, '', '', '', '', '', ''`)
	require.NoError(t, db.KeepEventsOnce(t.Context(), later))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_event_default`))
	require.EqualValues(t, 7, number(t, hand, `SELECT sum(clicks)::bigint FROM click_event`))

	// One that could not be exported is kept, also out of the way.
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	require.Error(t, db.KeepEventsOnce(t.Context(), this.AddDate(0, 14, 0)))
	require.True(t, exists(this))
	require.EqualValues(t, 5, number(t, hand, `SELECT sum(clicks)::bigint FROM click_event`))
	require.NoError(t, os.Remove(dir))
	require.NoError(t, db.KeepEventsOnce(t.Context(), this.AddDate(0, 14, 0)))
	require.False(t, exists(this))

	f, err := os.Open(filepath.Join(dir, "clicks-"+this.Format("2006-01")+".jsonl.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	var event struct {
		At     time.Time
		Code   string
		Clicks int
	}
	require.NoError(t, json.Unmarshal(text, &event), "one line")
	require.Equal(t, "spring 2", fmt.Sprint(event.Code, " ", event.Clicks))
	require.WithinDuration(t, now, event.At, time.Minute)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range left {
		require.Regexp(t, `^clicks-\d{4}-\d\d\.jsonl\.gz$`, entry.Name())
	}
}

// Otherwise the few clicks that came late would take the place of the month's file.
func TestAMonthIsNotExportedWhileClicksOfItMayCome(t *testing.T) {
	dir := t.TempDir()
	db, _ := open(t, func(c *postgres.Config) { c.ExportEvents, c.EventMonths = dir, 1 })
	january := filepath.Join(dir, "clicks-2031-01.jsonl.gz")
	for _, month := range []time.Month{time.January, time.February} {
		require.NoError(t, db.KeepEventsOnce(t.Context(), time.Date(2031, month, 15, 0, 0, 0, 0, time.UTC)))
	}
	require.NoError(t, db.KeepEventsOnce(t.Context(), time.Date(2031, time.March, 1, 12, 0, 0, 0, time.UTC)))
	require.NoFileExists(t, january, "a click may be thirty days old")
	require.NoError(t, db.KeepEventsOnce(t.Context(), time.Date(2031, time.March, 5, 0, 0, 0, 0, time.UTC)))
	require.FileExists(t, january)
}

func TestVoidsAndDroppedClicksAreKeptInSight(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	require.True(t, ingest(t, db, batch(1)).Voided)
	b := batch(2, total("spring", 1))
	b.Dropped = 30
	require.EqualValues(t, 30, ingest(t, db, b).Dropped)
	require.Zero(t, ingest(t, db, b).Dropped, "a resend tells nothing twice")
	b = batch(3)
	b.Dropped = 12
	require.False(t, ingest(t, db, b).Voided, "a batch that has nothing but dropped clicks is not lost")
	require.Equal(t, []int64{1, 42}, []int64{number(t, hand, `SELECT voided FROM click_watermark`), number(t, hand,
		`SELECT dropped FROM click_watermark`)})
}
