package analytics_test

import (
	"context"
	"fmt"
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

// everyTop adds up all links of a workspace.
const everyTop = `
	SELECT link_id, sum(clicks)::bigint, sum(bot_clicks)::bigint FROM (
		SELECT link_id, clicks, bot_clicks FROM click_day WHERE workspace_id = $1 AND day >= $2 AND day < $3
		UNION ALL
		SELECT link_id, clicks, bot_clicks FROM click_part WHERE workspace_id = $1 AND day >= $2 AND day < $3) s
	GROUP BY link_id ORDER BY 2 DESC, 1 LIMIT $4`

func everyTopOf(t testing.TB, hand *pgx.Conn, first, end int32, limit int) (top []rollup.LinkCount) {
	rows, err := hand.Query(t.Context(), everyTop, waypost.DefaultWorkspace, dayAt(first), dayAt(end), limit)
	require.NoError(t, err)
	var link, clicks, bots int64
	_, err = pgx.ForEachRow(rows, []any{&link, &clicks, &bots}, func() error {
		top = append(top, rollup.LinkCount{Link: link, Count: rollup.Count{Clicks: uint64(clicks), Bots: uint64(bots)}})
		return nil
	})
	require.NoError(t, err)
	return top
}

func dayAt(n int32) time.Time { return time.Unix(int64(n)*86400, 0).UTC() }

// More links are clicked each day than the day's list has. Some stand out on all days,
// others on one.
func TestTheLinksWithTheMostClicksAreFoundAmongManyMore(t *testing.T) {
	db, hand := open(t)
	const n = 1_500
	insert(t, db, links(n)[:1000]...)
	insert(t, db, links(n)[1000:]...)
	clicksOn := func(seq uint64, day time.Time, count func(i int) uint64) {
		var all []waypost.LinkClicks
		for i := range n {
			if c := count(i); c > 0 {
				all = append(all, rows(fmt.Sprintf("link-%d", i), uint64(i)+1, uint32(i%3), c, day))
			}
		}
		send(t, db, seq, all...)
	}
	for day := range 4 {
		clicksOn(uint64(day)+1, at(12, 0).AddDate(0, 0, -day), func(i int) uint64 {
			switch {
			case i%300 == 7: // on all days
				return uint64(40 + i/300)
			case i/10 == 20+day: // on one
				return 130
			}
			return uint64(i*7919%5) + 1
		})
		if day != 2 { // so that there are parts, too
			fold(t, db)
		}
	}
	first := int32(at(0, 0).Unix()/86400) - 3
	check := func(first, end int32, limit int, wantExact bool) []rollup.LinkCount {
		t.Helper()
		top, exact, err := db.TopLinks(t.Context(), waypost.DefaultWorkspace, first, end, limit)
		require.NoError(t, err)
		require.Equal(t, wantExact, exact)
		if exact {
			require.Equal(t, everyTopOf(t, hand, first, end, limit), top)
		}
		return top
	}
	check(first, first+4, 5, true)
	check(first+1, first+3, 10, true)
	fold(t, db)
	check(first, first+4, 5, true)
	check(first, first+4, 45, true)
	check(first+3, first+4, 10, true)
	check(first, first+4, 100, true)

	// One that is forgotten, and one that is purged, makes room for the next.
	code := textOf(t, hand, fmt.Sprintf(`SELECT code FROM link WHERE id = %d`, check(first, first+4, 1, true)[0].Link))
	_, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, waypost.Code(code))
	require.NoError(t, err)
	check(first, first+4, 5, true)
	exec(t, hand, fmt.Sprintf(`DELETE FROM click_day WHERE link_id = %d`, check(first, first+4, 1, true)[0].Link))
	check(first, first+4, 5, true)

	// A list that cannot be read costs certainty where its day is asked for, and nothing
	// else.
	exec(t, hand, `UPDATE click_workspace_day SET top = '\xff' WHERE day = (SELECT max(day) FROM click_workspace_day)`)
	for _, l := range check(first, first+4, 5, false) {
		require.EqualValues(t, number(t, hand, `SELECT sum(clicks)::bigint FROM click_day
			WHERE link_id = $1`, l.Link), l.Clicks, "what is told is exact all the same")
	}
	check(first, first+3, 5, true)
}

