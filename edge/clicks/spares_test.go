package clicks_test

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpares_NoClickIsDroppedWhileTheDiskTakesItsTimeForTheNextSegments(t *testing.T) {
	const shards = 4
	cfg := config(t.TempDir())
	cfg.Shards = shards
	made, slow := atomic.Int32{}, make(chan struct{})
	cfg.SetAllocate(func(f *os.File, size int64) error {
		if made.Add(1) > 1+shards {
			<-slow
		}
		return f.Truncate(size)
	})
	j := open(t, cfg)
	require.Eventually(t, func() bool { return j.Spares() == shards }, 60*time.Second, time.Millisecond)
	const records = (64<<10 - 128) / 56 // of a segment
	for range (1 + shards) * records {
		require.True(t, j.TryRecord(1, []byte("abc1234"), 1))
	}
	require.False(t, j.TryRecord(1, []byte("abc1234"), 1))
	close(slow)
	more := func() bool { // what was taken counts for a second
		recordAll(t, j, "abc1234", 2*shards*records)
		for end := time.Now().Add(2 * time.Second); j.Spares() <= shards && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		return j.Spares() > shards
	}
	for tries := 0; !more(); tries++ {
		require.Less(t, tries, 10, "as many come as are taken")
	}
}

func TestSpares_SparesTakeNoMoreThanTheirShareOfTheQuota(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.MaxBytes = 20 * cfg.SegmentBytes
	cfg.Shards = 8
	j := open(t, cfg)
	require.Eventually(t, func() bool { return j.Spares() == 1 }, 60*time.Second, time.Millisecond)
	recordAll(t, j, "abc1234", 10_000)
	require.LessOrEqual(t, j.Spares(), 1)
}
