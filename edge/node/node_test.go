package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/edge/audience"
	"waypost/edge/report"
	"waypost/edge/server"
)

// ending makes an edge that does nothing but report and stop, and its reports.
func ending(t *testing.T, drain time.Duration) (*edge, <-chan api.EdgeReport) {
	t.Helper()
	reports := make(chan api.EdgeReport, 100)
	control := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var sent api.EdgeReport
		if json.NewDecoder(r.Body).Decode(&sent) == nil {
			reports <- sent
		}
	}))
	t.Cleanup(control.Close)
	e := &edge{
		clicks: &recorder{},
		cfg:    Config{ShutdownTimeout: time.Minute, DrainDelay: drain}, log: slog.New(slog.DiscardHandler), listeners: &listeners{},
		server: server.New(server.Config{}), leaving: make(chan struct{}),
	}
	reporter, err := report.New(report.Config{
		URL: control.URL, Node: "edge-1", Region: "eu", Role: "edge", Boot: waypost.BootID{1}, Interval: time.Hour, Timeout: time.Minute,
		Through:  func(t *http.Transport) http.RoundTripper { return t },
		Position: func() waypost.Position { return waypost.Position{} }, Synced: func() waypost.Position { return waypost.Position{} },
		Age: func() time.Duration { return 0 }, Clicks: func() (int64, time.Time) { return -1, time.Time{} },
		State: func() api.EdgeState { return api.EdgeState{} }, Order: func(api.EdgeOrder) {}, Sync: func() {}, Logger: e.log,
	})
	require.NoError(t, err)
	e.reporters = []*report.Reporter{reporter}
	return e, reports
}

func TestEdge_ReportsThatItLeavesOnceItAnswersNothing(t *testing.T) {
	const drain = 100 * time.Millisecond
	e, reports := ending(t, drain)
	next := func() api.EdgeReport {
		t.Helper()
		select {
		case sent := <-reports:
			return sent
		case <-time.After(time.Minute):
			require.FailNow(t, "no report")
			return api.EdgeReport{}
		}
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	done := make(chan struct{})
	go func() { defer close(done); e.report(ctx) }()

	began, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- e.stopServing(ctx) }()
	require.True(t, next().Leaving, "while the rest of the edge ends")
	require.GreaterOrEqual(t, time.Since(began), drain)
	require.NoError(t, <-stopped)
	end()
	<-done
	require.True(t, next().Leaving, "the farewell")
	require.Empty(t, reports)
}

func TestEdge_DoesNotReportThatItLeavesWhenItRestarts(t *testing.T) {
	e, reports := ending(t, 0)
	ctx, end := context.WithCancel(t.Context())
	e.restarting.Store(true)
	end()
	e.report(ctx)
	require.Empty(t, reports)
}

func TestEdge_ServerAndStatisticsShareTheGeoDB(t *testing.T) {
	e := &edge{store: &store{}, clicks: &recorder{}}
	require.True(t, e.serverConfig().Locator == nil, "without a database")
	e.clicks.geoDB = audience.OpenGeoDB(audience.GeoDBConfig{File: filepath.Join(t.TempDir(), "missing.mmdb")})
	require.Same(t, e.clicks.geoDB, e.serverConfig().Locator)
}

func TestMaxConnections_FitIntoGoMemory(t *testing.T) {
	for goMemory, want := range map[int64]int{64 << 20: 1_024, 460 << 20: 4_352, 1 << 30: 16_384, 2 << 30: 32_768, math.MaxInt64: 32_768} {
		require.Equal(t, want, maxConnections(goMemory), "%d MiB", goMemory>>20)
	}
}