// BenchmarkTopLinks finds the ten links with the most clicks of 30 days of a workspace
// with four million days of links, and does the same by adding all up.
func BenchmarkTopLinks(b *testing.B) {
	const linksOfDay, days = 135_000, 30
	url := cluster.Database(b)
	db, err := postgres.Open(b.Context(), postgres.Config{URL: url})
	require.NoError(b, err)
	defer db.Close()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(b, err)
	cfg.User = "postgres"
	hand, err := pgx.ConnectConfig(b.Context(), cfg)
	require.NoError(b, err)
	defer func() { require.NoError(b, hand.Close(context.Background())) }()
	first := int32(20_000)
	// The clicks of a link fall with its rank, which is another every day, by a part.
	exec(b, hand, fmt.Sprintf(`
		INSERT INTO click_day (link_id, day, workspace_id, clicks, bot_clicks, quarters, breakdown, visitors)
		SELECT l * 11, date '1970-01-01' + d, 1, greatest(1, 3000000 / ((l + d * 40 * (l %% 3)) %% %d + 1)), 0, '', decode(repeat('2a', 120),
			'hex'), decode(repeat('2b', 40), 'hex')
		FROM generate_series(%d, %d) d, generate_series(1, %d) l`, linksOfDay, first, first+days-1, linksOfDay))
	exec(b, hand, `ANALYZE click_day`)
	for day := first; day < first+days; day++ {
		top := &rollup.Top{}
		top.Set(everyTopOf(b, hand, day, day+1, rollup.MaxTop+1)...)
		_, err := hand.Exec(b.Context(), `INSERT INTO click_workspace_day (workspace_id, day, clicks, bot_clicks, breakdown, visitors, top)
			VALUES (1, $1, 1, 0, '', '', $2)`,
			dayAt(day), top.Append(nil))
		require.NoError(b, err)
	}
	b.Run("lists", func(b *testing.B) {
		for b.Loop() {
			top, exact, err := db.TopLinks(b.Context(), 1, first, first+days, 10)
			require.NoError(b, err)
			require.Len(b, top, 10)
			require.True(b, exact)
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			require.Len(b, everyTopOf(b, hand, first, first+days, 10), 10)
		}
	})
	rows, err := hand.Query(b.Context(), `EXPLAIN (ANALYZE, BUFFERS) `+everyTop, int64(1), dayAt(first), dayAt(first+days), 10)
	require.NoError(b, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b, err)
	for _, line := range plan {
		b.Log(line)
	}
}

// A plan may be older than the first rush of clicks, when the table was small. Statistics
// still read only the days of the links that were asked for.
func TestStatisticsOfLinksReadNoDaysOfOthersThoughTheTableWasSmall(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(60)...)
	var all []waypost.LinkClicks
	for i := range 60 {
		all = append(all, rows(fmt.Sprintf("link-%d", i), 1, 0, 5, at(12, 0)))
	}
	send(t, db, 1, all...)
	fold(t, db)
	id := linkID(t, db, "link-7")
	db.Close()
	exec(t, hand, `ALTER TABLE click_day SET (autovacuum_enabled = off)`)
	exec(t, hand, `VACUUM ANALYZE click_day`)

	// One connection keeps the plan that it made first.
	db, err := postgres.Open(t.Context(), postgres.Config{URL: hand.Config().ConnString() + "&plan_cache_mode=force_generic_plan", MaxConns: 1})
	require.NoError(t, err)
	defer db.Close()
	today := int32(at(0, 0).Unix() / 86400)
	asked := []controlplane.LinkName{{Domain: waypost.DefaultDomain, Code: "link-7"}}
	read := func() {
		t.Helper()
		top, _, err := db.TopLinks(t.Context(), waypost.DefaultWorkspace, today, today+1, 10)
		require.NoError(t, err)
		require.Len(t, top, 10)
		days, err := db.ClicksByDay(t.Context(), waypost.DefaultWorkspace, analytics.ClickDays{Links: []int64{id}, First: today, End: today + 1})
		require.NoError(t, err)
		require.EqualValues(t, 5, days[today].Total().Clicks)
		day := span(t, at(0, 0), at(0, 0).AddDate(0, 0, 1), controlplane.ByDay, nil)
		line, err := db.LinksClicks(t.Context(), waypost.DefaultWorkspace, asked, day)
		require.NoError(t, err)
		require.Equal(t, []int64{5}, line[asked[0]])
	}
	read()
	const others = 50_000
	exec(t, hand, fmt.Sprintf(`INSERT INTO click_day SELECT 1000 + i, d.day, 1, d.clicks, d.bot_clicks, d.quarters, d.breakdown, d.visitors
		FROM generate_series(1, %d) i CROSS JOIN (SELECT * FROM click_day LIMIT 1) d`, others))
	read()
	db.Close()
	awaitNoClient(t, hand)
	require.Less(t, number(t, hand, `SELECT seq_tup_read + idx_tup_fetch + (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
		WHERE relname = 'click_day') FROM pg_stat_user_tables WHERE relname = 'click_day'`), int64(others/10))
}

// awaitNoClient waits until all other connections have ended: that is when one reports
// what it has read.
func awaitNoClient(t *testing.T, hand *pgx.Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		return number(t, hand, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND backend_type = 'client backend'`) == 0
	}, waitLimit, pause)
}
