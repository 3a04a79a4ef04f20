package analytics_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/rollup"
)

// madeUp is a workspace of links and clicks that a test makes up. It counts the clicks of
// groups one by one, and shares no code with the counting of the product.
type madeUp struct {
	links  []*madeUpLink
	clicks []madeUpClick
	seq    uint64
}

type madeUpLink struct {
	code    string
	host    string // "": the default domain
	domain  waypost.DomainID
	creator string
	tags    []string
	deleted bool
}

type madeUpClick struct {
	link    *madeUpLink
	at      time.Time
	visitor uint64
	profile uint32 // of people
}

var (
	madeUpTags     = []string{"spring", "mail", "a,b", "Köln", "rest"}
	madeUpCreators = []string{"ann@example.com", "bob", ""}
)

// makeUp inserts links.
func makeUp(t *testing.T, db *postgres.DB, hand *pgx.Conn, r *rand.Rand, links int) *madeUp {
	t.Helper()
	exec(t, hand, `INSERT INTO domain (id, host, workspace_id) VALUES (2, 'own.example', 1) ON CONFLICT DO NOTHING`)
	m := &madeUp{}
	var all []*waypost.Link
	for i := range links {
		l := &madeUpLink{code: fmt.Sprintf("made-up-%d", i), domain: 1, creator: madeUpCreators[r.IntN(3)]}
		if i%3 == 0 {
			l.domain, l.host = 2, "own.example"
		}
		for _, tag := range madeUpTags {
			if r.IntN(3) == 0 {
				l.tags = append(l.tags, tag)
			}
		}
		stored := link(l.code)
		stored.Domain, stored.CreatedBy, stored.Tags = l.domain, l.creator, l.tags
		m.links, all = append(m.links, l), append(all, stored)
	}
	insert(t, db, all...)
	return m
}

// click sends n clicks within the five days before a moment, as one batch.
func (m *madeUp) click(t *testing.T, db *postgres.DB, r *rand.Rand, n int, before time.Time) {
	t.Helper()
	byLink := make(map[*madeUpLink]*waypost.LinkClicks)
	for range n {
		c := madeUpClick{
			link: m.links[int(float64(len(m.links))*r.Float64()*r.Float64())], profile: uint32(r.IntN(len(people))),
			at:      before.Add(-time.Duration(r.Int64N(int64(5 * 24 * time.Hour)))).Truncate(time.Millisecond),
			visitor: r.Uint64N(5_000) + 1,
		}
		if people[c.profile].Bot {
			c.visitor += 10_000
		}
		l := byLink[c.link]
		if l == nil {
			l = &waypost.LinkClicks{Domain: c.link.domain, Code: waypost.Code(c.link.code)}
			byLink[c.link] = l
		}
		l.Rows = append(l.Rows, waypost.ClickRow{At: c.at.UnixMilli(), Profile: c.profile, Count: 1})
		l.Last = max(l.Last, c.at.UnixMilli())
		v := waypost.Visitor{Day: int32(c.at.Unix() / 86400), Bot: people[c.profile].Bot, Hash: c.visitor << 24}
		if !slices.Contains(l.Visitors, v) {
			l.Visitors = append(l.Visitors, v)
		}
		m.clicks = append(m.clicks, c)
	}
	batch := &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Seq: m.seq + 1, Exact: true, Profiles: people}
	for _, link := range m.links {
		if l := byLink[link]; l != nil {
			batch.Links = append(batch.Links, *l)
		}
	}
	m.seq++
	ingest(t, db, batch)
}

// in reports whether a link is in a group.
func (l *madeUpLink) in(g *controlplane.LinkGroup) bool {
	return !l.deleted && (g.Domain == 0 || g.Domain == l.domain) && (g.Creator == "" || g.Creator == l.creator) &&
		!slices.ContainsFunc(g.Tags, func(tag string) bool { return !slices.Contains(l.tags, tag) })
}

