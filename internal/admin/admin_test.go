package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/internal/admin"
	"waypost/internal/listener"
)

func TestListener_ReportsReadiness(t *testing.T) {
	ln, err := listener.Open(t.Context(), "127.0.0.1:0", "--admin-addr")
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "waypost_test", Help: "A test."}))
	ready := false
	operators := admin.Listener{
		Addr:    "edge.example.com:9090",
		Ready:   func(context.Context) (any, bool) { return map[string]bool{"ready": ready}, ready },
		Metrics: registry, Logger: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- operators.Serve(ctx, ln) }()
	at := "http://" + ln.Addr().String()

	require.Equal(t, answer{200, "{\"status\":\"alive\"}\n"}, get(t, at+"/livez"))
	require.Equal(t, answer{503, "{\"ready\":false}\n"}, get(t, at+"/readyz"))
	ready = true
	require.Equal(t, answer{200, "{\"ready\":true}\n"}, get(t, at+"/readyz"))
	require.Contains(t, get(t, at+"/metrics").body, "waypost_test 0\n")
	require.Equal(t, 200, get(t, at+"/debug/pprof/").status)
	require.Equal(t, 404, get(t, at+"/other").status)
	port := ln.Addr().(*net.TCPAddr).Port
	for host, status := range map[string]int{
		"LOCALHOST": 200, "[::1]": 200, "10.1.2.3": 200, "waypost-edge": 200, "edge.example.com": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
	} {
		got := getAs(t, at+"/debug/pprof/cmdline", fmt.Sprintf("%s:%d", host, port))
		require.Equal(t, status, got.status, host)
	}

	cancel()
	require.NoError(t, <-done)
	again, err := listener.Open(t.Context(), ln.Addr().String(), "--admin-addr")
	require.NoError(t, err, "the address is free again")
	require.NoError(t, again.Close())
}

func TestListener_ExportsWhatCanBeRead(t *testing.T) {
	ln, err := listener.Open(t.Context(), "127.0.0.1:0", "--admin-addr")
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "waypost_test", Help: "A test."}), unreadable{})
	var log bytes.Buffer
	operators := admin.Listener{Metrics: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- operators.Serve(ctx, ln) }()
	got := get(t, "http://"+ln.Addr().String()+"/metrics")
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, 200, got.status)
	require.Contains(t, got.body, "waypost_test 0\n")
	require.NotContains(t, got.body, "waypost_unreadable")
	require.Contains(t, log.String(), "the directory is gone")
}

// unreadable is a collector whose number cannot be read.
type unreadable struct{}

var unreadableDesc = prometheus.NewDesc("waypost_unreadable", "A test.", nil, nil)

func (unreadable) Describe(ch chan<- *prometheus.Desc) { ch <- unreadableDesc }

func (unreadable) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(unreadableDesc, errors.New("the directory is gone"))
}

func TestStatus_IsReadAsWritten(t *testing.T) {
	dir := t.TempDir()
	_, err := admin.ReadStatus(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	want := admin.Status{PID: 7, Role: "edge", Node: "n", Region: "r", Addr: "127.0.0.1:1", AdminAddr: "127.0.0.1:2"}
	require.NoError(t, admin.WriteStatus(dir, want))
	got, err := admin.ReadStatus(dir)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

type answer struct {
	status int
	body   string
}

func get(t *testing.T, url string) answer {
	t.Helper()
	return getAs(t, url, "")
}

// getAs sends a request with a Host header of its own.
func getAs(t *testing.T, url, host string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	req.Host, req.Close = host, true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return answer{resp.StatusCode, string(body)}
}
