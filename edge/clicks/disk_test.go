package clicks_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
	"waypost/internal/logtest"
)

// recordAll records n clicks, waiting for room.
func recordAll(t *testing.T, j *clicks.Journal, code string, n int) {
	t.Helper()
	late := time.Now().Add(60 * time.Second)
	for range n {
		for !j.TryRecord(1, []byte(code), 1) {
			require.True(t, time.Now().Before(late), "there is no room for clicks")
		}
	}
}

// switchable fails with an error while it is on.
type switchable struct{ err atomic.Pointer[error] }

func (s *switchable) on(err error) { s.err.Store(&err) }
func (s *switchable) off()         { s.err.Store(nil) }

func (s *switchable) fail() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

// The newest batch of an earlier boot is removed after a sync of the directory.
func TestCatalog_SyncForTheEndOfABootThatHangsDelaysNothing(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	old := open(t, config(dir))
	record(t, old, "abcd", 1)
	require.NoError(t, old.Close())

	cfg := config(dir)
	cfg.FlushInterval, cfg.SegmentBytes = time.Millisecond, 8<<10
	var armed atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	cfg.SetSync(func(f *os.File) error {
		if f.Name() == dir && armed.CompareAndSwap(true, false) {
			close(reached)
			<-release
		}
		return f.Sync()
	})
	j := open(t, cfg)
	require.Eventually(t, func() bool { return j.Spares() == cfg.Shards }, 60*time.Second, time.Millisecond, "no segment is being made")
	armed.Store(true)
	shipInBackground(t, j, control.shipping())
	resume := sync.OnceFunc(func() { close(release) })
	t.Cleanup(resume)
	select {
	case <-reached:
	case <-time.After(time.Minute):
		require.FailNow(t, "the directory is not synced")
	}
	const more = 2_000 // of some segments
	recordAll(t, j, "efgh", more)
	require.Eventually(t, func() bool { return len(files(t, dir, "batch-00000002")) > 0 }, 60*time.Second, time.Millisecond)
	require.NotEmpty(t, files(t, dir, "batch-00000001"), "it is removed after the sync")

	resume()
	control.awaitClicks(t, 1+more)
	require.Eventually(t, func() bool { return len(files(t, dir, "batch-00000001")) == 0 }, 60*time.Second, time.Millisecond)
}

// The next batch is made while the acknowledged one gets its other name.
func TestCatalog_SlowAcknowledgementDelaysNothingAndLeavesNoBatch(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	cfg := config(dir)
	cfg.FlushInterval, cfg.SegmentBytes = time.Millisecond, 8<<10
	reached, release := make(chan struct{}), make(chan struct{})
	hang := sync.OnceFunc(func() {
		close(reached)
		<-release
	})
	cfg.SetRename(func(from, to string) error {
		if strings.HasSuffix(to, ".shipped") {
			hang()
		}
		return os.Rename(from, to)
	})
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	resume := sync.OnceFunc(func() { close(release) })
	t.Cleanup(resume)
	recordAll(t, j, "abcd", 1)
	select {
	case <-reached:
	case <-time.After(time.Minute):
		require.FailNow(t, "no batch is acknowledged")
	}
	const more = 2_000 // of some segments
	recordAll(t, j, "efgh", more)
	require.Eventually(t, func() bool { return len(files(t, dir, "batch")) > 1 }, 60*time.Second, time.Millisecond)

	resume()
	control.awaitClicks(t, 1+more)
	require.Eventually(t, func() bool { return len(files(t, dir, "batch")) == 1 }, 60*time.Second, time.Millisecond, "the newest is kept, for its checkpoint")
}

func TestJournal_FullDiskAtTheStartFailsNothing(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	var full switchable
	full.on(syscall.ENOSPC)
	cfg := config(dir)
	cfg.SetAllocate(func(f *os.File, size int64) error {
		if err := full.fail(); err != nil {
			return err
		}
		return f.Truncate(size)
	})
	j := open(t, cfg)
	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1})
	require.EqualValues(t, 1, j.Dropped())
	require.Eventually(t, func() bool { return len(files(t, dir, "")) == 0 }, 60*time.Second, time.Millisecond, "nothing half made is left")
	full.off()
	recordAll(t, j, "abcd", 5)
	shipAll(t, j, control)
	_, sum := control.totals()
	require.EqualValues(t, 5, sum)
}