// groupAnswer is the answer about a group, as the test compares it.
type groupAnswer struct {
	links, total, totalBots, clicks, bots int64
	series                                map[string]int64 // by local date
	countries                             map[string]int64
	berlin                                map[string]int64 // by UTC date
	visitors, visitorBots                 int64
	top                                   []string // with clicks
}

// count counts the clicks of a group from day first to day last of a zone. Breakdowns are
// of the UTC days that this touches.
func (m *madeUp) count(g *controlplane.LinkGroup, first, last string, zone *time.Location) groupAnswer {
	a := groupAnswer{series: map[string]int64{}, countries: map[string]int64{}, berlin: map[string]int64{}}
	for _, l := range m.links {
		if l.in(g) {
			a.links++
		}
	}
	var from, to string // UTC dates
	begin, _ := time.ParseInLocation(time.DateOnly, first, zone)
	end, _ := time.ParseInLocation(time.DateOnly, last, zone)
	from, to = begin.UTC().Format(time.DateOnly), end.AddDate(0, 0, 1).Add(-time.Second).UTC().Format(time.DateOnly)
	visitors, bots, tops := map[string]bool{}, map[string]bool{}, map[string]int64{}
	for _, c := range m.clicks {
		if !c.link.in(g) {
			continue
		}
		p := people[c.profile]
		a.total++
		if p.Bot {
			a.totalBots++
		}
		if day := c.at.In(zone).Format(time.DateOnly); day >= first && day <= last {
			a.series[day]++
			a.clicks++
			if p.Bot {
				a.bots++
			}
		}
		day := c.at.UTC().Format(time.DateOnly)
		if day < from || day > to {
			continue
		}
		a.countries[p.Country]++
		tops[c.link.code]++
		if p.City == "Berlin" {
			a.berlin[day]++
		}
		who := fmt.Sprint(day, c.visitor)
		if visitors[who] = true; p.Bot {
			bots[who] = true
		}
	}
	a.visitors, a.visitorBots = int64(len(visitors)), int64(len(bots))
	for code, n := range tops {
		a.top = append(a.top, fmt.Sprintf("%09d %s", n, code))
	}
	slices.Sort(a.top)
	slices.Reverse(a.top)
	a.top = a.top[:min(5, len(a.top))]
	return a
}

// answerOf asks the product for the same.
func answerOf(t *testing.T, db *postgres.DB, g *controlplane.LinkGroup, first, last string, zone *time.Location) groupAnswer {
	t.Helper()
	begin, err := time.ParseInLocation(time.DateOnly, first, zone)
	require.NoError(t, err)
	end, err := time.ParseInLocation(time.DateOnly, last, zone)
	require.NoError(t, err)
	s := span(t, begin, end.AddDate(0, 0, 1), controlplane.ByDay, zone)
	berlin := &controlplane.NameQuery{By: controlplane.Cities, Name: "Berlin, DE"}
	c, err := db.GroupClicks(t.Context(), waypost.DefaultWorkspace, *g, s, berlin, 1000)
	if waypost.CodeOf(err) == waypost.ECounting {
		keep(t, db)
		c, err = db.GroupClicks(t.Context(), waypost.DefaultWorkspace, *g, s, berlin, 1000)
	}
	require.NoError(t, err)
	require.Equal(t, c.Kept == nil, c.Top.Exact)
	a := groupAnswer{
		links: c.Links, total: c.Clicks, totalBots: c.Bots, visitors: c.Visitors, visitorBots: c.Counted.Bots,
		series: map[string]int64{}, countries: map[string]int64{}, berlin: map[string]int64{},
	}
	for _, q := range c.Quarters {
		if i, ok := s.Step(time.Unix(q.At, 0)); ok {
			a.series[s.Bounds[i].Format(time.DateOnly)] += q.Clicks
			a.clicks += q.Clicks
			a.bots += q.Bots
		}
	}
	require.Zero(t, c.Breakdowns[controlplane.Countries].Other)
	for _, n := range c.Breakdowns[controlplane.Countries].Named {
		a.countries[n.Name] = n.Clicks
	}
	for _, d := range c.Named {
		if d.Clicks > 0 {
			a.berlin[time.Unix(int64(d.Day)*86400, 0).UTC().Format(time.DateOnly)] = d.Clicks
		}
	}
	for _, l := range c.Top.Links {
		a.top = append(a.top, fmt.Sprintf("%09d %s", l.Clicks, l.Code))
	}
	slices.Sort(a.top)
	slices.Reverse(a.top)
	a.top = a.top[:min(5, len(a.top))]
	return a
}

