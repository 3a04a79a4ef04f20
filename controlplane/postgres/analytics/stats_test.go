package analytics_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/rollup"
)

var people = []waypost.ClickProfile{
	{Country: "DE", City: "Berlin", Device: "desktop", Browser: "Firefox", OS: "Linux", Referrer: "www.example.com"},
	{Country: "FR", City: "Paris", Device: "mobile", Browser: "Chrome", OS: "Android"},
	{Device: "bot", Browser: "Googlebot", Bot: true},
	{Country: "FR", City: "Paris", Device: "mobile", Browser: "Chrome", OS: "Android", Rule: 1, Variant: 1},
	{Country: "FR", City: "Paris", Device: "mobile", Browser: "Chrome", OS: "Android", Rule: 1, Variant: 2},
	{Country: "FR", City: "Paris", Device: "mobile", Browser: "Chrome", OS: "Android", Rule: 3, Variant: 2},
}

// at returns a moment of the day before yesterday, which no day's end comes near.
func at(hour, minute int) time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month(), now.Day()-2, hour, minute, 0, 0, time.UTC)
}

// rows are clicks of a link, each of one profile of people at a moment.
func rows(code string, visitor uint64, profile uint32, n uint64, when time.Time) waypost.LinkClicks {
	return waypost.LinkClicks{
		Domain: waypost.DefaultDomain, Code: waypost.Code(code), Last: when.UnixMilli(),
		Rows:     []waypost.ClickRow{{At: when.UnixMilli(), Profile: profile, Count: n}},
		Visitors: []waypost.Visitor{{Day: int32(when.Unix() / 86400), Bot: people[profile].Bot, Hash: visitor << 24}},
	}
}

// send ingests clicks as one batch.
func send(t *testing.T, db *postgres.DB, seq uint64, links ...waypost.LinkClicks) {
	t.Helper()
	ingest(t, db, &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Seq: seq, Exact: true, Profiles: people, Links: links})
}

func span(t *testing.T, from, to time.Time, interval controlplane.Interval, zone *time.Location) *controlplane.Span {
	t.Helper()
	s, err := controlplane.NewSpan(controlplane.StatsQuery{From: from, To: to, Interval: interval, Zone: zone}, time.Now())
	require.NoError(t, err)
	return &s
}

// linkID finds a link's id.
func linkID(t *testing.T, db *postgres.DB, code string) int64 {
	t.Helper()
	l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, waypost.Code(code))
	require.NoError(t, err)
	return l.ID
}

// series adds quarters up to the steps of a span.
func series(s *controlplane.Span, quarters []controlplane.QuarterClicks) []int64 {
	sums := make([]int64, len(s.Bounds)-1)
	for _, q := range quarters {
		if i, ok := s.Step(time.Unix(q.At, 0)); ok {
			sums[i] += q.Clicks
		}
	}
	return sums
}

func named(pairs ...any) []controlplane.NamedClicks {
	var out []controlplane.NamedClicks
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, controlplane.NamedClicks{Name: pairs[i].(string), Clicks: int64(pairs[i+1].(int))})
	}
	return out
}

