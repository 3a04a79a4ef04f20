package analytics_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/controlplane/rollup"
)

// Neighbours share rows of waiting clicks. A page of links reads each of these rows once,
// and not once for each link.
func TestAPageOfLinksReadsRowsOfWaitingClicksOnce(t *testing.T) {
	db, hand := open(t)
	insert(t, db, links(100)...)
	const batches = 40
	var all []waypost.LinkClicks
	var names []controlplane.LinkName
	for i := range 100 {
		code := fmt.Sprintf("link-%d", i)
		all = append(all, rows(code, 1, 0, 2, at(12, 0)))
		names = append(names, controlplane.LinkName{Domain: waypost.DefaultDomain, Code: waypost.Code(code)})
	}
	for seq := range uint64(batches) {
		send(t, db, seq+1, all...)
	}
	waiting := number(t, hand, `SELECT count(*) FROM click_pack`)
	db.Close()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: hand.Config().ConnString(), MaxConns: 1})
	require.NoError(t, err)
	defer db.Close()
	page, err := db.ListLinks(t.Context(), waypost.DefaultWorkspace, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst,
		controlplane.ListPlace{}, 100)
	require.NoError(t, err)
	require.Len(t, page.Links, 100)
	for i := range page.Links {
		require.EqualValues(t, 2*batches, page.Links[i].Clicks)
	}
	day := span(t, at(0, 0), at(0, 0).AddDate(0, 0, 1), controlplane.ByDay, nil)
	lines, err := db.LinksClicks(t.Context(), waypost.DefaultWorkspace, names, day)
	require.NoError(t, err)
	require.Len(t, lines, 100)
	require.Equal(t, []int64{2 * batches}, lines[names[7]])
	db.Close()
	awaitNoClient(t, hand)
	const reads = 2
	require.LessOrEqual(t, number(t, hand, `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'click_pack'`),
		waiting*(reads*5+1), "each read looks at five areas, perhaps at all rows for each")
}

// BenchmarkPageWhileClicksWait reads a link, and pages of links whose clicks are not
// folded yet.
func BenchmarkPageWhileClicksWait(b *testing.B) {
	db, conn := open(b)
	_, _, err := db.InsertLinks(b.Context(), 0, insertions(links(1000)...))
	require.NoError(b, err)
	var names []controlplane.LinkName
	for i := range 100 {
		names = append(names, controlplane.LinkName{Domain: waypost.DefaultDomain, Code: waypost.Code(fmt.Sprintf("link-%d", i))})
	}
	s, err := controlplane.NewSpan(controlplane.StatsQuery{From: time.Now().AddDate(0, 0, -6)}, time.Now())
	require.NoError(b, err)
	detail := (&rollup.Delta{Profiles: people[:1], Rows: []rollup.Row{{Quarter: 40, Clicks: 3}}}).Append(nil)
	packs := 0
	for _, n := range []int{0, 100, 400, 4000} {
		_, err := conn.Exec(b.Context(), `
			INSERT INTO click_pack (workspace_id, area, links, days, clicks, bot_clicks, newest, details)
			SELECT 1, (SELECT min(id) >> 16 << 16 | 16 FROM link), array_agg(l.id ORDER BY l.id), array_agg(current_date), array_agg(3),
			       array_agg(0), array_agg(now()), array_agg($2::bytea)
			FROM generate_series(1, $1::integer) g CROSS JOIN LATERAL (SELECT id FROM link WHERE id % 11 = g % 11) l GROUP BY g`, n-packs, detail)
		require.NoError(b, err)
		packs = n
		exec(b, conn, `VACUUM ANALYZE`)
		for _, size := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%d links of a list/%d", size, n), func(b *testing.B) {
				for b.Loop() {
					page, err := db.ListLinks(b.Context(), waypost.DefaultWorkspace, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst,
						controlplane.ListPlace{}, size)
					require.NoError(b, err)
					require.Len(b, page.Links, size)
				}
			})
		}
		b.Run(fmt.Sprintf("sparklines/%d", n), func(b *testing.B) {
			for b.Loop() {
				_, err := db.LinksClicks(b.Context(), waypost.DefaultWorkspace, names, &s)
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprintf("link/%d", n), func(b *testing.B) {
			for b.Loop() {
				_, err := db.Link(b.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "link-7")
				require.NoError(b, err)
			}
		})
	}
}