// requireGroups compares what the product says of groups with a count of its own. More
// visitors than are counted exactly may differ by 4 %, five standard errors.
func (m *madeUp) requireGroups(t *testing.T, db *postgres.DB, first, last string) {
	t.Helper()
	zones := []string{"UTC", "America/St_Johns", "Asia/Kathmandu", "Europe/Berlin"}
	for i, g := range []controlplane.LinkGroup{
		{Tags: []string{"spring"}},
		{Tags: []string{"spring", "mail"}},
		{Tags: []string{"a,b", "Köln", "rest"}},
		{Tags: []string{"none"}},
		{Domain: 2},
		{Domain: 1},
		{Creator: "bob"},
		{Tags: []string{"mail"}, Domain: 2, Creator: "ann@example.com"},
		{Domain: 2, Creator: "bob"},
	} {
		zone, err := time.LoadLocation(zones[i%len(zones)])
		require.NoError(t, err)
		want, got := m.count(&g, first, last, zone), answerOf(t, db, &g, first, last, zone)
		require.InEpsilon(t, cmp.Or(want.visitors, 1), cmp.Or(got.visitors, 1), 0.04)
		got.visitors = want.visitors
		require.Equal(t, want, got, "%v in %s", g, zone)
	}
}

// requireTables compares tables with a count of its own: of UTC dates first to last, and
// of as many before.
func (m *madeUp) requireTables(t *testing.T, db *postgres.DB, first, last, firstBefore, lastBefore string) {
	t.Helper()
	day := func(date string) int32 {
		at, err := time.Parse(time.DateOnly, date)
		require.NoError(t, err)
		return int32(at.Unix() / 86400)
	}
	for by, names := range map[controlplane.GroupBy]func(*madeUpLink) []string{
		controlplane.ByTag:     func(l *madeUpLink) []string { return l.tags },
		controlplane.ByDomain:  func(l *madeUpLink) []string { return []string{l.host} },
		controlplane.ByCreator: func(l *madeUpLink) []string { return []string{l.creator} },
	} {
		want := map[string]*controlplane.GroupRow{}
		for _, l := range m.links {
			for _, name := range names(l) {
				if want[name] == nil && !l.deleted {
					want[name] = &controlplane.GroupRow{Name: name, Days: make([]int64, day(last)-day(first)+1)}
				}
				if !l.deleted {
					want[name].Links++
				}
			}
		}
		all := int64(0)
		for _, c := range m.clicks {
			date := c.at.UTC().Format(time.DateOnly)
			now, before := date >= first && date <= last, date >= firstBefore && date <= lastBefore
			if now {
				all++
			}
			for _, name := range names(c.link) {
				switch r := want[name]; {
				case c.link.deleted:
				case before:
					r.Before++
				case now:
					r.Clicks++
					r.Days[day(date)-day(first)]++
					if people[c.profile].Bot {
						r.Bots++
					}
				}
			}
		}
		table, err := db.GroupRows(t.Context(), waypost.DefaultWorkspace, by, day(first), day(last)+1)
		if waypost.CodeOf(err) == waypost.ECounting {
			keep(t, db)
			table, err = db.GroupRows(t.Context(), waypost.DefaultWorkspace, by, day(first), day(last)+1)
		}
		require.NoError(t, err)
		require.Equal(t, all, table.Clicks)
		require.Len(t, table.Rows, len(want))
		for _, r := range table.Rows {
			require.Equal(t, want[r.Name], &r, "%s %s", by, r.Name)
		}
	}
}

