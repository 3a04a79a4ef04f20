//go:build !race

// Without the race detector only, which has these sequences take several times as long.

package clicks_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/internal/logtest"
)

// All clicks would take more room in segments than there is.
func TestCompaction_WhileTheControlPlaneIsAwayDetailIsCompactedBeforeAClickIsDropped(t *testing.T) {
	control, registry, log := newControlPlane(t), prometheus.NewPedanticRegistry(), &logtest.Buffer{}
	cfg := cutOff(t.TempDir())
	cfg.MaxBytes, cfg.Metrics, cfg.Logger = 1<<20, registry, log.Logger()
	j := open(t, cfg)
	clicked := newLedger()
	for round := 0; metric(t, registry, "waypost_clicks_coarsened_total", "totals") == 0; round++ {
		require.Less(t, round, 100, "nothing was folded to totals")
		clicked.clickAround(t, j, 5_000, 500)
		require.LessOrEqual(t, used(t, cfg.Dir), cfg.MaxBytes)
	}
	require.NotEmpty(t, files(t, cfg.Dir, "compacted"))
	require.LessOrEqual(t, len(files(t, cfg.Dir, "batch")), 4, "what nobody has seen has no identity yet")
	shipAll(t, j, control)
	clicked.equals(t, control)
	require.Empty(t, files(t, filepath.Join(cfg.Dir, "quarantine"), ""))
	require.Empty(t, files(t, cfg.Dir, "compacted"))
	require.Zero(t, metric(t, registry, "waypost_clicks_waiting"))
	require.NotContains(t, log.String(), "level=ERROR")
}

func TestJournal_WhatABatchCannotHoldGoesIntoTheNext(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	cfg := config(dir)
	cfg.SegmentBytes, cfg.MaxBytes = 1<<20, 64<<20
	j := open(t, cfg)
	const links = clickbatch.MaxLinks + 1000
	for i := range links {
		code := fmt.Appendf(nil, "%08d", i)
		for range 2 {
			for !j.TryRecord(1, code, int64(i)) {
				runtime.Gosched()
			}
		}
	}
	shipAll(t, j, control)
	got, sum := control.totals()
	require.Len(t, got, links)
	require.EqualValues(t, 2*links, sum)
	require.GreaterOrEqual(t, len(control.counts()), 2)
}

func TestJournal_IsBoundedAndDropsAreCounted(t *testing.T) {
	control, registry, log := newControlPlane(t), prometheus.NewPedanticRegistry(), &logtest.Buffer{}
	cfg := config(t.TempDir())
	cfg.SegmentBytes, cfg.MaxBytes, cfg.FlushInterval = 8<<10, 64<<10, time.Millisecond
	cfg.Metrics, cfg.Logger = registry, log.Logger()
	j := open(t, cfg)
	var offered uint64
	end, pause := time.Now().Add(3*time.Minute), time.NewTicker(time.Millisecond)
	defer pause.Stop()
	// Rounds in which nothing is taken, and not because the keeper has something to do
	// first.
	for full := 0; full < 50 || used(t, cfg.Dir) <= cfg.MaxBytes/2; {
		require.True(t, time.Now().Before(end), "%d bytes of %d after %d clicks", used(t, cfg.Dir), cfg.MaxBytes, offered)
		before := j.Dropped()
		for range 1000 { // each of another link: no fold makes them less
			j.Record(waypost.Click{Domain: waypost.DomainID(offered%5 + 1), Code: fmt.Appendf(nil, "%07d", offered), At: 1})
			offered++
		}
		if j.Dropped()-before == 1000 {
			full++
			<-pause.C // for the keeper
		}
		// See Config.MaxBytes. A look at many files is not of one moment: it may count files
		// and those that replace them.
		most := cfg.MaxBytes + 2*cfg.SegmentBytes
		least := used(t, cfg.Dir)
		for looks := 0; least > most && looks < 5; looks++ {
			least = min(least, used(t, cfg.Dir))
		}
		require.LessOrEqual(t, least, most)
	}
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "dropped clicks") }, 60*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { // the keeper may just have made room for some
		offered++
		j.Record(waypost.Click{Domain: 1, Code: fmt.Appendf(nil, "%07d", offered), At: 1})
		return !j.Takes()
	}, 60*time.Second, time.Millisecond)

	shipInBackground(t, j, control.shipping())
	require.Eventually(t, j.Takes, 60*time.Second, time.Millisecond)
	recordAll(t, j, "roomy", 1000)
	require.NoError(t, j.Seal())
	recorded, dropped := metric(t, registry, "waypost_clicks_recorded_total"), metric(t, registry, "waypost_clicks_dropped_total")
	require.Positive(t, dropped)
	require.EqualValues(t, offered+1000, recorded+dropped)
	control.await(t, "what was recorded is counted", func() bool { _, sum := control.totals(); return float64(sum) == recorded })
}

