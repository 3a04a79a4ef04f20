package analytics_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/rollup"
)

var eraser = controlplane.Actor{
	Workspace: waypost.DefaultWorkspace, KeyID: 3, Name: "dpo",
	Scopes: []controlplane.Scope{controlplane.ScopeAdmin},
}

// A roller of another area may hold a day that the erasure wants, and want one that it
// holds.
func TestAnErasureThatWouldWaitForeverIsTriedAgain(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	send(t, db, 1, rows("spring", 1, 0, 4, at(22, 20).AddDate(0, 0, -1)))
	send(t, db, 2, rows("spring", 1, 0, 1, at(1, 0)))
	fold(t, db)
	send(t, db, 3, rows("spring", 1, 0, 2, at(1, 0))) // of which the erasure locks the day first
	rolling, err := hand.Begin(t.Context())
	require.NoError(t, err)
	const lock = `SELECT FROM click_workspace_day WHERE day = $1 FOR UPDATE`
	exec(t, rolling, `SET LOCAL deadlock_timeout = '1min'`) // the other finds out
	_, err = rolling.Exec(t.Context(), lock, at(0, 0).AddDate(0, 0, -1))
	require.NoError(t, err)
	type result struct {
		f   controlplane.ForgottenClicks
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := db.ForgetClicks(context.WithoutCancel(t.Context()), eraser, waypost.DefaultDomain, "spring")
		done <- result{f, err}
	}()
	waiting(t, db, psql(t, hand.Config().ConnString()))
	_, err = rolling.Exec(t.Context(), lock, at(0, 0))
	require.NoError(t, err)
	require.NoError(t, rolling.Rollback(t.Context()))
	r := <-done
	require.NoError(t, r.err)
	require.Equal(t, controlplane.ForgottenClicks{Clicks: 7}, r.f)
	require.Zero(t, number(t, hand, `SELECT sum(clicks)::bigint FROM click_workspace_day`))
}

// everything is a time that holds all clicks of a test.
func everything(t *testing.T) *controlplane.Span {
	return span(t, at(0, 0).AddDate(0, 0, -3), time.Now().Add(time.Hour), controlplane.ByHour, nil)
}

func TestForgottenClicksAreNowhereAndLaterOnesCountFromZero(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "all"}' WHERE id = 1`)
	insert(t, db, link("spring"), link("summer"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(22, 20)), rows("summer", 1, 1, 7, at(22, 20)))
	send(t, db, 2, rows("spring", 2, 2, 2, at(1, 0)))
	fold(t, db)
	send(t, db, 3, rows("spring", 2, 1, 3, at(1, 0))) // which is not folded yet
	id := linkID(t, db, "spring")

	f, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	require.Equal(t, controlplane.ForgottenClicks{Clicks: 10, Bots: 2, Events: 10}, f)
	for _, table := range []string{"click_part", "click_day", "click_event", "link_click"} {
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table+` WHERE link_id = $1`, id), table)
	}
	require.Zero(t, clicks(t, db, "spring"))
	require.EqualValues(t, 7, clicks(t, db, "summer"))
	s := everything(t)
	c, top, err := db.WorkspaceClicks(t.Context(), waypost.DefaultWorkspace, s, nil, 10)
	require.NoError(t, err)
	require.Len(t, top.Links, 1)
	require.EqualValues(t, 7, slices.Max(series(s, c.Quarters)))
	require.Equal(t, named("Paris, FR", 7), c.Breakdowns[controlplane.Cities].Named)
	require.Equal(t, named("Chrome", 7), c.Breakdowns[controlplane.Browsers].Named)
	total, bots, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.Equal(t, [2]int64{7, 0}, [2]int64{total, bots})

	entries, err := db.Audit(t.Context(), waypost.DefaultWorkspace, 0, 10)
	require.NoError(t, err)
	require.Equal(t, "clicks.forget", entries[0].Action)
	require.Equal(t, "spring", entries[0].Subject)
	require.Contains(t, entries[0].Actor, "dpo")
	require.Contains(t, string(entries[0].Detail), "deleted 10 clicks, of these by bots 2")

	send(t, db, 4, rows("spring", 1, 0, 4, at(22, 20)))
	fold(t, db)
	require.EqualValues(t, 4, clicks(t, db, "spring"))
	total, _, err = db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.EqualValues(t, 11, total)
}

func TestClicksOfDeletedLinksCanBeForgottenAndThoseOfOthersCannot(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	foreign := link("foreign")
	foreign.Workspace = 7
	insert(t, db, link("spring"), foreign)
	send(t, db, 1, rows("spring", 1, 0, 5, at(12, 0)), rows("foreign", 1, 1, 7, at(12, 0)))
	fold(t, db)
	_, err := db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	f, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	require.EqualValues(t, 5, f.Clicks)
	f, err = db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	require.Zero(t, f, "there is nothing left")

	for _, code := range []waypost.Code{"foreign", "unknown"} {
		_, err = db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, code)
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	}
	require.EqualValues(t, 7, number(t, hand, `SELECT clicks FROM link_click WHERE workspace_id = 7`))
	require.EqualValues(t, 7, number(t, hand, `SELECT clicks FROM click_workspace_day WHERE workspace_id = 7`))
}

