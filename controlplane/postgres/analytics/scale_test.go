package analytics_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/rollup"
)

// fillStatistics makes links by hand: a tenth has the tag `large`, with clicks on three
// of the last 30 days; of the others every second one has clicks on one day. 50,000 links
// have the tag `medium`, and 1,000 the tag `small`.
func fillStatistics(b *testing.B, hand *pgx.Conn, links int) {
	b.Helper()
	exec(b, hand, `SET statement_timeout = 0; SET session_replication_role = replica`)
	exec(b, hand, `INSERT INTO domain (id, host, workspace_id) VALUES (2, 'own.example', 1)`)
	_, err := hand.Exec(b.Context(), `
		INSERT INTO link (workspace_id, domain_id, code, original_url, created_by, tags)
		SELECT 1, 1 + (i % 5 = 0)::integer, 'scale-' || i, 'https://example.com/' || i, 'person-' || i % 50,
			CASE WHEN i % 10 = 0 THEN '{large}'::text[] ELSE '{}' END || CASE WHEN i % ($1 / 50000) = 1 THEN '{medium}'::text[] ELSE '{}' END
				|| CASE WHEN i % ($1 / 1000) = 2 THEN '{small}'::text[] ELSE '{}' END
		FROM generate_series(1, $1) i`, links)
	require.NoError(b, err)
	var d rollup.Day
	for i := range 3 {
		d.Quarters[8*i].Add(rollup.Count{Clicks: 1})
		d.Breakdown.Add(&people[i], rollup.Count{Clicks: 1})
		d.Visitors.Add(uint64(i)<<24, false)
	}
	_, err = hand.Exec(b.Context(), `
		INSERT INTO click_day SELECT id, current_date - 1 - (id + 10 * d)::integer % 29, 1, 3, 0, $1, $2, $3
		FROM link CROSS JOIN generate_series(0, CASE WHEN tags <> '{}' THEN 2 ELSE 0 END) d WHERE tags <> '{}' OR id % 2 = 0`,
		d.Quarters.Append(nil), d.Breakdown.Append(nil), d.Visitors.Append(nil))
	require.NoError(b, err)
	exec(b, hand, `INSERT INTO link_click SELECT link_id, 1, sum(clicks), 0, now() FROM click_day GROUP BY 1`)
	_, err = hand.Exec(b.Context(), `
		INSERT INTO click_workspace_day SELECT 1, day, sum(clicks), 0, $1, $2, $3 FROM click_day GROUP BY day`,
		d.Quarters.Append(nil), d.Breakdown.Append(nil), d.Visitors.Append(nil))
	require.NoError(b, err)
	exec(b, hand, `SET session_replication_role = origin`)
	exec(b, hand, `VACUUM ANALYZE`)
}

const asks = 300

// BenchmarkStatistics measures each question of statistics, over the last 30 days, in a
// workspace of WAYPOST_BENCH_LINKS links: the median and the 99th percentile of 300
// answers, and how long the counts in the background take.
func BenchmarkStatistics(b *testing.B) {
	links, err := strconv.Atoi(os.Getenv("WAYPOST_BENCH_LINKS"))
	if err != nil {
		b.Skip("WAYPOST_BENCH_LINKS is not set")
	}
	db, hand := open(b)
	began := time.Now()
	fillStatistics(b, hand, links)
	fmt.Printf("%d links after %v\n", links, time.Since(began).Round(time.Second))
	s, err := controlplane.NewSpan(controlplane.StatsQuery{}, time.Now())
	require.NoError(b, err)
	first, end := s.Days()
	group := func(g controlplane.LinkGroup) func() error {
		return func() error {
			_, err := db.GroupClicks(b.Context(), waypost.DefaultWorkspace, g, &s, nil, 10)
			return err
		}
	}
	table := func(by controlplane.GroupBy) func() error {
		return func() error {
			_, err := db.GroupRows(b.Context(), waypost.DefaultWorkspace, by, first, end)
			return err
		}
	}
	count := func(what string) {
		exec(b, hand, `UPDATE stats_question SET begun_at = NULL WHERE id = (SELECT max(id) FROM stats_question)`)
		began := time.Now()
		require.NoError(b, db.NewRoller(nil).KeepAnswers(b.Context()))
		fmt.Printf("%-40s %8.1f s\n", what, time.Since(began).Seconds())
	}
	for _, q := range []struct {
		name string
		ask  func() error
	}{
		{"a link", func() error {
			_, err := db.LinkClicks(b.Context(), waypost.DefaultWorkspace, 10, &s, nil)
			return err
		}},
		{"the workspace", func() error {
			_, _, err := db.WorkspaceClicks(b.Context(), waypost.DefaultWorkspace, &s, nil, 10)
			return err
		}},
		{"a tag of 1,000 links", group(controlplane.LinkGroup{Tags: []string{"small"}})},
		{"a tag of 50,000 links", group(controlplane.LinkGroup{Tags: []string{"medium"}})},
		{fmt.Sprintf("a tag of %d links", links/10), group(controlplane.LinkGroup{Tags: []string{"large"}})},
		{fmt.Sprintf("a domain of %d links", links/5), group(controlplane.LinkGroup{Domain: 2})},
		{"two tags", group(controlplane.LinkGroup{Tags: []string{"large", "medium"}})},
		{"the table of tags", table(controlplane.ByTag)},
		{"the table of domains", table(controlplane.ByDomain)},
		{"the table of creators", table(controlplane.ByCreator)},
	} {
		if err := q.ask(); waypost.CodeOf(err) == waypost.ECounting {
			count("first count of " + q.name)
		} else {
			require.NoError(b, err)
		}
		took := make([]time.Duration, asks)
		for i := range took {
			began := time.Now()
			require.NoError(b, q.ask(), q.name)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		fmt.Printf("%-40s %8.1f ms, p99 %8.1f ms\n", q.name, 1000*took[asks/2].Seconds(), 1000*took[asks*99/100].Seconds())
	}
	exec(b, hand, `DELETE FROM stats_question WHERE question->'tags' IS DISTINCT FROM '["large"]'`)
	count("a count without a change")
	exec(b, hand, `UPDATE link SET tags = '{large}' WHERE id % 10000 = 1`)
	count("a count after some links have come")
	exec(b, hand, `UPDATE click_workspace_day SET clicks = clicks + 1 WHERE day = current_date - 1`)
	count("a count of one day")
	exec(b, hand, `UPDATE link SET tags = '{}' WHERE id = 10`)
	count("a count after a link has left")
}
