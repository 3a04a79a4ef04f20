//go:build linux

package openloop_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/bench"
	"waypost/bench/openloop"
)

func request(dst []byte, _ int) []byte {
	return append(dst, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"...)
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestRun_SendsEveryRequest(t *testing.T) {
	var count atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write([]byte(strings.Repeat("x", 1500)))
	})
	start := time.Now()
	r, err := openloop.Run(t.Context(), openloop.Config{
		Addr: addr, Rate: 1000, Connections: 8, Duration: 500 * time.Millisecond, Status: 302,
		Request: request, Drain: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, r.Waits, 500)
	require.EqualValues(t, 8+500, count.Load(), "one for each connection goes before")
	require.GreaterOrEqual(t, time.Since(start), 499*time.Millisecond, "not faster than it should")
}

// A server that does not answer for a while delays all requests of that time, though
// only two connections could carry one.
func TestRun_ChargesAStallToAllRequestsOfItsTime(t *testing.T) {
	const (
		stall       = 400 * time.Millisecond
		rate        = 1000.0
		connections = 2
	)
	var (
		mu    sync.Mutex
		begun time.Time
		first int
	)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		first++
		if first <= connections { // which are not counted
			mu.Unlock()
			w.WriteHeader(http.StatusFound)
			return
		}
		if begun.IsZero() {
			begun = time.Now()
		}
		over := begun.Add(stall)
		mu.Unlock()
		select {
		case <-time.After(time.Until(over)):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusFound)
	})
	r, err := openloop.Run(t.Context(), openloop.Config{
		Addr: addr, Rate: rate, Connections: connections, Duration: time.Second, Status: 302, Request: request, Drain: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, r.Waits, 1000)
	// 400 of 1,000 came during the stall; a closed loop would have seen two wait.
	require.GreaterOrEqual(t, bench.Quantile(r.Waits, 0.999), stall-20*time.Millisecond)
	require.GreaterOrEqual(t, bench.Quantile(r.Waits, 0.75), 100*time.Millisecond)
}

func TestRun_FailsForAWrongAnswer(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"another status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"no length": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusFound)
			w.(http.Flusher).Flush()
		},
		"more than fits": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusFound)
			_, _ = w.Write(make([]byte, 1<<20))
		},
		"a connection that ends": func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openloop.Run(t.Context(), openloop.Config{
				Addr: serve(t, handler), Rate: 100, Connections: 1, Duration: 50 * time.Millisecond, Drain: 10 * time.Second,
				Status: 302, Request: request,
			})
			require.Error(t, err)
		})
	}
}

func TestRun_FailsWithoutAnAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	c := openloop.Config{
		Addr: ln.Addr().String(), Rate: 100, Connections: 1, Duration: 50 * time.Millisecond, Drain: 50 * time.Millisecond,
		Status: 302, Request: request,
	}
	_, err = openloop.Run(t.Context(), c)
	require.ErrorContains(t, err, "not come")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = openloop.Run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRun_RefusesWhatCannotBeMeasured(t *testing.T) {
	for name, c := range map[string]openloop.Config{
		"no requests":          {Addr: "127.0.0.1:1", Connections: 1, Duration: time.Second},
		"too many requests":    {Addr: "127.0.0.1:1", Connections: 1, Duration: time.Hour, Rate: 1e6},
		"no connections":       {Addr: "127.0.0.1:1", Duration: time.Second, Rate: 10},
		"no address":           {Connections: 1, Duration: time.Second, Rate: 10},
		"nobody who listens":   {Addr: "127.0.0.1:1", Connections: 1, Duration: time.Second, Rate: 10},
		"another address kind": {Addr: "[::1]:1", Connections: 1, Duration: time.Second, Rate: 10},
	} {
		t.Run(name, func(t *testing.T) {
			c.Request, c.Status = request, 302
			_, err := openloop.Run(t.Context(), c)
			require.Error(t, err)
		})
	}
}
