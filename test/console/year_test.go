package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane/rollup"
	"waypost/test/devtest"
)

// The year of a link with ten million clicks, and how long its numbers may take.
const (
	yearDays, yearClicks = 365, 10_000_000
	yearLimit            = 300 * time.Millisecond
	yearPatience         = time.Minute
)

// The time is the best of several requests, for which a slow machine gets some patience.
func TestStatistics_OfAYearTake300Milliseconds(t *testing.T) {
	if !devtest.Long() {
		t.Skip("make test-long runs this")
	}
	state := system.For(t).State()
	var link api.Link
	call(t, state.API+"/api/v1/urls", map[string]string{"original_url": "https://example.com/year"}, &link)
	conn, err := pgx.Connect(t.Context(), state.DatabaseURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	fillYear(t, conn, link.ID)

	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for query, zone := range map[string]*time.Location{"": time.UTC, "&tz=Europe/Berlin": berlin, "&by=cities&name=City+7,+HA": time.UTC} {
		first := time.Now().In(zone).AddDate(0, 0, 1-yearDays) // Berlin is a day ahead late in the evening
		url := fmt.Sprintf("%s/api/v1/urls/%s/stats?from=%s&interval=day", state.API, link.ShortCode, first.Format(time.DateOnly))
		best := time.Hour
		var stats api.LinkStats
		start := time.Now()
		for tries := 0; tries < 5 || best > yearLimit && time.Since(start) < yearPatience; tries++ { // others may use the machine
			began := time.Now()
			text := read(t, url+query)
			best = min(best, time.Since(began))
			stats = api.LinkStats{}
			require.NoError(t, json.Unmarshal(text, &stats))
		}
		require.Len(t, stats.Series, yearDays)
		require.InEpsilon(t, yearClicks, stats.Clicks, 0.02)
		t.Logf("%q: %s", query, best)
		require.LessOrEqual(t, best, yearLimit, query)
	}
}

// fillYear writes the totals of a link's last year, with as many names as a day keeps.
func fillYear(t *testing.T, conn *pgx.Conn, link string) {
	t.Helper()
	const names = 1200
	const perDay = (yearClicks/yearDays/names + 1) * names
	var b rollup.Breakdown
	for i := range names {
		b.Add(&waypost.ClickProfile{
			Country: fmt.Sprintf("%c%c", 'A'+i%26, 'A'+i/26%10), City: fmt.Sprintf("City %d", i), Device: []string{"desktop", "mobile"}[i%2],
			Browser: fmt.Sprintf("Browser %d", i%30), OS: fmt.Sprintf("System %d", i%12), Referrer: fmt.Sprintf("site-%d.example.com", i),
		}, rollup.Count{Clicks: perDay / names})
	}
	var v rollup.Visitors
	for i := range uint64(perDay / 2) {
		v.Add(i*0x9e3779b97f4a7c15, false)
	}
	var q rollup.QuarterCounts
	for hour := range 24 {
		q[4*hour].Clicks = perDay / 24
	}
	_, err := conn.Exec(t.Context(), `SELECT set_config('waypost.workspaces', '1', false)`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO click_day SELECT $1::text::bigint, current_date - d, 1, $2, 0, $3, $4, $5 FROM generate_series(0, 364) d`,
		link, perDay, q.Append(nil), b.Append(nil), v.Append(nil))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `ANALYZE click_day`)
	require.NoError(t, err)
}

func read(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(text))
	return text
}
