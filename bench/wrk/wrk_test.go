package wrk_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/bench/wrk"
)

func TestParse(t *testing.T) {
	const around = "Running 1s test @ http://127.0.0.1:1/\n  2 threads and 4 connections\n"
	got, err := wrk.Parse([]byte(around + "Requests/sec:  10.00\nvisited requests=2000 microseconds=500000 p50=40 p99=90 connect=1 read=2 write=3 timeout=4 status=5\n"))
	require.NoError(t, err)
	require.Equal(t, wrk.Result{
		Requests: 2000, Failed: 5, Broken: 10, Duration: 500 * time.Millisecond,
		P50: 40 * time.Microsecond, P99: 90 * time.Microsecond,
	}, got)
	require.InDelta(t, 4000, got.PerSecond(), 0.1)

	for name, out := range map[string]string{
		"nothing":             "",
		"wrk's own lines":     around,
		"a count is missing":  "visited requests=2000 microseconds=500000\n",
		"a count is no count": "visited requests=2e3 microseconds=1 p50=1 p99=2 connect=0 read=0 write=0 timeout=0 status=0\n",
		"a negative count":    "visited requests=-1 microseconds=1 p50=1 p99=2 connect=0 read=0 write=0 timeout=0 status=0\n",
		"no time has passed":  "visited requests=1 microseconds=0 p50=1 p99=2 connect=0 read=0 write=0 timeout=0 status=0\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wrk.Parse([]byte(out))
			require.Error(t, err)
		})
	}
}

func TestRun_VisitsEveryCode(t *testing.T) {
	_, err := exec.LookPath("wrk")
	require.NoError(t, err, "deploy/install-missing.sh wrk installs it")
	var mu sync.Mutex
	seen := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path+" "+r.Host] = true
		if r.URL.Path == "/ccc" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	all := map[string]bool{"/aaa h": true, "/bbb h": true, "/ccc h": true}
	visited := func() bool { mu.Lock(); defer mu.Unlock(); return maps.Equal(all, seen) }
	var got wrk.Result
	for long := time.Second; !visited(); long *= 4 { // a second, unless the machine stands still
		require.Less(t, long, time.Minute)
		got, err = wrk.Run(t.Context(), wrk.Config{
			Addr: strings.TrimPrefix(server.URL, "http://"), Dir: t.TempDir(), Codes: []byte("aaabbbccc"), CodeLength: 3,
			Head: "GET /", Tail: " HTTP/1.1\r\nHost: h\r\n\r\n", Connections: 4, Threads: 2, Duration: long,
		})
		require.NoError(t, err)
	}
	require.InDelta(t, got.Requests/2, got.Failed, float64(got.Requests)/2, "every code of one thread, every second of the other")
	require.Positive(t, got.Failed)
	require.Zero(t, got.Broken)
}

func TestRun_NeedsWholeSeconds(t *testing.T) {
	_, err := wrk.Run(t.Context(), wrk.Config{Duration: 1500 * time.Millisecond})
	require.ErrorContains(t, err, "whole seconds")
}
