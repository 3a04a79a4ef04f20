package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/edge/report"
	"waypost/edge/server"
)

func TestEdge_ReportsThatItLeavesBeforeItDrains(t *testing.T) {
	reports := make(chan api.EdgeReport, 100)
	control := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var sent api.EdgeReport
		if json.NewDecoder(r.Body).Decode(&sent) == nil {
			reports <- sent
		}
	}))
	t.Cleanup(control.Close)
	e := &edge{
		cfg: Config{ShutdownTimeout: time.Minute}, log: slog.New(slog.DiscardHandler), listeners: &listeners{},
		server: server.New(server.Config{}), departed: make(chan struct{}), leaving: make(chan struct{}),
	}
	reporter, err := report.New(report.Config{
		URL: control.URL, Node: "edge-1", Region: "eu", Boot: waypost.BootID{1}, Interval: time.Hour, Timeout: time.Minute,
	})
	require.NoError(t, err)
	e.reporters = []*report.Reporter{reporter}
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

	require.NoError(t, e.stopServing(ctx))
	require.True(t, next().Leaving, "while the rest of the edge ends")
	end()
	<-done
	require.True(t, next().Leaving, "the farewell")
	require.Empty(t, reports)
}
