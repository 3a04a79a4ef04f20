package replication_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// counters returns the sum of each metric.
func counters(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			sums[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sums
}

// Every follower receives every batch, and each is encoded once. WAYPOST_FOLLOWERS sets
// their number.
func TestABatchIsEncodedOnceForAllFollowers(t *testing.T) {
	followers, batches := 40, 100
	if text := os.Getenv("WAYPOST_FOLLOWERS"); text != "" {
		var err error
		followers, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	source, reg := replicationtest.NewSource(), prometheus.NewRegistry()
	server, err := replication.NewServer(replication.ServerConfig{
		Source: source, Logger: slog.New(slog.DiscardHandler), Metrics: reg,
		ServerLimits: replication.ServerLimits{RingBytes: 8 << 20, WriteTimeout: time.Minute},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan struct{})
	go func() { defer close(ran); _ = server.Run(ctx) }() // it ends with ctx
	web := httptest.NewServer(http.HandlerFunc(server.Stream))
	await := func(what string, holds func(map[string]float64) bool) map[string]float64 {
		t.Helper()
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {
			if m := counters(t, reg); holds(m) {
				return m
			}
			require.True(t, time.Now().Before(end), "%s: %v", what, counters(t, reg))
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := heap()
	head, err := source.Head(t.Context())
	require.NoError(t, err)
	var readers sync.WaitGroup
	var received atomic.Int64
	conns := make([]net.Conn, followers)
	for i := range conns { // bare connections: what is measured is the server's
		conns[i], err = (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(conns[i], "GET %s?after=%s HTTP/1.1\r\nHost: source\r\n\r\n", replication.PathStream, head.Position)
		require.NoError(t, err)
		readers.Go(func() {
			n, _ := io.Copy(io.Discard, bufio.NewReaderSize(conns[i], 512)) // until it is closed
			received.Add(n)
		})
	}
	await("connected", func(m map[string]float64) bool { return m["waypost_replication_followers"] == float64(followers) })
	connected := heap()
	var began, ended syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &began))
	for i := range batches {
		source.Commit(replicationtest.Link(fmt.Sprintf("code%d", i), "https://example.com/some/longer/path?with=a&query"))
		await("encoded", func(m map[string]float64) bool { return m["waypost_replication_frames_encoded_total"] >= float64(i+1) })
	}
	m := await("sent to all", func(m map[string]float64) bool {
		return m["waypost_replication_frames_sent_total/batch"] >= float64(followers*batches)
	})
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &ended))
	require.EqualValues(t, batches, m["waypost_replication_frames_encoded_total"])
	require.EqualValues(t, followers*batches, m["waypost_replication_frames_sent_total/batch"])
	each := (float64(connected) - float64(before)) / float64(followers)
	require.Less(t, each, 256.0*1024, "of memory, with both ends of the connection")
	cpu := func(u *syscall.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }
	t.Logf("%d followers: %v frames encoded, %v sent; %.0f KiB of memory each, %s of CPU of both ends", followers,
		m["waypost_replication_frames_encoded_total"], m["waypost_replication_frames_sent_total/batch"], each/1024, cpu(&ended)-cpu(&began))
	cancel()
	<-ran
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	readers.Wait()
	require.Positive(t, received.Load())
	require.NoError(t, server.Drain(context.WithoutCancel(t.Context())))
	web.Close()
}
