package analytics_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
)

// crossedNames returns the names of a profile, as breakdowns show them.
func crossedNames(p *waypost.ClickProfile) map[controlplane.Dimension]string {
	city := "unknown"
	if p.City != "" {
		city = p.City + ", " + p.Country
	}
	return map[controlplane.Dimension]string{
		controlplane.Countries: cmp.Or(p.Country, "unknown"), controlplane.Cities: city,
		controlplane.Devices: cmp.Or(p.Device, "unknown"), controlplane.Browsers: cmp.Or(p.Browser, "unknown"),
		controlplane.Systems: cmp.Or(p.OS, "unknown"), controlplane.Referrers: cmp.Or(p.Referrer, "direct"),
	}
}

// cross counts the clicks of people on some links, from the UTC date first to last.
func (m *madeUp) cross(q *controlplane.CrossedQuery, of func(*madeUpLink) bool, first, last string) (map[string]int64, int64) {
	cells, clicks := map[string]int64{}, int64(0)
	for _, c := range m.clicks {
		p := &people[c.profile]
		if day := c.at.UTC().Format(time.DateOnly); p.Bot || day < first || day > last || !of(c.link) {
			continue
		}
		names := crossedNames(p)
		cells[names[q.Rows]+" × "+names[q.Columns]]++
		clicks++
	}
	return cells, clicks
}

// crossed asks the product for the same.
func crossed(
	t *testing.T, db *postgres.DB, ws waypost.WorkspaceID, q controlplane.CrossedQuery,
	link int64, g controlplane.LinkGroup, first, last string,
) (map[string]int64, int64) {
	t.Helper()
	from, err := time.Parse(time.DateOnly, first)
	require.NoError(t, err)
	to, err := time.Parse(time.DateOnly, last)
	require.NoError(t, err)
	all, clicks, err := db.CrossedClicks(t.Context(), ws, &q, link, g, span(t, from, to.AddDate(0, 0, 1), controlplane.ByDay, nil))
	require.NoError(t, err)
	cells := map[string]int64{}
	for _, c := range all {
		cells[c.Row+" × "+c.Column] += c.Clicks
	}
	return cells, clicks
}

func TestCrossedClicks_EqualAnIndependentCount(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "all"}'`)
	r := rand.New(rand.NewPCG(3, 4))
	m := makeUp(t, db, hand, r, 100)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	date := func(days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
	m.click(t, db, r, 6_000, today)
	fold(t, db)
	m.click(t, db, r, 3_000, today) // not folded yet
	pairs := [][2]controlplane.Dimension{
		{controlplane.Devices, controlplane.Countries},
		{controlplane.Countries, controlplane.Cities},
		{controlplane.Referrers, controlplane.Browsers},
		{controlplane.Systems, controlplane.Referrers},
	}
	requireEqual := func() {
		t.Helper()
		for i, g := range []controlplane.LinkGroup{
			{}, {Tags: []string{"spring", "mail"}}, {Tags: []string{"a,b"}, Domain: 2}, {Creator: "bob"}, {Tags: []string{"moved"}}, {Domain: 1},
		} {
			q := controlplane.CrossedQuery{Rows: pairs[i%4][0], Columns: pairs[i%4][1]}
			q.Group = controlplane.GroupQuery{Tags: g.Tags, Creator: g.Creator}
			if g.Domain > 0 {
				q.Group.Host = "some"
			}
			in := func(l *madeUpLink) bool { return l.in(&g) }
			if i == 0 {
				in = func(*madeUpLink) bool { return true }
			}
			want, clicks := m.cross(&q, in, date(-4), date(-2))
			got, all := crossed(t, db, 1, q, 0, g, date(-4), date(-2))
			require.Equal(t, want, got, "%v", g)
			require.Equal(t, clicks, all, "%v", g)
		}
	}
	requireEqual()

	l := m.links[3]
	q := controlplane.CrossedQuery{Rows: controlplane.Cities, Columns: controlplane.Devices, Code: l.code}
	want, clicks := m.cross(&q, func(x *madeUpLink) bool { return x == l }, date(-5), date(-1))
	require.NotEmpty(t, want)
	got, all := crossed(t, db, 1, q, number(t, hand, `SELECT id FROM link WHERE code = $1`, l.code), controlplane.LinkGroup{}, date(-5), date(-1))
	require.Equal(t, want, got)
	require.Equal(t, clicks, all)

	// Another workspace has nothing of these, not even of a link by its id.
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	for _, link := range []int64{0, number(t, hand, `SELECT id FROM link WHERE code = $1`, l.code)} {
		got, all = crossed(t, db, 7, q, link, controlplane.LinkGroup{}, date(-5), date(-1))
		require.Empty(t, got)
		require.Zero(t, all)
	}

	for _, l := range m.links[:30] {
		l.tags = []string{"moved"}
	}
	exec(t, hand, `UPDATE link SET tags = '{moved}' WHERE code ~ '^made-up-[12]?[0-9]$'`)
	for _, l := range m.links[10:40] {
		l.deleted = true
	}
	exec(t, hand, `UPDATE link SET deleted_at = now() WHERE code ~ '^made-up-[123][0-9]$'`)
	requireEqual()

	// Clicks that are not kept, because they were sampled or purged, are missing from the
	// cells alone.
	_, kept := m.cross(&q, func(*madeUpLink) bool { return true }, date(-5), date(-1))
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "sampled", "events_sample": 10}'`)
	m.click(t, db, r, 2_000, today)
	_, clicks = m.cross(&q, func(*madeUpLink) bool { return true }, date(-5), date(-1))
	q.Code = ""
	got, all = crossed(t, db, 1, q, 0, controlplane.LinkGroup{}, date(-5), date(-1))
	require.Equal(t, clicks, all)
	sum := int64(0)
	for _, n := range got {
		sum += n
	}
	require.InDelta(t, kept+(clicks-kept)/10, sum, 100)
	require.Less(t, sum, all)
}

func TestCrossedClicks_KeepTheFirstNamesAndBoundTheirWork(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	exec(t, hand, `INSERT INTO click_event SELECT now() - interval '1 hour', 1, l.id, n, n > 40, 'C' || n % 2, '', 'D' || n, '', '',
		CASE WHEN n = 40 THEN 'other' ELSE 'r' || n END FROM link l, generate_series(1, 41) n`)
	today := time.Now().UTC().Format(time.DateOnly)
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	q := controlplane.CrossedQuery{Rows: controlplane.Referrers, Columns: controlplane.Countries}
	got, _ := crossed(t, db, 1, q, 0, controlplane.LinkGroup{}, yesterday, today)
	want := map[string]int64{" × C0": 40, " × C1": 0}
	for n := range int64(40) {
		if n >= 20 {
			want[fmt.Sprintf("r%d × C%d", n, n%2)] = n
		} else {
			want[fmt.Sprintf(" × C%d", n%2)] += n
		}
	}
	require.Equal(t, want, got)
	q.Rows, q.Columns = controlplane.Cities, controlplane.Systems
	got, _ = crossed(t, db, 1, q, 0, controlplane.LinkGroup{}, yesterday, today)
	require.Equal(t, map[string]int64{"unknown × unknown": 820}, got)
	analytics.LimitSingles(t, 40)
	from := time.Now().UTC().AddDate(0, 0, -1)
	for _, link := range []int64{0, number(t, hand, `SELECT id FROM link`)} {
		_, _, err := db.CrossedClicks(t.Context(), 1, &q, link, controlplane.LinkGroup{}, span(t, from, time.Now(), controlplane.ByDay, nil))
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
		require.Contains(t, err.Error(), "ask for fewer days")
	}
}
