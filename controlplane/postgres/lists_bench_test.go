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

// japanese has 31 words of titles.
const japanese = "東京 大阪 京都 春 夏 秋 冬 新商品 発売 案内 旅行 温泉 特集 音楽 映画 料理 写真 天気 予報 会社 学校 図書館 電車 時刻表 地図 健康 医療 美術館 公園 祭り 募集"

// BenchmarkLists reads pages of 50 links of a workspace with WAYPOST_BENCH_LINKS links,
// as the console asks for them; each second link has a title in Japanese. It reports the
// 99th percentile.
func BenchmarkLists(b *testing.B) {
	links := 20_000
	if text := os.Getenv("WAYPOST_BENCH_LINKS"); text != "" {
		var err error
		links, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	db, conn := open(b)
	const each = 100_000 // within the timeout of statements
	for n := 0; n < links; n += each {
		_, err := conn.Exec(b.Context(), `
			INSERT INTO link (workspace_id, domain_id, code, custom, original_url, title)
			SELECT 1, 1, substr(md5(n::text), 1, 7) || n, false,
			       'https://' || substr(md5((n % 5000)::text), 1, 8) || '.example/' || repeat('path/', 10) || n,
			       CASE n % 2 WHEN 0 THEN w[1 + n % 30] || ' ' || w[1 + n / 30 % 30] || ' ' || w[1 + n / 900 % 30] || ' ' || n
			                  ELSE j[1 + n % 31] || j[1 + n / 31 % 31] || j[1 + n / 961 % 31] || n END
			FROM generate_series($1::integer, $2) n, (SELECT array_agg(substr(md5(i::text), 1, 6)) w FROM generate_series(1, 30) i) words,
			     string_to_array($3, ' ') j`,
			n, min(n+each, links)-1, japanese)
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
		{name: "a word of Japanese titles", filter: controlplane.LinkFilter{Typed: "図書館"}},
		{name: "two words of Japanese titles", filter: controlplane.LinkFilter{Typed: "東京図書館"}},
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