// shift moves all folded clicks to earlier days, so that the test has the days it wants,
// whatever the date is.
func (m *madeUp) shift(t *testing.T, hand *pgx.Conn, days int) {
	t.Helper()
	for _, table := range []string{"click_day", "click_workspace_day"} {
		exec(t, hand, fmt.Sprintf(`UPDATE %s SET day = day - %d`, table, days))
	}
	for i := range m.clicks {
		m.clicks[i].at = m.clicks[i].at.AddDate(0, 0, -days)
	}
}

// keep counts the kept questions that are due.
func keep(t *testing.T, db *postgres.DB) {
	t.Helper()
	for range 20 { // one of each workspace at a time
		require.NoError(t, db.NewRoller(nil).KeepAnswers(t.Context()))
	}
}

func TestGroupClicks_EqualAnIndependentCount(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept=%v", kept), func(t *testing.T) { testGroupClicks(t, kept) })
	}
}

func testGroupClicks(t *testing.T, kept bool) {
	db, hand := open(t)
	recount := func() {}
	if kept {
		analytics.LimitGroups(t, 0, 0)
		recount = func() {
			exec(t, hand, `UPDATE stats_question SET begun_at = NULL, asked_at = now()`)
			keep(t, db)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	m := makeUp(t, db, hand, r, 300)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	batches := 10
	if os.Getenv("TEST_LONG") != "" {
		batches = 167 // a million clicks
	}
	for range batches {
		m.click(t, db, r, 6_000, today)
	}
	fold(t, db)
	// Clocks in Berlin and St. John's change between the first day and the last.
	m.shift(t, hand, int(today.Sub(time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)).Hours()/24))
	m.requireGroups(t, db, "2026-03-28", "2026-03-30")

	yesterday := today.AddDate(0, 0, -1).Format(time.DateOnly)
	m.requireTables(t, db, "2026-03-29", "2026-03-30", "2026-03-27", "2026-03-28")
	week := today.AddDate(0, 0, -6).Format(time.DateOnly)
	m.click(t, db, r, 6_000, today)
	fold(t, db)
	m.click(t, db, r, 6_000, today) // not folded yet
	recount()
	m.requireGroups(t, db, week, yesterday)
	m.requireGroups(t, db, "2026-03-01", yesterday)

	for _, l := range m.links[:100] {
		l.tags = []string{madeUpTags[r.IntN(5)], "moved"}
		_, err := hand.Exec(t.Context(), `UPDATE link SET tags = $1 WHERE code = $2`, l.tags, l.code)
		require.NoError(t, err)
	}
	for _, l := range m.links[50:150] {
		l.deleted = true
	}
	exec(t, hand, `UPDATE link SET deleted_at = now() WHERE code ~ '^made-up-([5-9][0-9]|1[0-4][0-9])$'`)
	recount()
	m.requireGroups(t, db, week, yesterday)
	for _, l := range m.links[60:80] {
		l.deleted = false
	}
	exec(t, hand, `UPDATE link SET deleted_at = NULL WHERE code ~ '^made-up-[67][0-9]$'`)
	recount()
	m.requireGroups(t, db, week, yesterday)
	m.requireTables(t, db, week, yesterday, today.AddDate(0, 0, -12).Format(time.DateOnly), today.AddDate(0, 0, -7).Format(time.DateOnly))
}

func TestGroupClicks_OfAnotherWorkspaceAreNotTold(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	own, foreign := link("own"), link("foreign")
	own.Tags, foreign.Tags, foreign.Workspace = []string{"spring"}, []string{"spring"}, 7
	insert(t, db, own, foreign)
	send(t, db, 1, rows("own", 1, 0, 5, at(12, 0)), rows("foreign", 1, 1, 7, at(12, 0)))
	s := span(t, at(0, 0), at(23, 0), controlplane.ByDay, nil)
	first, end := s.Days()
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		for _, g := range []controlplane.LinkGroup{{Tags: []string{"spring"}}, {Domain: 1}} {
			c, err := db.GroupClicks(t.Context(), 7, g, s, nil, 10)
			require.NoError(t, err)
			require.EqualValues(t, []int64{1, 7}, []int64{c.Links, c.Clicks}, "%v", g)
			require.Equal(t, []int64{7}, series(s, c.Quarters))
			require.Len(t, c.Top.Links, 1)
		}
		table, err := db.GroupRows(t.Context(), 7, controlplane.ByTag, first, end)
		require.NoError(t, err)
		require.EqualValues(t, 7, table.Clicks)
		require.Equal(t, []controlplane.GroupRow{{Name: "spring", Links: 1, Clicks: 7, Days: []int64{7}}}, table.Rows)
	}
}

