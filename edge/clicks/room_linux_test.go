package clicks_test

import (
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever waits for a disk keeps the processor of the runtime that it has for a while.
func TestABatchThatWaitsForTheDiskLeavesRedirectsAProcessor(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	if runtime.NumCPU() > 2 {
		t.Skip("there are other processors")
	}
	own := func() bool { return runtime.GOMAXPROCS(0) == runtime.NumCPU() }
	for end := time.Now().Add(60 * time.Second); !own(); time.Sleep(time.Millisecond) { // room of an earlier test
		if time.Now().After(end) {
			t.Skip("a quota leaves less than the processors that there are")
		}
	}
	control, cfg := newControlPlane(t), config(t.TempDir())
	cfg.FlushInterval, cfg.Shards = time.Millisecond, 1
	var synced, alone atomic.Int64
	cfg.SetSync(func(f *os.File) error {
		if strings.Contains(f.Name(), "batch-") {
			synced.Add(1)
			for end := time.Now().Add(20 * time.Second); own(); time.Sleep(time.Millisecond) { // it comes when it can
				if time.Now().After(end) {
					alone.Add(1)
					break
				}
			}
		}
		return f.Sync()
	})
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	for _, sum := range []uint64{10, 20} {
		recordAll(t, j, "abcd", 10)
		control.await(t, "all clicks are counted", func() bool { _, counted := control.totals(); return counted == sum })
		require.Eventually(t, own, 60*time.Second, time.Millisecond, "it is for a moment only")
	}
	require.Greater(t, synced.Load(), int64(1)) // at the first one a segment is made, which has room, too
	require.Zero(t, alone.Load())
}