func TestClicksAreToldByTimeAndByWhomBeforeAndAfterTheyAreFolded(t *testing.T) {
	db, _ := open(t)
	insert(t, db, link("spring"), link("summer"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(22, 20)), rows("summer", 1, 0, 7, at(10, 0)))
	send(t, db, 2, rows("spring", 2, 1, 3, at(22, 50)), rows("summer", 3, 2, 1, at(10, 0)))
	send(t, db, 3, rows("spring", 4, 2, 2, at(23, 59)))

	kathmandu, err := time.LoadLocation("Asia/Kathmandu") // 5:45 ahead
	require.NoError(t, err)
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		s := span(t, at(21, 30), at(23, 1), controlplane.ByHour, nil)
		c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, linkID(t, db, "spring"), s, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 8, 2}, series(s, c.Quarters))
		require.EqualValues(t, 3, c.Visitors)
		require.EqualValues(t, 1, c.Bots)
		require.Equal(t, named("DE", 5, "FR", 3, "", 2), c.Breakdowns[controlplane.Countries].Named)
		require.Equal(t, named("Berlin, DE", 5, "Paris, FR", 3, "", 2), c.Breakdowns[controlplane.Cities].Named)
		require.Equal(t, named("desktop", 5, "mobile", 3, "bot", 2), c.Breakdowns[controlplane.Devices].Named)
		require.Equal(t, named("Firefox", 5, "Chrome", 3, "Googlebot", 2), c.Breakdowns[controlplane.Browsers].Named)
		require.Equal(t, named("Linux", 5, "Android", 3, "", 2), c.Breakdowns[controlplane.Systems].Named)
		require.Equal(t, named("", 5, "www.example.com", 5), c.Breakdowns[controlplane.Referrers].Named)

		s = span(t, at(22, 0), at(23, 59), controlplane.ByHour, kathmandu)
		c, err = db.LinkClicks(t.Context(), waypost.DefaultWorkspace, linkID(t, db, "spring"), s, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 8, 2}, series(s, c.Quarters), "22:20 is 4:05 there, 22:50 4:35 and 23:59 5:44")

		s = span(t, at(0, 0), at(23, 59), controlplane.ByDay, nil)
		c, top, err := db.WorkspaceClicks(t.Context(), waypost.DefaultWorkspace, s, nil, 1)
		require.NoError(t, err)
		require.Equal(t, []int64{18}, series(s, c.Quarters))
		require.EqualValues(t, 4, c.Visitors)
		require.Equal(t, named("DE", 12, "", 3, "FR", 3), c.Breakdowns[controlplane.Countries].Named)
		require.Equal(t, controlplane.TopLinks{Links: []controlplane.TopLink{{
			Domain: 1, Code: "spring",
			OriginalURL: "https://example.com/spring", Clicks: 10, Bots: 2,
		}}, Exact: true}, top)
		clicks, bots, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
		require.NoError(t, err)
		require.Equal(t, [2]int64{18, 3}, [2]int64{clicks, bots})
	}
}

func TestClicksAreToldByRuleAndVariantBeforeAndAfterTheyAreFolded(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "all"}' WHERE id = 1`)
	insert(t, db, link("spring"), link("summer"))
	send(t, db, 1, rows("spring", 1, 3, 5, at(22, 20)), rows("summer", 1, 3, 100, at(22, 20)))
	send(t, db, 2, rows("spring", 1, 4, 3, at(22, 20)), rows("summer", 1, 0, 1, at(22, 20)))
	send(t, db, 3, rows("spring", 1, 5, 4, at(22, 20)))
	send(t, db, 4, rows("spring", 1, 0, 7, at(22, 20)))
	s := span(t, at(0, 0), at(23, 0), controlplane.ByDay, nil)
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		ask := func(by controlplane.Dimension, name string) (controlplane.Counted, int64) {
			c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, linkID(t, db, "spring"), s, &controlplane.NameQuery{By: by, Name: name})
			require.NoError(t, err)
			require.Len(t, c.Named, 1)
			require.False(t, c.Named[0].AtLeast)
			return c, c.Named[0].Clicks
		}
		c, n := ask(controlplane.Variants, "2")
		require.Equal(t, named("1", 8, "", 7, "3", 4), c.Breakdowns[controlplane.Rules].Named)
		require.Equal(t, named("", 7, "1/1", 5, "3/2", 4, "1/2", 3), c.Breakdowns[controlplane.Variants].Named)
		require.EqualValues(t, 7, n, "of two rules")
		_, n = ask(controlplane.Variants, "")
		require.EqualValues(t, 7, n)
		for name, want := range map[string]int64{"1/1": 5, "1/2": 3, "3/2": 4, "3/1": 0, "1/": 0, "/2": 0} {
			_, n = ask(controlplane.Variants, name)
			require.Equal(t, want, n, name)
		}
		_, n = ask(controlplane.Rules, "3")
		require.EqualValues(t, 4, n)
		_, n = ask(controlplane.Variants, "9")
		require.Zero(t, n)
	}
	require.EqualValues(t, 3, number(t, hand, `SELECT sum(clicks)::bigint FROM click_event WHERE rule = 1 AND variant = 2`))
	_, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	days, err := db.ClicksByDay(t.Context(), waypost.DefaultWorkspace, analytics.ClickDays{First: 0, End: 1 << 20})
	require.NoError(t, err)
	require.Len(t, days, 1)
	for _, d := range days {
		names, other := d.Breakdown.Names(rollup.Variant)
		require.Equal(t, []rollup.Named{{Name: "1/1", Count: rollup.Count{Clicks: 100}}, {Count: rollup.Count{Clicks: 1}}}, names)
		require.Zero(t, other)
	}
}

