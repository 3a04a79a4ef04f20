//go:build !race

// Without the race detector only, because it makes goroutines hold their locks for
// longer, so that others wait that would not.

package server_test

import (
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/edge/server"
)

// TestRedirectsWaitForNoLock asks on many connections at once, with journaled clicks, and
// looks for locks that other goroutines have waited for while a redirect held them.
// Twenty thousand redirects would meet at any lock that is held for more than a few
// instructions. Allowed are:
//
//   - the journal's background work, which may wait for its own locks, because no
//     redirect takes them;
//   - locks of the runtime, such as the scheduler's;
//   - the lock of a shard, where there are no more shards than processors, and flushes
//     take segments away. A click waits only if no shard is free: when a holder has lost
//     its processor, or waits for the disk.
func TestRedirectsWaitForNoLock(t *testing.T) {
	const shardLock = "waypost/edge/clicks.(*shard).recordAndUnlock"
	for name, c := range map[string]struct {
		shards  int
		flush   time.Duration
		allowed string
	}{
		"with as many shards as there are at most": {8, time.Hour, ""},
		"with few shards that are flushed":         {2, 50 * time.Millisecond, shardLock},
	} {
		t.Run(name, func(t *testing.T) {
			conns := redirectedByJournal(t, c.shards, c.flush)
			old := runtime.SetMutexProfileFraction(1)
			defer runtime.SetMutexProfileFraction(old)
			before := waits()
			askOnAll(t, conns, 400) // 25,600 redirects
			for stack, n := range waits() {
				if c.allowed == "" || !strings.Contains(stack, c.allowed) {
					require.Equal(t, before[stack], n, stack)
				}
			}
		})
	}
}

// redirectedByJournal returns connections to an edge that journals clicks.
func redirectedByJournal(t *testing.T, shards int, flush time.Duration) (conns []net.Conn) {
	t.Helper()
	dir := t.TempDir()
	journal, err := clicks.Open(clicks.Config{Dir: dir, Node: "n1", Shards: shards, FlushInterval: flush, SyncInterval: flush})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, journal.Close()) })
	require.Eventually(t, func() bool {
		segments, err := filepath.Glob(filepath.Join(dir, "segment-*"))
		return err == nil && len(segments) >= shards
	}, waitLimit, pollEvery)
	_, addr := serve(t, server.Config{
		Links: newReplica(t), Clicks: journal, Sealer: audience.NewSealer(oneSalt{}),
		MaxStaleness: time.Second, Staleness: func() time.Duration { return time.Minute },
	})
	for range 64 {
		conn := dial(t, addr)
		requireServed(t, conn, goodRequest)
		conns = append(conns, conn)
	}
	return conns
}

// askOnAll follows links several times on each connection.
func askOnAll(t *testing.T, conns []net.Conn, times int) {
	t.Helper()
	var requests, answers [][]byte
	for path, status := range map[string]string{"/found302": "302", "/found301": "301", "/queried1?x=y": "302", "/found307": "307"} {
		request := []byte("GET " + path + " HTTP/1.1\r\nHost: wayp.example\r\nUser-Agent: Mozilla/5.0\r\nReferer: https://example.org/a\r\n\r\n")
		answer := make([]byte, 8192)
		answer = answer[:exchange(t, conns[0], request, answer, 0)]
		require.Equal(t, status, string(answer[9:12]))
		requests, answers = append(requests, request), append(answers, answer)
	}
	done := make(chan error, len(conns))
	for _, conn := range conns {
		go func() {
			answer := make([]byte, 8192)
			for i := range times {
				if _, err := conn.Write(requests[i%len(requests)]); err != nil {
					done <- err
					return
				}
				if _, err := io.ReadFull(conn, answer[:len(answers[i%len(answers)])]); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range conns {
		require.NoError(t, <-done)
	}
}

// waits counts by stack how often goroutines have waited for a lock that the answering of
// a request held.
func waits() map[string]int64 {
	records := make([]runtime.BlockProfileRecord, 10_000)
	n, _ := runtime.MutexProfile(records)
	counts := map[string]int64{}
	for _, r := range records[:n] {
		var stack []string
		answering := false
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			stack = append(stack, f.Function)
			answering = answering || strings.HasPrefix(f.Function, "waypost/edge/server.")
		}
		if answering && strings.HasPrefix(stack[0], "sync.") {
			counts[strings.Join(stack, "\n")] += r.Count
		}
	}
	return counts
}