func TestGroupClicks_AreCountedInTheBackgroundWhenThereAreMany(t *testing.T) {
	db, hand := open(t)
	analytics.LimitGroups(t, 10, 15)
	many(t, hand, 30)
	exec(t, hand, `INSERT INTO click_day SELECT id, current_date - d, 1, 1, 0, '', '', '' FROM link CROSS JOIN generate_series(1, 2) d`)
	today := time.Now().UTC()
	ask := func(g controlplane.LinkGroup, days int) error {
		s := span(t, today.AddDate(0, 0, -days), today, controlplane.ByDay, nil)
		_, err := db.GroupClicks(t.Context(), waypost.DefaultWorkspace, g, s, nil, 10)
		return err
	}
	exec(t, hand, `UPDATE link SET created_by = 'ann' WHERE id % 3 = 0`) // ten links
	exec(t, hand, `UPDATE link SET tags = '{ten}' WHERE id % 3 = 1`)
	for _, g := range []controlplane.LinkGroup{{Creator: "ann"}, {Tags: []string{"ten"}}} {
		require.NoError(t, ask(g, 1))
		require.Equal(t, waypost.ECounting, waypost.CodeOf(ask(g, 2)), "20 days of links")
	}
	exec(t, hand, `UPDATE link SET tags = '{ten}', created_by = 'ann' WHERE id % 3 < 2`)
	for _, g := range []controlplane.LinkGroup{{Creator: "ann"}, {Tags: []string{"ten"}}, {Domain: 1}} {
		require.Equal(t, waypost.ECounting, waypost.CodeOf(ask(g, 1)), "%v", g)
	}
}

// BenchmarkGroupClicks counts the last 30 days of a tag, in a database of ten times as
// many links as have it.
func BenchmarkGroupClicks(b *testing.B) {
	for _, shape := range [][2]int{{20_000, 1}, {20_000, 10}, {2_000, 30}} {
		links, days := shape[0], shape[1]
		b.Run(fmt.Sprintf("links=%d,days=%d", links, days), func(b *testing.B) {
			db, hand := open(b)
			exec(b, hand, fmt.Sprintf(`INSERT INTO link (workspace_id, domain_id, code, original_url, tags)
				SELECT 1, 1, 'many-' || i, 'https://example.com/' || i, CASE WHEN i %% 10 = 0 THEN '{spring}'::text[] ELSE '{}' END
				FROM generate_series(1, %d) i`, 10*links))
			var d rollup.Day
			for i := range 3 {
				d.Quarters[8*i].Add(rollup.Count{Clicks: 1})
				d.Breakdown.Add(&people[i], rollup.Count{Clicks: 1})
				d.Visitors.Add(uint64(i)<<24, false)
			}
			_, err := hand.Exec(b.Context(), `INSERT INTO click_day SELECT id, current_date - d, 1, 3, 0, $1, $2, $3
				FROM link CROSS JOIN generate_series(0, $4 - 1) d WHERE tags <> '{}'`,
				d.Quarters.Append(nil), d.Breakdown.Append(nil), d.Visitors.Append(nil), days)
			require.NoError(b, err)
			exec(b, hand, `VACUUM ANALYZE`)
			s, err := controlplane.NewSpan(controlplane.StatsQuery{}, time.Now())
			require.NoError(b, err)
			analytics.LimitGroups(b, links, links*days)
			for b.Loop() {
				c, err := db.GroupClicks(b.Context(), waypost.DefaultWorkspace, controlplane.LinkGroup{Tags: []string{"spring"}}, &s, nil, 10)
				require.NoError(b, err)
				require.EqualValues(b, links, c.Links)
			}
		})
	}
}

