package analytics_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/rollup"
)

func TestStatistics_CountOneNameByDay(t *testing.T) {
	db, _ := open(t)
	insert(t, db, link("spring"))
	unnamed := waypost.ClickProfile{Device: "unknown", Referrer: "direct"} // as edges and visitors write it
	ingest(t, db, &waypost.ClickBatch{
		Node: "edge-2", Boot: someBoot, Seq: 1, Exact: true, Profiles: []waypost.ClickProfile{unnamed},
		Links: []waypost.LinkClicks{rows("spring", 5, 0, 7, at(9, 0))},
	})
	send(t, db, 1, rows("spring", 1, 0, 5, at(10, 0)), rows("spring", 2, 1, 3, at(11, 0)))
	send(t, db, 2, rows("spring", 3, 0, 2, at(12, 0).AddDate(0, 0, 1)), rows("spring", 4, 2, 1, at(12, 0)))
	first := int32(at(0, 0).Unix() / 86400)
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		for query, want := range map[controlplane.NameQuery][2]int64{
			{By: controlplane.Countries, Name: "DE"}:              {5, 2},
			{By: controlplane.Countries}:                          {8, 0},
			{By: controlplane.Devices}:                            {0, 0},
			{By: controlplane.Devices, Nameless: "unknown"}:       {7, 0},
			{By: controlplane.Devices, Name: "unknown"}:           {7, 0},
			{By: controlplane.Referrers, Nameless: "direct"}:      {11, 0},
			{By: controlplane.Referrers, Name: "direct"}:          {7, 0},
			{By: controlplane.Cities, Name: "Paris, FR"}:          {3, 0},
			{By: controlplane.Referrers, Name: "www.example.com"}: {5, 2},
			{By: controlplane.Browsers, Name: "Lynx"}:             {0, 0},
		} {
			s := span(t, at(0, 0), at(0, 0).AddDate(0, 0, 2), controlplane.ByDay, nil)
			c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, linkID(t, db, "spring"), s, &query)
			require.NoError(t, err)
			w, _, err := db.WorkspaceClicks(t.Context(), waypost.DefaultWorkspace, s, &query, 0)
			require.NoError(t, err)
			days := []controlplane.NamedDay{{Day: first, Clicks: want[0]}, {Day: first + 1, Clicks: want[1]}}
			require.ElementsMatch(t, days, c.Named, query)
			require.ElementsMatch(t, days, w.Named, query)
		}
	}
}

// The year of a link with ten million clicks, and as many names as days keep.
const yearDays, yearClicks = 365, 10_000_000

// fillYear writes the rollups of a link's last year, and returns the link and the span.
func fillYear(t testing.TB, conn *pgx.Conn, link int64) *controlplane.Span {
	t.Helper()
	const perDay = yearClicks / yearDays
	var b rollup.Breakdown
	for i := range 1200 {
		b.Add(&waypost.ClickProfile{
			Country: fmt.Sprintf("%c%c", 'A'+i%26, 'A'+i/26%10), City: fmt.Sprintf("City %d", i), Device: []string{"desktop", "mobile"}[i%2],
			Browser: fmt.Sprintf("Browser %d", i%30), OS: fmt.Sprintf("System %d", i%12), Referrer: fmt.Sprintf("site-%d.example.com", i),
		}, rollup.Count{Clicks: uint64(perDay / 1200)})
	}
	var v rollup.Visitors
	for i := range uint64(perDay / 2) {
		v.Add(i*0x9e3779b97f4a7c15, false)
	}
	var q rollup.QuarterCounts
	for hour := range 24 {
		q[4*hour].Clicks = uint64(perDay / 1200 * 1200 / 24)
	}
	_, err := conn.Exec(t.Context(), `INSERT INTO click_day SELECT $1, current_date - d, 1, $2, 0, $3, $4, $5 FROM generate_series(0, 364) d`,
		link, perDay/1200*1200, q.Append(nil), b.Append(nil), v.Append(nil))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `ANALYZE`)
	require.NoError(t, err)
	s, err := controlplane.NewSpan(controlplane.StatsQuery{From: time.Now().AddDate(0, 0, -yearDays+1)}, time.Now())
	require.NoError(t, err)
	return &s
}

func TestStatistics_NameAmongTooManyIsAtLeast(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	id := linkID(t, db, "spring")
	s := fillYear(t, hand, id)
	city := controlplane.NameQuery{By: controlplane.Cities, Name: "City 7, HA"}
	mobile := controlplane.NameQuery{By: controlplane.Devices, Name: "mobile"}
	c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, id, s, &city)
	require.NoError(t, err)
	require.Len(t, c.Named, yearDays)
	require.True(t, c.Named[0].AtLeast, "1,200 cities are more than a day keeps")
	c, err = db.LinkClicks(t.Context(), waypost.DefaultWorkspace, id, s, &mobile)
	require.NoError(t, err)
	require.False(t, c.Named[0].AtLeast)
	require.Equal(t, int64(yearClicks/yearDays/1200*600), c.Named[0].Clicks)
}

// Each name of a day is a part of the text that the day was unpacked from.
func TestStatistics_NamesOfManyDaysKeepNoTextOfTheDaysInMemory(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	id := linkID(t, db, "spring")
	const days, textOfDay = 300, 100_000
	var same rollup.Breakdown
	for i := range 999 {
		same.Add(&waypost.ClickProfile{Referrer: fmt.Sprintf("site-%d.%0100d.example.com", i, 0)}, rollup.Count{Clicks: 1})
	}
	for day := range days {
		var b rollup.Breakdown
		b.Merge(&same)
		b.Add(&waypost.ClickProfile{Referrer: fmt.Sprintf("day-%d.example.com", day)}, rollup.Count{Clicks: 1000 + uint64(day)})
		packed := b.Append(nil)
		require.Greater(t, len(packed), textOfDay)
		_, err := hand.Exec(t.Context(), `INSERT INTO click_day SELECT $1, current_date - $2::integer, 1, $3, 0, '', $4, ''`,
			id, day, int64(b.Total(rollup.Referrer).Clicks), packed)
		require.NoError(t, err)
	}
	s, err := controlplane.NewSpan(controlplane.StatsQuery{From: time.Now().AddDate(0, 0, -days+1)}, time.Now())
	require.NoError(t, err)
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	c, err := db.LinkClicks(t.Context(), waypost.DefaultWorkspace, id, &s, nil)
	require.NoError(t, err)
	after := held()
	require.Len(t, c.Breakdowns[controlplane.Referrers].Named, rollup.MaxNames)
	require.Less(t, after, before+days*textOfDay/3, "the name of a day holds its text")
}

// BenchmarkYear reads the year of a link with ten million clicks.
func BenchmarkYear(b *testing.B) {
	db, conn := open(b)
	_, _, err := db.InsertLinks(b.Context(), 0, insertions(link("spring")))
	require.NoError(b, err)
	l, err := db.Link(b.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "spring")
	require.NoError(b, err)
	s := fillYear(b, conn, l.ID)
	for name, query := range map[string]*controlplane.NameQuery{"all": nil, "named": {By: controlplane.Cities, Name: "City 7, HA"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := db.LinkClicks(b.Context(), waypost.DefaultWorkspace, l.ID, s, query)
				require.NoError(b, err)
				require.Len(b, c.Quarters, 24*yearDays)
			}
		})
	}
}