// One statement for all of them would run into its time limit at each try.
func TestALinkWithVeryManySingleClicksIsForgottenInSteps(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"), link("summer"))
	exec(t, hand, `INSERT INTO click_event SELECT now() - n * interval '1 min', 1, l.id, 2, false, '', '', '', '', '', ''
		FROM link l, generate_series(1, CASE l.code WHEN 'spring' THEN 45000 ELSE 3 END) n`)
	exec(t, hand, `CREATE FUNCTION too_many() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM gone) > 20000 THEN RAISE EXCEPTION 'too many at once'; END IF; RETURN NULL; END $$;
		CREATE TRIGGER too_many AFTER DELETE ON click_event REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION too_many()`)
	f, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	require.Equal(t, controlplane.ForgottenClicks{Events: 90_000}, f)
	require.EqualValues(t, 3, number(t, hand, `SELECT count(*) FROM click_event`), "those of another link stay")
}

// A day is many times as large in memory as in the database.
func TestForgetClicks_TakesALinkOfManyDaysInSteps(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"), link("summer"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(12, 0)), rows("summer", 1, 1, 7, at(12, 0)))
	fold(t, db)
	exec(t, hand, `INSERT INTO click_day SELECT link_id, day - n, workspace_id, clicks, bot_clicks, quarters, breakdown, visitors
		FROM click_day, generate_series(1, 100) n WHERE n <> 20`)
	exec(t, hand, `INSERT INTO click_workspace_day SELECT workspace_id, day - n, clicks, bot_clicks, quarters, breakdown, visitors
		FROM click_workspace_day, generate_series(1, 100) n WHERE n <> 20`)
	// Some days have parts alone: one among these, and one after them.
	send(t, db, 2, rows("spring", 2, 0, 3, at(12, 0).AddDate(0, 0, -20)), rows("summer", 1, 1, 7, at(12, 0).AddDate(0, 0, -20)))
	send(t, db, 3, rows("spring", 2, 0, 2, at(12, 0).AddDate(0, 0, 1)), rows("spring", 2, 0, 2, at(12, 0)))
	exec(t, hand, `CREATE FUNCTION too_many() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM gone) > 31 THEN RAISE EXCEPTION 'too many at once'; END IF; RETURN NULL; END $$;
		CREATE TRIGGER too_many AFTER DELETE ON click_day REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION too_many()`)

	_, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	for _, table := range []string{"click_part", "click_day", "link_click"} {
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table+` WHERE link_id = $1`, linkID(t, db, "spring")), table)
	}
	days, err := db.ClicksByDay(t.Context(), waypost.DefaultWorkspace, analytics.ClickDays{First: 0, End: 1 << 20})
	require.NoError(t, err)
	last := int32(at(0, 0).Unix() / 86400)
	require.Len(t, days, 102)
	for n, d := range days {
		names, other := d.Breakdown.Names(rollup.City)
		require.Zero(t, other, n)
		if n > last {
			require.Empty(t, names)
			continue
		}
		require.Equal(t, []rollup.Named{{Name: "FR/Paris", Count: rollup.Count{Clicks: 7}}}, names, n)
		require.EqualValues(t, 7, d.Total().Clicks, n)
	}
}

func TestAWorkspaceIsTheSumOfItsLinksWhateverIsForgotten(t *testing.T) {
	db, _ := open(t)
	codes := []string{"link-0", "link-1", "link-2"}
	insert(t, db, links(len(codes))...)
	seq := uint64(0)
	rapid.Check(t, func(r *rapid.T) {
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			code := rapid.SampledFrom(codes).Draw(r, "code")
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				fold(t, db)
			case 1:
				_, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, waypost.Code(code))
				require.NoError(t, err)
			default:
				seq++
				when := at(rapid.IntRange(0, 23).Draw(r, "hour"), rapid.IntRange(0, 59).Draw(r, "minute")).AddDate(0, 0, -rapid.IntRange(0,
					1).Draw(r, "days"))
				send(t, db, seq, rows(code, rapid.Uint64Range(1, 9).Draw(r, "visitor"), rapid.Uint32Range(0, uint32(len(people))-1).Draw(r, "profile"),
					rapid.Uint64Range(1, 5).Draw(r, "clicks"), when))
			}
		}
		requireSums(t, db, codes)
	})
}

// requireSums sees that the workspace's clicks are those of its links.
func requireSums(t *testing.T, db *postgres.DB, codes []string) {
	t.Helper()
	s := everything(t)
	want, total := map[string]int64{}, int64(0)
	add := func(c *controlplane.Counted, sign int64) {
		for _, q := range c.Quarters {
			want[fmt.Sprint("clicks ", q.At)] += sign * q.Clicks
			want[fmt.Sprint("bots ", q.At)] += sign * q.Bots
		}
		for d, b := range c.Breakdowns {
			require.Zero(t, b.Other)
			for _, n := range b.Named {
				want[fmt.Sprint(d, n.Name)] += sign * n.Clicks
			}
		}
	}
	for _, code := range codes {
		c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, linkID(t, db, code), s, nil)
		require.NoError(t, err)
		add(&c, 1)
		total += clicks(t, db, code)
	}
	c, _, err := db.WorkspaceClicks(t.Context(), waypost.DefaultWorkspace, s, nil, 0)
	require.NoError(t, err)
	add(&c, -1)
	for what, difference := range want {
		require.Zero(t, difference, what)
	}
	all, _, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.Equal(t, total, all)
}
