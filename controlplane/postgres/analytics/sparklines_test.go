package analytics_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/rollup"
)

func TestLinksClicks_AreByDayOfAnyZoneFoldedOrNot(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	insert(t, db, link("spring"), link("summer"), link("autumn"), link("gone"))
	send(t, db, 1, rows("spring", 1, 0, 5, at(17, 20)), rows("summer", 1, 0, 7, at(18, 14)), rows("gone", 1, 0, 1, at(1, 0)))
	send(t, db, 2, rows("spring", 2, 1, 3, at(18, 20)), rows("spring", 3, 2, 1, at(18, 20).AddDate(0, 0, 1)))
	_, err := db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "gone")
	require.NoError(t, err)
	kathmandu, err := time.LoadLocation("Asia/Kathmandu") // 5:45 ahead: the day begins at 18:15
	require.NoError(t, err)
	name := func(code waypost.Code) controlplane.LinkName {
		return controlplane.LinkName{Domain: waypost.DefaultDomain, Code: code}
	}
	asked := []controlplane.LinkName{name("summer"), name("unknown"), name("spring"), name("gone"), {}, name("autumn"), name("spring")}
	for _, folded := range []bool{false, true} {
		if folded {
			fold(t, db)
		}
		s := span(t, at(0, 0), at(0, 0).AddDate(0, 0, 3), controlplane.ByDay, nil)
		c, err := db.LinksClicks(t.Context(), waypost.DefaultWorkspace, asked, s)
		require.NoError(t, err)
		require.Equal(t, map[controlplane.LinkName][]int64{name("spring"): {8, 1, 0}, name("summer"): {7, 0, 0}, name("autumn"): {0, 0, 0}}, c)

		s = span(t, at(12, 0), at(12, 0).AddDate(0, 0, 2), controlplane.ByDay, kathmandu)
		c, err = db.LinksClicks(t.Context(), waypost.DefaultWorkspace, asked, s)
		require.NoError(t, err)
		require.Equal(t, []int64{5, 3, 1}, c[name("spring")])
		require.Equal(t, []int64{7, 0, 0}, c[name("summer")])

		c, err = db.LinksClicks(t.Context(), 7, asked, s)
		require.NoError(t, err)
		require.Empty(t, c, "another workspace")
	}
}

// BenchmarkLinksClicks reads 14 and 31 days of 100 links that were clicked in every hour.
func BenchmarkLinksClicks(b *testing.B) {
	db, conn := open(b)
	var names []controlplane.LinkName
	var some []*waypost.Link
	for i := range 100 {
		some = append(some, links(100)[i])
		names = append(names, controlplane.LinkName{Domain: waypost.DefaultDomain, Code: some[i].Code})
	}
	_, _, err := db.InsertLinks(b.Context(), 0, insertions(some...))
	require.NoError(b, err)
	var q rollup.QuarterCounts
	for i := range q {
		q[i] = rollup.Count{Clicks: 5, Bots: 1}
	}
	_, err = conn.Exec(b.Context(), `INSERT INTO click_day SELECT l.id, current_date - d, 1, 480, 96, $1, '', ''
		FROM link l, generate_series(0, 31) d`, q.Append(nil))
	require.NoError(b, err)
	exec(b, conn, `ANALYZE`)
	for name, zone := range map[string]string{"days": "UTC", "hours": "Europe/Berlin", "quarters": "Asia/Kathmandu"} {
		at, err := time.LoadLocation(zone)
		require.NoError(b, err)
		for _, days := range []int{14, 31} {
			s, err := controlplane.NewSpan(controlplane.StatsQuery{From: time.Now().AddDate(0, 0, -days+1), Zone: at}, time.Now())
			require.NoError(b, err)
			b.Run(fmt.Sprintf("%s/%d", name, days), func(b *testing.B) {
				for b.Loop() {
					_, err := db.LinksClicks(b.Context(), waypost.DefaultWorkspace, names, &s)
					require.NoError(b, err)
				}
			})
		}
	}
}