func TestJournal_DiskTooFullForABatchGetsTheSpareSegmentBack(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	var full switchable
	cfg := config(dir)
	cfg.FlushInterval, cfg.Shards = time.Millisecond, 1 // one segment that clicks go to
	cfg.SetSync(func(f *os.File) error {
		if strings.Contains(f.Name(), "batch-") {
			if err := full.fail(); err != nil {
				return err
			}
		}
		return f.Sync()
	})
	full.on(syscall.ENOSPC)
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	recordAll(t, j, "abcd", 10)
	require.Eventually(t, func() bool { return len(files(t, dir, "segment")) == 1 }, 60*time.Second, time.Millisecond)
	require.Empty(t, files(t, dir, "batch"))
	recordAll(t, j, "abcd", 10)
	full.off()
	control.await(t, "all clicks are counted", func() bool { _, sum := control.totals(); return sum == 20 })
	require.Eventually(t, func() bool { return len(files(t, dir, "segment")) >= 2 }, 60*time.Second, time.Millisecond, "there are spare ones again")
	require.Zero(t, j.Dropped())
}

// The keeper takes the spare segments of a maker that has nothing to do, and waits.
func TestJournal_AfterTheDiskWasFullForAWhileSegmentsAreMadeAgain(t *testing.T) {
	control, dir, log := newControlPlane(t), t.TempDir(), &logtest.Buffer{}
	var full switchable
	cfg := config(dir)
	cfg.FlushInterval, cfg.SegmentBytes, cfg.MaxBytes, cfg.Shards, cfg.Logger = time.Millisecond, 8<<10, 64<<20, 1, log.Logger()
	cfg.SetSync(func(f *os.File) error {
		if strings.Contains(f.Name(), "batch-") {
			if err := full.fail(); err != nil {
				return err
			}
		}
		return f.Sync()
	})
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	recordAll(t, j, "abcd", 10)
	control.awaitClicks(t, 10)
	require.Eventually(t, func() bool { return j.Spares() == cfg.Shards }, 60*time.Second, time.Millisecond)
	spares := len(files(t, dir, "segment"))
	full.on(syscall.ENOSPC)
	recordAll(t, j, "abcd", 10)
	require.Eventually(t, func() bool { return len(files(t, dir, "segment")) < spares }, 60*time.Second, time.Millisecond)
	full.off()
	control.awaitClicks(t, 20)
	recordAll(t, j, "abcd", 2_000) // of some segments
	control.awaitClicks(t, 2_020)
}

// While batches wait for the control plane, clicks leave the segments only by compaction.
func TestJournal_AfterTheDiskWasFullDuringAnOutageNoClickIsDropped(t *testing.T) {
	control, dir, log := newControlPlane(t), t.TempDir(), &logtest.Buffer{}
	var full switchable
	cfg := config(dir)
	cfg.FlushInterval, cfg.SegmentBytes, cfg.MaxBytes, cfg.Shards, cfg.Logger = time.Millisecond, 8<<10, 64<<20, 1, log.Logger()
	cfg.SetSync(func(f *os.File) error {
		if strings.Contains(f.Name(), "compacted-") {
			if err := full.fail(); err != nil {
				return err
			}
		}
		return f.Sync()
	})
	j := open(t, cfg)
	recorded := 0
	recordUntil := func(done func() bool) {
		late := time.Now().Add(60 * time.Second)
		for !done() {
			require.True(t, time.Now().Before(late), "after %d clicks:\n%s", recorded, log.String())
			if j.TryRecord(1, []byte("abcd"), 1) {
				recorded++
			}
		}
	}
	recordUntil(func() bool { return len(files(t, dir, "compacted")) > 0 })
	batches := len(files(t, dir, "batch"))
	full.on(syscall.EDQUOT) // which counts as full, too
	recordUntil(func() bool { return strings.Contains(log.String(), "cannot make a batch of clicks") })
	full.off()

	const more = 2_000 // of some segments
	recordAll(t, j, "abcd", more)
	require.Len(t, files(t, dir, "batch"), batches, "compaction alone went on")
	shipAll(t, j, control)
	_, sum := control.totals()
	require.EqualValues(t, recorded+more, sum)
}