func TestKeptAnswers_TellTheirAgeAndGoWithForgottenClicks(t *testing.T) {
	db, hand := open(t)
	analytics.LimitGroups(t, 0, 0)
	insert(t, db, link("one"), link("two"))
	exec(t, hand, `UPDATE link SET tags = '{spring}'`)
	progress := func(until time.Time, pending int64) {
		edge := controlplane.EdgeProgress{Node: "edge-1", Region: "eu", Until: until, Pending: pending}
		require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{edge}))
	}
	counted := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	progress(counted, 1)
	send(t, db, 1, rows("one", 1, 0, 5, time.Now()), rows("two", 1, 1, 7, time.Now()))
	s := span(t, time.Now().Add(-24*time.Hour), time.Now(), controlplane.ByDay, nil)
	ask := func() (controlplane.GroupCounted, error) {
		return db.GroupClicks(t.Context(), waypost.DefaultWorkspace, controlplane.LinkGroup{Tags: []string{"spring"}}, s, nil, 1)
	}
	clicks := func(links, total int64) *controlplane.Kept {
		t.Helper()
		c, err := ask()
		require.NoError(t, err)
		require.Equal(t, []int64{links, total}, []int64{c.Links, c.Clicks})
		require.Len(t, c.Top.Links, 1)
		return c.Kept
	}
	_, err := ask()
	require.Equal(t, waypost.ECounting, waypost.CodeOf(err))
	keep(t, db)
	first := clicks(2, 12)
	require.Equal(t, controlplane.Completeness{Until: counted, Behind: []string{"edge-1"}}, first.Complete)

	// The answer stays as it is until it is counted again.
	progress(time.Now(), 0)
	send(t, db, 2, rows("one", 1, 0, 5, time.Now()))
	exec(t, hand, `UPDATE link SET tags = '{}' WHERE code = 'one'`)
	require.Equal(t, first, clicks(2, 12))
	keep(t, db)
	require.Equal(t, first, clicks(2, 12), "a count rests for ten seconds at least")
	exec(t, hand, `UPDATE stats_question SET begun_at = begun_at - interval '11 s', asked_at = now()`)
	keep(t, db)
	second := clicks(1, 7)
	require.True(t, second.At.After(first.At))
	require.Empty(t, second.Complete.Behind)
	exec(t, hand, `UPDATE stats_question SET begun_at = begun_at - interval '11 s', asked_at = begun_at - interval '12 s'`)
	keep(t, db)
	require.Equal(t, second, clicks(1, 7), "nobody has asked since")

	_, err = db.ForgetClicks(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "two")
	require.NoError(t, err)
	_, err = ask()
	require.Equal(t, waypost.ECounting, waypost.CodeOf(err))
	exec(t, hand, `UPDATE stats_question SET asked_at = now() - interval '31 days'`)
	keep(t, db)
	require.Zero(t, number(t, hand, `SELECT (SELECT count(*) FROM stats_question) + (SELECT count(*) FROM stats_answer_day)`))
}

