package clicks_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
)

func TestJournal_ClicksAreAddedUpAndShipped(t *testing.T) {
	control, registry := newControlPlane(t), prometheus.NewPedanticRegistry()
	cfg := config(t.TempDir())
	cfg.FlushInterval, cfg.Metrics = 5*time.Millisecond, registry
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())

	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 30})
	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 50})
	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 40, Bot: true})
	j.Record(waypost.Click{Domain: 7, Code: []byte("abcd"), At: 20})
	j.Record(waypost.Click{Domain: 1, Code: []byte(strings.Repeat("x", waypost.MaxCodeLength)), At: 10})
	want := map[string]uint64{"1/abcd": 3, "7/abcd": 1, "1/" + strings.Repeat("x", waypost.MaxCodeLength): 1}
	control.await(t, "all clicks are counted", func() bool { got, sum := control.totals(); return sum == 5 && len(got) == len(want) })
	got, _ := control.totals()
	require.Equal(t, want, got)
	require.Equal(t, map[string]int64{"1/abcd": 50, "7/abcd": 20, "1/" + strings.Repeat("x", waypost.MaxCodeLength): 10}, control.last)
	require.Equal(t, map[string]uint64{"1/abcd": 1}, control.bots)

	shipAll(t, j, control)
	require.EqualValues(t, 5, metric(t, registry, "waypost_clicks_recorded_total"))
	require.EqualValues(t, 5, metric(t, registry, "waypost_clicks_shipped_total"))
	require.Zero(t, metric(t, registry, "waypost_clicks_waiting"))
	require.Zero(t, metric(t, registry, "waypost_clicks_dropped_total"))
}

func TestJournal_IsEmptyOnceAllIsShipped(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	for range 3 {
		j := open(t, config(dir))
		record(t, j, "abcd", 100)
		shipAll(t, j, control)
		require.Empty(t, files(t, dir, "segment"))
		require.Len(t, files(t, dir, "batch"), 1, "the newest batch stays until the next boot")
	}
	j := open(t, config(dir))
	shipAll(t, j, control)
	require.Empty(t, files(t, dir, ""))
	_, sum := control.totals()
	require.EqualValues(t, 300, sum)
}

func TestJournal_RecordingDoesNotAllocate(t *testing.T) {
	j := open(t, config(t.TempDir()))
	code := []byte("abc1234")
	require.Zero(t, testing.AllocsPerRun(300, func() {
		j.Record(waypost.Click{Domain: 1, Code: code, At: 1_700_000_000_000, Address: [16]byte{1}, Agent: agent, Referrer: referrer})
	}))
}

// The race detector does not see mapped memory: that no one writes over another's
// record is seen by the checksums and the sums.
func TestJournal_ManyRecordAtTheSameTime(t *testing.T) {
	control := newControlPlane(t)
	cfg := config(t.TempDir())
	cfg.FlushInterval, cfg.SyncInterval, cfg.SegmentBytes = time.Millisecond, time.Millisecond, 16<<10
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	const recorders, each = 8, 3000
	var work sync.WaitGroup
	for r := range recorders {
		work.Go(func() {
			code := fmt.Appendf(nil, "code%d%s", r, strings.Repeat("x", r))
			for i := range each {
				for !j.TryRecord(waypost.DomainID(i%2+1), code, int64(i)) {
					runtime.Gosched() // a segment is being made
				}
			}
		})
	}
	work.Wait()
	require.NoError(t, j.Seal())
	control.await(t, "all clicks are counted", func() bool { _, sum := control.totals(); return sum == recorders*each })
	got, _ := control.totals()
	require.Len(t, got, 2*recorders)
	for link, n := range got {
		require.EqualValues(t, each/2, n, link)
	}
}

func TestJournal_WhatIsRecordedAfterTheEndIsDroppedAndCounted(t *testing.T) {
	j := open(t, config(t.TempDir()))
	require.NoError(t, j.Seal())
	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1})
	require.NoError(t, j.Close())
	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1})
	require.EqualValues(t, 2, j.Dropped())
	require.NoError(t, j.Ship(t.Context(), clicks.ShipConfig{URL: "http://localhost"}), "there is nothing to ship")
}

func TestJournal_CodeThatNoLinkHasIsNotRecorded(t *testing.T) {
	j := open(t, config(t.TempDir()))
	for _, code := range []string{"", "a//bcd", "a b", strings.Repeat("x", waypost.MaxCodeLength+1), strings.Repeat("x", 4000)} {
		j.Record(waypost.Click{Domain: 1, Code: []byte(code), At: 1})
	}
	require.EqualValues(t, 5, j.Dropped())
}

func TestJournal_WrongConfigurationIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, change := range map[string]func(*clicks.Config){
		"no directory":         func(c *clicks.Config) { c.Dir = "" },
		"no node":              func(c *clicks.Config) { c.Node = "" },
		"a node with a slash":  func(c *clicks.Config) { c.Node = "a/b" },
		"tiny segments":        func(c *clicks.Config) { c.SegmentBytes = 100 },
		"huge segments":        func(c *clicks.Config) { c.SegmentBytes = 1 << 30 },
		"room for no segments": func(c *clicks.Config) { c.MaxBytes = 3 * c.SegmentBytes },
		"a file as directory":  func(c *clicks.Config) { c.Dir = "/dev/null" },
	} {
		cfg := config(filepath.Join(dir, "journal"))
		change(&cfg)
		_, err := clicks.Open(cfg)
		require.Error(t, err, name)
	}
	require.Empty(t, files(t, dir, ""))
	j := open(t, config(dir))
	for _, url := range []string{"", "localhost:8080", "ftp://localhost", "http://"} {
		require.Error(t, j.Ship(t.Context(), clicks.ShipConfig{URL: url}), url)
	}
}