func TestJournal_SyncThatFailsIsNotTriedAgain(t *testing.T) {
	control, registry := newControlPlane(t), prometheus.NewPedanticRegistry()
	var (
		mu     sync.Mutex
		synced = map[string]int{}
		bad    string
	)
	failed := make(chan struct{})
	cfg := config(t.TempDir())
	cfg.SyncInterval, cfg.Metrics = time.Millisecond, registry
	cfg.SetSync(func(f *os.File) error {
		if !strings.Contains(f.Name(), "segment-") {
			return f.Sync()
		}
		mu.Lock()
		defer mu.Unlock()
		synced[f.Name()]++
		if bad == "" && synced[f.Name()] == 2 { // the first was when it was made
			bad = f.Name()
			close(failed)
			return syscall.EIO
		}
		return f.Sync()
	})
	j := open(t, cfg)
	record(t, j, "abcd", 1)
	<-failed
	require.Eventually(t, func() bool { return metric(t, registry, "waypost_clicks_disk_errors_total") == 1 }, 60*time.Second, time.Millisecond)
	recordAll(t, j, "abcd", 10)
	require.Eventually(t, func() bool { // it goes on with another
		mu.Lock()
		defer mu.Unlock()
		for name, times := range synced {
			if name != bad && times > 1 {
				return true
			}
		}
		return false
	}, 60*time.Second, time.Millisecond)
	mu.Lock()
	require.Equal(t, 2, synced[bad])
	mu.Unlock()
	shipAll(t, j, control)
	_, sum := control.totals()
	require.EqualValues(t, 11, sum)
}

// Writing to mapped memory that no disk is behind raises a signal.
func TestJournal_MemoryWithoutADiskBehindItEndsNothing(t *testing.T) {
	control, registry, dir := newControlPlane(t), prometheus.NewPedanticRegistry(), t.TempDir()
	cfg := config(dir)
	cfg.Shards, cfg.Metrics = 1, registry
	j := open(t, cfg)
	record(t, j, "abcd", 10)
	require.NoError(t, os.Truncate(filepath.Join(dir, files(t, dir, "segment")[0]), 0))
	recordAll(t, j, "efgh", 10)
	shipAll(t, j, control)
	got, _ := control.totals()
	require.Equal(t, map[string]uint64{"1/efgh": 10}, got)
	require.Positive(t, metric(t, registry, "waypost_clicks_disk_errors_total"))
	require.Len(t, files(t, filepath.Join(dir, "quarantine"), "segment"), 1)
}

func TestJournal_DirectoryThatCannotBeListedHidesNoOtherMetric(t *testing.T) {
	cfg := config(filepath.Join(t.TempDir(), "clicks"))
	registry := prometheus.NewRegistry()
	cfg.Metrics = registry
	j := open(t, cfg)
	record(t, j, "abc", 3)
	before := metric(t, registry, "waypost_clicks_disk_errors_total")

	require.NoError(t, os.Rename(cfg.Dir, cfg.Dir+".away"))
	const times = 100 // more than the journal's own work can fail meanwhile
	for range times - 1 {
		_, err := registry.Gather()
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	families, err := registry.Gather()
	require.NoError(t, os.Rename(cfg.Dir+".away", cfg.Dir))
	require.ErrorIs(t, err, fs.ErrNotExist)
	values := map[string]float64{}
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	require.NotContains(t, values, "waypost_clicks_journal_bytes")
	require.Equal(t, 3., values["waypost_clicks_recorded_total"])
	require.GreaterOrEqual(t, values["waypost_clicks_disk_errors_total"], before+times, "so that an alert fires")
	require.Positive(t, metric(t, registry, "waypost_clicks_journal_bytes"), "the directory is back")
}