func TestRecovery_BitFlippedAnywhereInASegmentCostsAtMostItsClickAndNothingIsWiped(t *testing.T) {
	const recorded, head = 3, 128
	l := killed(t, config(t.TempDir()), recorded, func(string) bool { return true })
	file, control := l.that(t, "segment", "abcd"), newControlPlane(t)
	whole := l[file]
	for at := range head + recorded*recordBytes + 16 {
		changed := slices.Clone(whole)
		changed[at] ^= 1 << (at % 8)
		counted, quarantine := l.shipChanged(t, file, changed, control)
		number := (at - head) / recordBytes
		padding := at >= head && number < recorded && at >= head+(number+1)*recordBytes
		switch {
		case at < head:
			require.Zero(t, counted, "byte %d: nobody knows whose clicks they are", at)
		case number == recorded-1:
			require.EqualValues(t, recorded-1, counted, "byte %d: it looks cut by the crash", at)
			continue
		case number < recorded && !padding:
			require.EqualValues(t, recorded-1, counted, "byte %d", at)
		default: // a crash may leave anything there
			require.EqualValues(t, recorded, counted, "byte %d", at)
			continue
		}
		require.Equal(t, left{sealedName(file): changed}, renamed(quarantine), "byte %d", at)
	}
}

func TestRecovery_SegmentCutAnywhereKeepsTheClicksBeforeTheCut(t *testing.T) {
	const recorded, head = 3, 128
	l := killed(t, config(t.TempDir()), recorded, func(string) bool { return true })
	file, control := l.that(t, "segment", "abcd"), newControlPlane(t)
	whole := l[file]
	for cut := range head + recorded*recordBytes {
		want := max(cut-head, 0) / recordBytes
		counted, quarantine := l.shipChanged(t, file, whole[:cut], control)
		require.EqualValues(t, want, counted, "the file ends at %d", cut)
		if cut < head {
			require.Equal(t, left{sealedName(file): whole[:cut]}, renamed(quarantine))
		}
		zeros := append(slices.Clone(whole[:cut]), make([]byte, len(whole)-cut)...)
		counted, _ = l.shipChanged(t, file, zeros, control)
		if cut >= head { // padding of zeros is as good as what was there
			require.GreaterOrEqual(t, counted, uint64(want), "there are zeros from %d on", cut)
			require.LessOrEqual(t, counted, uint64(want+1))
		}
	}
}

func TestRecord_EveryClickHasItsOwnAgentAndReferrer(t *testing.T) {
	for name, shards := range map[string]int{"one segment at a time": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			control := newControlPlane(t)
			cfg := config(t.TempDir())
			cfg.FlushInterval, cfg.SegmentBytes, cfg.Shards, cfg.Profiler = time.Millisecond, 64<<10, shards, listener{}
			j := open(t, cfg)
			shipInBackground(t, j, control.shipping())
			want, recorded, late := map[string][]string{}, 0, time.Now().Add(3*time.Minute)
			for n := range 10_000 { // of some segments, in some batches
				c, code, texts := visitNumber(n)
				for !j.TryClick(c) {
					require.True(t, time.Now().Before(late), "there is no room for clicks")
				}
				want[code] = append(want[code], texts)
				if recorded++; n%1000 == 0 {
					control.await(t, "all is in batches", func() bool { _, sum := control.totals(); return sum == uint64(recorded) })
				}
			}
			require.NoError(t, j.Seal())
			control.await(t, "all clicks are counted", func() bool { _, sum := control.totals(); return sum == uint64(recorded) })
			require.Equal(t, want, control.told())
		})
	}
}
