package postgres_test

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// BenchmarkLists reads pages of 50 links of a workspace with WAYPOST_BENCH_LINKS links,
// as the console asks for them. It reports the 99th percentile.
func BenchmarkLists(b *testing.B) {
	links := 20_000
	if text := os.Getenv("WAYPOST_BENCH_LINKS"); text != "" {
		var err error
		links, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	db, conn := open(b)
	const each = 1_000_000
	for n := 0; n < links; n += each {
		_, err := conn.Exec(b.Context(), `
			INSERT INTO link (workspace_id, domain_id, code, custom, original_url, title)
			SELECT 1, 1, substr(md5(n::text), 1, 7) || n, false,
			       'https://' || substr(md5((n % 5000)::text), 1, 8) || '.example/' || repeat('path/', 10) || n,
			       w[1 + n % 30] || ' ' || w[1 + n / 30 % 30] || ' ' || w[1 + n / 900 % 30] || ' ' || n
			FROM generate_series($1::integer, $2) n, (SELECT array_agg(substr(md5(i::text), 1, 6)) w FROM generate_series(1, 30) i) words`,
			n, min(n+each, links)-1)
		require.NoError(b, err)
	}
	exec(b, conn, `VACUUM ANALYZE`)
	var code, url, title string
	require.NoError(b, conn.QueryRow(b.Context(), `SELECT code, original_url, title FROM link WHERE id % 10 = 7 LIMIT 1`).Scan(&code, &url, &title))
	for _, list := range []struct {
		name   string
		filter controlplane.LinkFilter
		order  controlplane.Order
	}{
		{name: "newest first"},
		{name: "by clicks", order: controlplane.MostClicked},
		{name: "two words of titles", filter: controlplane.LinkFilter{Typed: title[:13]}},
		{name: "beginning of a code", filter: controlplane.LinkFilter{Typed: code[:5]}},
		{name: "beginning of a host", filter: controlplane.LinkFilter{Typed: url[len("https://"):][:6]}},
		{name: "beginning of a URL", filter: controlplane.LinkFilter{Typed: url[:40]}},
	} {
		if list.order == "" {
			list.order = controlplane.NewestFirst
		}
		b.Run(list.name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				began := time.Now()
				page, err := db.ListLinks(b.Context(), waypost.DefaultWorkspace, list.filter, began, list.order, controlplane.ListPlace{}, 50)
				times = append(times, time.Since(began))
				require.NoError(b, err)
				require.NotEmpty(b, page.Links)
			}
			slices.Sort(times)
			b.ReportMetric(times[len(times)*99/100].Seconds()*1e3, "p99-ms")
		})
	}
}
