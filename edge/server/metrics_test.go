package server_test

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/server"
	"waypost/internal/logtest"
)

func TestEveryAnswerIsCountedByItsStatus(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serve(t, server.Config{Metrics: registry})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for _, path := range []string{
				"/found302", "/found302", "/found301", "/unknown1", "/nocode!",
				"/deleted1", "/failing1", "/badCRLF1", "/health", "/found302+",
			} {
				get(t, addr, path, "wayp.example")
			}
			say(t, addr, "POST / HTTP/1.1\r\nHost: a\r\n\r\n")
		})
	}
	clients.Wait()
	require.Equal(t, map[string]float64{
		"waypost_redirects_total 200":   8,
		"waypost_redirects_total 301":   8,
		"waypost_redirects_total 302":   16,
		"waypost_redirects_total 303":   0,
		"waypost_redirects_total 307":   0,
		"waypost_redirects_total 308":   0,
		"waypost_redirects_total 400":   0,
		"waypost_redirects_total 403":   0,
		"waypost_redirects_total 404":   16,
		"waypost_redirects_total 405":   8,
		"waypost_redirects_total 408":   0,
		"waypost_redirects_total 410":   8,
		"waypost_redirects_total 413":   0,
		"waypost_redirects_total 414":   0,
		"waypost_redirects_total 429":   0,
		"waypost_redirects_total 431":   0,
		"waypost_redirects_total 451":   0,
		"waypost_redirects_total 500":   0,
		"waypost_redirects_total 503":   16,
		"waypost_redirect_errors_total": 16,
	}, gather(t, registry, "waypost_redirects_total", "waypost_redirect_errors_total"))
}

func TestOneRequestInSixteenIsTimed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serve(t, server.Config{Metrics: registry})
	for range 16 { // twice on the fast path, and twice on that of the handler
		for _, path := range []string{"/found302", "/unknown1", "/found302+", "/failing1"} {
			get(t, addr, path, "wayp.example")
		}
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	timed := uint64(0)
	for _, f := range families {
		if f.GetName() != "waypost_redirect_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		require.Positive(t, h.GetSampleSum())
		for _, b := range h.GetBucket() {
			timed = b.GetCumulativeCount()
		}
	}
	require.EqualValues(t, 4, timed, "by the last of the buckets")
}

// gather returns the values of the named metrics, by name and label.
func gather(t *testing.T, registry *prometheus.Registry, names ...string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

func TestOpenConnectionsAreCountedInAndOut(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s, addr := serve(t, server.Config{Metrics: registry})
	open := func() float64 {
		return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"]
	}
	get(t, addr, "/found302", "a")
	get(t, addr, "/found302", "a")
	require.EqualValues(t, 2, open(), "both are kept alive")
	require.NoError(t, s.Shutdown(t.Context()))
	require.Zero(t, open())
}

func TestFailuresAreLoggedOncePerSecondWithoutWhoAsked(t *testing.T) {
	var log logtest.Buffer
	_, addr := serve(t, server.Config{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Clock:  func() time.Time { return time.Unix(1_700_000_000, 0) },
	})
	for range 5 {
		get(t, addr, "/failing1", "wayp.example", "X-Secret: 1")
	}
	conn := dial(t, addr)
	_, err := io.WriteString(conn, "GET /secret HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(conn) // it is closed only after what is logged about it
	require.NoError(t, err)

	require.Equal(t, 1, strings.Count(log.String(), errStore.Error()))
	require.Contains(t, log.String(), "error when serving connection")
	require.NotContains(t, log.String(), "127.0.0.1")
	require.NotContains(t, strings.ToLower(log.String()), "secret")
}
