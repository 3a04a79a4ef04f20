package analytics_test

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/rollup"
)

const hourOfMillis = 4 * waypost.QuarterHour

// tally counts the clicks of a link, or a workspace, one by one, in plain maps.
type tally struct {
	clicks, bots int64
	last         int64
	quarters     map[int64]rollup.Count            // since 1970
	names        map[int32]map[string]rollup.Count // by day: dimension and name
	visitors     map[int32]map[uint64]bool         // by day
	events       int64
}

func newTally() *tally {
	return &tally{
		quarters: make(map[int64]rollup.Count), names: make(map[int32]map[string]rollup.Count), visitors: make(map[int32]map[uint64]bool),
	}
}

// add counts a link of a batch.
func (t *tally) add(b *waypost.ClickBatch, l *waypost.LinkClicks) {
	t.last = max(t.last, l.Last)
	for _, r := range l.Rows {
		p := b.Profiles[r.Profile]
		c := rollup.Count{Clicks: r.Count}
		if p.Bot {
			c.Bots = r.Count
		}
		t.clicks, t.bots = t.clicks+int64(c.Clicks), t.bots+int64(c.Bots)
		if b.Exact {
			t.events += int64(r.Count)
		}
		q := r.At / waypost.QuarterHour
		sum := t.quarters[q]
		sum.Add(c)
		t.quarters[q] = sum
		day := int32(q / rollup.Quarters)
		if t.names[day] == nil {
			t.names[day] = make(map[string]rollup.Count)
		}
		for _, key := range []string{
			"country " + p.Country, "city " + rollup.CityName(p.Country, p.City), "device " + p.Device,
			"browser " + p.Browser, "os " + p.OS, "referrer " + p.Referrer, "rule " + id(p.Rule), "variant " + rollup.VariantName(p.Rule, p.Variant),
		} {
			sum := t.names[day][key]
			sum.Add(c)
			t.names[day][key] = sum
		}
	}
	for _, v := range l.Visitors {
		if t.visitors[v.Day] == nil {
			t.visitors[v.Day] = make(map[uint64]bool)
		}
		t.visitors[v.Day][v.Hash] = v.Bot
	}
}

// requireDays compares the database's clicks of links, or of all, with a tally.
func (t *tally) requireDays(rt require.TestingT, db *postgres.DB, links []int64) {
	days, err := db.ClicksByDay(context.Background(), waypost.DefaultWorkspace, analytics.ClickDays{Links: links, First: 0, End: 1 << 20})
	require.NoError(rt, err)
	quarters, names := make(map[int64]rollup.Count), make(map[int32]map[string]rollup.Count)
	for day, d := range days {
		for q, c := range d.Quarters {
			if c.Clicks > 0 {
				quarters[int64(day)*rollup.Quarters+int64(q)] = c
			}
		}
		names[day] = make(map[string]rollup.Count)
		for prefix, dim := range map[string]rollup.Dimension{
			"country ": rollup.Country, "city ": rollup.City, "device ": rollup.Device,
			"browser ": rollup.Browser, "os ": rollup.OS, "referrer ": rollup.Referrer, "rule ": rollup.Rule, "variant ": rollup.Variant,
		} {
			all, other := d.Breakdown.Names(dim)
			require.Zero(rt, other)
			for _, n := range all {
				names[day][prefix+n.Name] = n.Count
			}
		}
		all, bots := d.Visitors.Count()
		var wantBots uint64
		for _, bot := range t.visitors[day] {
			if bot {
				wantBots++
			}
		}
		require.EqualValues(rt, len(t.visitors[day]), all)
		require.Equal(rt, wantBots, bots)
	}
	require.Equal(rt, t.quarters, quarters)
	require.Equal(rt, t.names, names)
}

// requireLink compares a link's counters with its tally.
func (t *tally) requireLink(rt require.TestingT, db *postgres.DB, hand *pgx.Conn, code waypost.Code) (id int64) {
	l, err := db.Link(context.Background(), waypost.DefaultWorkspace, waypost.DefaultDomain, code)
	require.NoError(rt, err)
	require.Equal(rt, []int64{t.clicks, t.bots}, []int64{l.Clicks, l.BotClicks})
	if t.clicks > 0 {
		require.Equal(rt, t.last, l.LastAccessedAt.UnixMilli())
	}
	var events int64
	require.NoError(rt, hand.QueryRow(context.Background(), `SELECT coalesce(sum(clicks), 0)::bigint FROM click_event
		WHERE link_id = $1`, l.ID).Scan(&events))
	require.Equal(rt, t.events, events)
	top, exact, err := db.TopLinks(context.Background(), waypost.DefaultWorkspace, 0, 1<<20, 10)
	require.NoError(rt, err)
	require.True(rt, exact)
	var counted rollup.Count
	for _, other := range top {
		if other.Link == l.ID {
			counted = other.Count
		}
	}
	require.Equal(rt, rollup.Count{Clicks: uint64(t.clicks), Bots: uint64(t.bots)}, counted)
	return l.ID
}

// id is the name of a rule.
func id(of uint8) string { return strings.TrimPrefix(strconv.Itoa(int(of)), "0") }

// somebody are profiles for batches.
var somebody = []waypost.ClickProfile{
	{},
	{Country: "DE", City: "Köln", Device: "mobile", Browser: "Firefox", OS: "Android", Referrer: "www.example.com"},
	{Country: "FR", City: "Paris", Device: "desktop", Browser: "Chrome", OS: "Windows", Referrer: "other"},
	{Device: "bot", Browser: "Googlebot", Bot: true},
	{Bot: true},
	{Country: "FR", City: "Paris", Device: "desktop", Browser: "Chrome", OS: "Windows", Referrer: "other", Rule: 1, Variant: 1},
	{Country: "FR", City: "Paris", Device: "desktop", Browser: "Chrome", OS: "Windows", Referrer: "other", Rule: 1, Variant: 2},
	{Rule: 2},
	{Device: "bot", Browser: "Googlebot", Bot: true, Rule: 1, Variant: 2},
}

// drawLink draws clicks on a link within the days before a time.
func drawLink(t *rapid.T, code string, now int64, exact bool) (l waypost.LinkClicks, ok bool) {
	l = waypost.LinkClicks{Domain: waypost.DefaultDomain, Code: waypost.Code(code)}
	seen := make(map[int32]bool)
	for range rapid.IntRange(0, 4).Draw(t, code) {
		at := now - rapid.Int64Range(0, 50).Draw(t, "hours ago")*hourOfMillis - rapid.Int64Range(0, hourOfMillis).Draw(t, "ms ago")
		if l.Last = max(l.Last, at); !exact {
			at = waypost.Quarter(at)
		}
		l.Rows = append(l.Rows, waypost.ClickRow{
			At: at, Profile: rapid.Uint32Range(0, uint32(len(somebody))-1).Draw(t, "profile"), Count: rapid.Uint64Range(1, 9).Draw(t, "count"),
		})
		day := int32(at / (24 * hourOfMillis))
		if h := rapid.Uint64Range(1, 6).Draw(t, "visitor"); !seen[day] {
			seen[day] = true
			l.Visitors = append(l.Visitors, waypost.Visitor{Day: day, Hash: h << 60, Bot: h%3 == 0})
		}
	}
	return l, len(l.Rows) > 0
}