func TestKeptAnswers_OfDaysToComeAndOfManyNamesDoNoHarm(t *testing.T) {
	db, hand := open(t)
	analytics.LimitGroups(t, 0, 0)
	insert(t, db, link("one"))
	exec(t, hand, `UPDATE link SET tags = '{spring}'`)
	send(t, db, 1, rows("one", 1, 0, 5, time.Now()))
	today := int32(time.Now().Unix() / 86400)
	ask := func(first, end int32) (controlplane.GroupsCounted, error) {
		return db.GroupRows(t.Context(), waypost.DefaultWorkspace, controlplane.ByTag, first, end)
	}
	for _, span := range [][2]int32{{today + 3, today + 4}, {0, 366}, {today, today + 1}, {2_900_000, 2_900_001}} {
		_, err := ask(span[0], span[1])
		if waypost.CodeOf(err) == waypost.ECounting {
			keep(t, db)
			_, err = ask(span[0], span[1])
		}
		require.NoError(t, err, "%v", span)
	}
	table, err := ask(today, today+1)
	require.NoError(t, err)
	require.Equal(t, []controlplane.GroupRow{{Name: "spring", Links: 1, Clicks: 5, Days: []int64{5}}}, table.Rows)
	s := span(t, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 2, 0, 0, 0, 0, time.UTC), controlplane.ByDay, nil)
	_, err = db.GroupClicks(t.Context(), waypost.DefaultWorkspace, controlplane.LinkGroup{Tags: []string{"spring"}}, s, nil, 1)
	require.Equal(t, waypost.ECounting, waypost.CodeOf(err))
	keep(t, db)

	exec(t, hand, `UPDATE link SET tags = ARRAY(SELECT 'tag-' || i FROM generate_series(1, 20001) i)`)
	exec(t, hand, `UPDATE stats_question SET begun_at = NULL`)
	keep(t, db)
	_, err = ask(today, today+1)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	require.Contains(t, err.Error(), "20000 groups")
}

func TestKeptAnswers_ForgetLinksThatArePurged(t *testing.T) {
	db, hand := open(t)
	analytics.LimitGroups(t, 0, 0)
	insert(t, db, link("stays"), link("goes"))
	exec(t, hand, `UPDATE link SET tags = '{spring}'`)
	send(t, db, 1, rows("stays", 1, 0, 5, time.Now()), rows("goes", 1, 1, 7, time.Now()))
	fold(t, db)
	s := span(t, time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour), controlplane.ByHour, nil)
	clicks := func() (sum int64) {
		exec(t, hand, `UPDATE stats_question SET begun_at = NULL`)
		keep(t, db)
		c, err := db.GroupClicks(t.Context(), waypost.DefaultWorkspace, controlplane.LinkGroup{Tags: []string{"spring"}}, s, nil, 0)
		if waypost.CodeOf(err) == waypost.ECounting {
			return -1
		}
		require.NoError(t, err)
		for _, q := range c.Quarters {
			sum += q.Clicks
		}
		return sum
	}
	require.EqualValues(t, -1, clicks())
	require.EqualValues(t, 12, clicks())
	exec(t, hand, `DELETE FROM click_day WHERE link_id = (SELECT id FROM link WHERE code = 'goes')`)
	exec(t, hand, `SET session_replication_role = replica; DELETE FROM link WHERE code = 'goes'; SET session_replication_role = origin`)
	require.EqualValues(t, 5, clicks())
}

func TestKeptAnswers_OfOneWorkspaceKeepNoOtherWaiting(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	exec(t, hand, `INSERT INTO stats_question (workspace_id, key, question, first_day)
		SELECT CASE WHEN i < 50 THEN 1 ELSE 7 END, sha256(i::text::bytea), jsonb_build_object('creator', i::text), current_date
		FROM generate_series(0, 50) i`)
	require.NoError(t, db.NewRoller(nil).KeepAnswers(t.Context()))
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM stats_answer WHERE workspace_id = 7`))
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM stats_answer WHERE workspace_id = 1`))
}