// The domain is shared, so an edge sends the parameters for the links of both.
func TestAliases_ClicksAreCountedForTheLinkAndByAddress(t *testing.T) {
	db, _ := open(t)
	insert(t, db, link("spring"), link("other"))
	id := linkID(t, db, "spring")
	actor := controlplane.Actor{Workspace: waypost.DefaultWorkspace}
	_, _, err := db.AddAlias(t.Context(), actor, id, waypost.Alias{Domain: 1, Code: "box"}, nil)
	require.NoError(t, err)
	_, _, err = db.AddAlias(t.Context(), actor, id, waypost.Alias{Domain: 1, Code: "mail"}, nil)
	require.NoError(t, err)
	send(t, db, 1, rows("spring", 1, 0, 5, at(9, 0)), rows("box", 2, 0, 7, at(9, 5)), rows("mail", 3, 2, 2, at(9, 10)),
		rows("other", 4, 0, 9, at(9, 0)))
	_, _, err = db.RemoveAlias(t.Context(), actor, id, 1, "mail")
	require.NoError(t, err)
	send(t, db, 2, rows("mail", 3, 0, 1, at(10, 0)), rows("box", 2, 0, 1, at(10, 0)))
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		s := span(t, at(0, 0), at(23, 59), controlplane.ByDay, nil)
		c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, id, s, &controlplane.NameQuery{By: controlplane.Codes, Name: "/box"})
		require.NoError(t, err)
		require.ElementsMatch(t, named("", 5, "/box", 8, "/mail", 3), c.Breakdowns[controlplane.Codes].Named)
		require.Equal(t, []int64{16}, series(s, c.Quarters))
		require.EqualValues(t, 8, c.Named[0].Clicks)
	}
}

func TestUTMParametersAreCountedForTheWorkspacesThatWantThem(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	exec(t, hand, `INSERT INTO domain (workspace_id, host) VALUES (1, 'own.example.com'), (7, 'other.example.com')`)
	foreign := link("foreign")
	foreign.Workspace = 7
	insert(t, db, link("spring"), foreign)
	domains := func() (text string) {
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT string_agg(name || ' ' || (payload::jsonb ->> 'count_utm'), ', ' ORDER BY name)
			FROM (SELECT DISTINCT ON (name) name, payload FROM changelog WHERE kind = 2 ORDER BY name, seq DESC, ord DESC) newest`).Scan(&text))
		return text
	}
	set := func(ws waypost.WorkspaceID, on bool) {
		w, err := db.ChangeWorkspace(t.Context(), eraser, ws, api.WorkspaceChange{Settings: &api.SettingsChange{UTM: &on}})
		require.NoError(t, err)
		require.Equal(t, on, w.Settings.UTM)
	}
	require.Equal(t, "1 false, 2 false, 3 false", domains())
	set(7, true)
	require.Equal(t, "1 true, 2 false, 3 true", domains(), "a shared domain serves all workspaces")
	set(1, true)
	set(7, false)
	require.Equal(t, "1 true, 2 true, 3 false", domains())
	_, _, err := db.CreateDomain(t.Context(), eraser, waypost.Domain{Workspace: 1, Host: "new.example.com"}, false)
	require.NoError(t, err)
	require.Contains(t, domains(), "4 true")

	seq := uint64(0)
	click := func(code string) {
		seq++
		ingest(t, db, &waypost.ClickBatch{
			Node: "edge-1", Boot: someBoot, Seq: seq, Exact: true,
			Profiles: []waypost.ClickProfile{{UTM: waypost.PackUTM(waypost.UTMValues{"mail", 2: "spring"})}, {UTM: "other"}, {}},
			Links: []waypost.LinkClicks{{
				Domain: waypost.DefaultDomain, Code: waypost.Code(code), Last: at(9, 0).UnixMilli(),
				Rows: []waypost.ClickRow{
					{At: at(9, 0).UnixMilli(), Count: 3},
					{At: at(9, 0).UnixMilli(), Profile: 1, Count: 2},
					{At: at(9, 0).UnixMilli(), Profile: 2, Count: 1},
				},
			}},
		})
	}
	click("spring")
	click("foreign")
	s := span(t, at(0, 0), at(23, 0), controlplane.ByDay, nil)
	told := func(ws waypost.WorkspaceID, d controlplane.Dimension) []controlplane.NamedClicks {
		c, _, err := db.WorkspaceClicks(t.Context(), ws, s, nil, 0)
		require.NoError(t, err)
		return c.Breakdowns[d].Named
	}
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		require.Equal(t, named("mail", 3, "other", 2, "", 1), told(1, controlplane.UTM))
		require.Equal(t, named("", 3, "spring", 3), told(1, controlplane.UTM+2))
		require.Equal(t, named("", 6), told(1, controlplane.UTM+4))
		require.Equal(t, named("", 6), told(7, controlplane.UTM))
	}
	set(1, false)
	require.Contains(t, domains(), "1 false")
	click("spring") // which an edge had recorded before it learned that
	require.Equal(t, named("", 7, "mail", 3, "other", 2), told(1, controlplane.UTM))
}

func TestClicksOfAnotherWorkspaceAreNotTold(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	foreign := link("foreign")
	foreign.Workspace = 7
	insert(t, db, link("spring"), foreign)
	send(t, db, 1, rows("spring", 1, 0, 5, at(12, 0)), rows("foreign", 1, 1, 7, at(12, 0)))
	s := span(t, at(0, 0), at(23, 0), controlplane.ByDay, nil)
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		c, err := db.LinkClicks(t.Context(), 7, linkID(t, db, "spring"), s, nil)
		require.NoError(t, err)
		require.Equal(t, controlplane.Counted{}, c)
		c, top, err := db.WorkspaceClicks(t.Context(), 7, s, nil, 10)
		require.NoError(t, err)
		require.Equal(t, []int64{7}, series(s, c.Quarters))
		require.Len(t, top.Links, 1)
		clicks, _, err := db.WorkspaceTotals(t.Context(), 7)
		require.NoError(t, err)
		require.EqualValues(t, 7, clicks)
	}
}

func TestALongTimeIsAddedUpFromAllItsDays(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(12, 0)))
	fold(t, db)
	// Batches bring no clicks that are older than a month, so they are made by hand.
	exec(t, hand, `INSERT INTO click_day SELECT link_id, day - n * 100, workspace_id, clicks, bot_clicks, quarters, breakdown, visitors
		FROM click_day, generate_series(1, 7) n`)
	s := span(t, at(0, 0).AddDate(-3, 0, 0), at(23, 0), controlplane.ByDay, nil)
	c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, linkID(t, db, "spring"), s, nil)
	require.NoError(t, err)
	sum := int64(0)
	for _, n := range series(s, c.Quarters) {
		sum += n
	}
	require.EqualValues(t, 40, sum)
	require.Equal(t, named("DE", 40), c.Breakdowns[controlplane.Countries].Named)
	require.EqualValues(t, 8, c.Visitors, "one a day")
}

func TestDeletedLinksStayAmongThoseWithTheMostClicks(t *testing.T) {
	db, _ := open(t)
	insert(t, db, link("spring"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(12, 0)))
	_, err := db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	_, top, err := db.WorkspaceClicks(t.Context(), waypost.DefaultWorkspace, span(t, at(0, 0), at(23, 0), controlplane.ByDay, nil), nil, 10)
	require.NoError(t, err)
	require.Len(t, top.Links, 1)
	require.EqualValues(t, 5, top.Links[0].Clicks)
}

func TestAnEdgeThatIsGoneIsWaitedForNoLongerUnlessItComesBack(t *testing.T) {
	db, hand := open(t)
	waiting := func() (nodes []string) {
		all, err := db.Progress(t.Context())
		require.NoError(t, err)
		for _, p := range all {
			if !p.Left {
				nodes = append(nodes, p.Node)
			}
		}
		return nodes
	}
	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{{
		Node: "edge-a", Region: "eu", Pending: 7,
		Until: time.Now(),
	}, {Node: "edge-b", Region: "eu"}}))
	ingest(t, db, &waypost.ClickBatch{Node: "edge-c", Boot: someBoot, Seq: 1, Exact: true})
	for _, node := range []string{"edge-a", "edge-c"} {
		require.Equal(t, waypost.EConflict, waypost.CodeOf(db.GiveUpEdge(t.Context(), eraser, node, time.Minute)), "it was heard of just now")
	}
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(db.GiveUpEdge(t.Context(), eraser, "edge-d", time.Minute)))
	require.Equal(t, []string{"edge-a", "edge-b", "edge-c"}, waiting())

	exec(t, hand, `UPDATE click_progress SET reported_at = now() - interval '2 minutes'`)
	exec(t, hand, `UPDATE click_watermark SET updated_at = now() + interval '2 days'`) // PostgreSQL's clock was wrong
	for _, node := range []string{"edge-a", "edge-c", "edge-a"} {
		require.NoError(t, db.GiveUpEdge(t.Context(), eraser, node, time.Minute))
	}
	require.Equal(t, []string{"edge-b"}, waiting())
	entries, err := db.Audit(t.Context(), waypost.DefaultWorkspace, 0, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"edges.gone", "edge-c", "edges.gone", "edge-a"}, []string{
		entries[0].Action, entries[0].Subject,
		entries[1].Action, entries[1].Subject,
	})
	require.Contains(t, string(entries[1].Detail), `"pending": 7`)
	require.NotContains(t, string(entries[1].Detail), "budgets", "none has ended")

	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{{Node: "edge-a", Region: "eu", Pending: 7}}))
	require.Equal(t, []string{"edge-a", "edge-b"}, waiting(), "it is back")
	exec(t, hand, `UPDATE click_progress SET reported_at = now() + interval '2 days'`)
	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{{Node: "edge-a", Region: "eu", Pending: 7}}))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(db.GiveUpEdge(t.Context(), eraser, "edge-a", time.Minute)))
}

func TestEdgesThatFellSilentBeforeTheControlPlaneWasStartedAreShown(t *testing.T) {
	db, hand := open(t)
	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{
		{Node: "dead", Region: "eu", Pending: 7}, {Node: "elsewhere", Region: "eu"}, {Node: "here", Region: "eu"}, {
			Node:   "long-dead",
			Region: "eu", Pending: -1,
		}, {Node: "stopped", Region: "eu", Left: true},
	}))
	exec(t, hand, `UPDATE click_progress SET reported_at = now() - CASE node WHEN 'long-dead' THEN interval '1 hour' WHEN 'elsewhere' THEN interval '-1 minute' ELSE interval '1 minute' END`)
	edges := fleet.New(fleet.Config{Head: db, Boots: db})
	here := fleet.EdgeReport{Boot: waypost.BootID{1}}
	here.Node, here.Region, here.Version = "here", "eu", "1.2.3"
	_, err := edges.Report(t.Context(), here)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); edges.KeepProgress(ctx, db, time.Hour) }()
	states := func() map[string]string {
		states := map[string]string{}
		for _, e := range edges.Edges() {
			states[e.Node] = e.State + " by " + e.Via
		}
		return states
	}
	require.Eventually(t, func() bool { return len(states()) > 1 }, time.Minute, time.Millisecond)
	got := states()
	require.Contains(t, got["here"], "by report")
	delete(got, "here")
	require.Equal(t, map[string]string{"dead": "silent by record", "long-dead": "gone by record", "stopped": "gone by record"}, got)
	require.True(t, edges.Knows("dead"))
	for _, e := range edges.Edges() {
		if e.Node == "dead" {
			require.Equal(t, new(int64(7)), e.ClicksPending)
			require.WithinDuration(t, time.Now().Add(-time.Minute), e.LastSeen, 50*time.Second)
		}
	}
	cancel()
	<-done
}

func TestFleetStore_ProgressLeavesOutARevokedEdge(t *testing.T) {
	db, hand := open(t)
	both := []controlplane.EdgeProgress{{Node: "edge-a", Region: "eu"}, {Node: "edge-b", Region: "eu"}}
	require.NoError(t, db.NoteProgress(t.Context(), both))
	nodes := func() (names []string) {
		all, err := db.Progress(t.Context())
		require.NoError(t, err)
		for i := range all {
			names = append(names, all[i].Node)
		}
		return names
	}
	exec(t, hand, `INSERT INTO node_credential (node, region, role, hash) VALUES ('edge-a', 'eu', 'edge', sha256('a'))`)
	require.Equal(t, []string{"edge-a", "edge-b"}, nodes())
	exec(t, hand, `UPDATE node_credential SET revoked_at = now()`)
	require.Equal(t, []string{"edge-b"}, nodes(), "no click will come from it")
	exec(t, hand, `UPDATE node_credential SET revoked_at = now() - interval '2 minutes'`)
	require.Equal(t, []string{"edge-a", "edge-b"}, nodes(), "it reports with the token of all edges")
	exec(t, hand, `UPDATE node_credential SET revoked_at = now()`)
	exec(t, hand, `INSERT INTO node_credential (node, region, role, hash) VALUES ('edge-a', 'eu', 'edge', sha256('b'))`)
	require.Equal(t, []string{"edge-a", "edge-b"}, nodes(), "it was enrolled again")
}

func TestProgressIsKeptAndLostWordsChangeNothing(t *testing.T) {
	db, hand := open(t)
	until := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	progress := func() []controlplane.EdgeProgress {
		all, err := db.Progress(t.Context())
		require.NoError(t, err)
		for i := range all {
			require.WithinDuration(t, time.Now(), all[i].At, time.Minute)
			require.True(t, all[i].Until.IsZero() || all[i].Until.Equal(until))
			if all[i].At = (time.Time{}); !all[i].Until.IsZero() {
				all[i].Until = until
			}
		}
		return all
	}
	require.Empty(t, progress())
	first := controlplane.EdgeProgress{Node: "edge-b", Region: "eu", Until: until, Pending: 7}
	silent := controlplane.EdgeProgress{Node: "edge-a", Region: "us", Pending: -1}
	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{first, silent}))
	require.Equal(t, []controlplane.EdgeProgress{silent, first}, progress())

	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{{Node: "edge-b", Region: "eu", Pending: -1, Left: true}}))
	require.Equal(t, []controlplane.EdgeProgress{silent, {Node: "edge-b", Region: "eu", Until: until, Pending: -1, Left: true}}, progress(),
		"an edge that has started anew still has what it had")

	ingest(t, db, &waypost.ClickBatch{Node: "edge-c", Boot: someBoot, Seq: 1, Exact: true})
	require.Equal(t, controlplane.EdgeProgress{Node: "edge-c", Pending: -1}, progress()[2], "one that never told anything")

	exec(t, hand, `UPDATE click_progress SET reported_at = now() - interval '31 days'`)
	exec(t, hand, `UPDATE click_watermark SET updated_at = now() - interval '31 days'`)
	require.Empty(t, progress())
}
