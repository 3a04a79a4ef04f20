package clicks_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
)

// keeping is a journal that keeps what was acknowledged, a few batches in a pack.
func keeping(dir string) (clicks.Config, *prometheus.Registry) {
	registry := prometheus.NewPedanticRegistry()
	cfg := config(dir)
	cfg.FlushInterval, cfg.KeepAcknowledged, cfg.Metrics = time.Millisecond, 0, registry
	cfg.SetPackBatches(5)
	return cfg, registry
}

// clickEach records that many clicks, each on a link of its own and in a batch of its
// own.
func clickEach(t *testing.T, j *clicks.Journal, control *controlPlane, n int) {
	t.Helper()
	_, before := control.totals()
	for i := range n {
		record(t, j, fmt.Sprintf("link%d", i), 1)
		control.awaitClicks(t, before+uint64(i)+1)
	}
}

// settle waits until what the control plane has counted is known to be counted. A journal
// that is closed before sends it again.
func settle(t *testing.T, j *clicks.Journal) {
	t.Helper()
	require.Eventually(t, func() bool { return j.Progress().Pending == 0 }, 60*time.Second, time.Millisecond)
}

func once(n int) map[string]uint64 {
	out := map[string]uint64{}
	for i := range n {
		out[fmt.Sprintf("1/link%d", i)] = 1
	}
	return out
}

func TestRetention_BatchesThatAFailoverForgotAreSentAgain(t *testing.T) {
	control := newControlPlane(t)
	cfg, registry := keeping(t.TempDir())
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	clickEach(t, j, control, 17)
	require.Eventually(t, func() bool { // a pack is there before the batches that it has are gone
		return len(files(t, cfg.Dir, "pack")) == 3 && len(files(t, cfg.Dir, "batch")) <= 2
	}, 60*time.Second, time.Millisecond, "all but the newest are in packs, and nowhere else")
	control.failOver(2)
	record(t, j, "link17", 1)
	control.awaitClicks(t, 18)
	got, _ := control.totals()
	require.Equal(t, once(18), got)
	require.EqualValues(t, 15, metric(t, registry, "waypost_clicks_resent_batches_total"))
	require.Zero(t, metric(t, registry, "waypost_clicks_voided_batches_total"))
}

// No one clicks any more, and the edge was started again since: that the control plane
// has forgotten something shows only when it is asked.
func TestRetention_BootThatIsOverIsSentAgainWhenTheControlPlaneForgotIt(t *testing.T) {
	control := newControlPlane(t)
	cfg, _ := keeping(t.TempDir())
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	clickEach(t, j, control, 8)
	settle(t, j)
	require.NoError(t, j.Close())
	control.failOver(3)
	next, registry := keeping(cfg.Dir)
	j = open(t, next)
	shipInBackground(t, j, control.shipping())
	control.await(t, "what was forgotten is counted again", func() bool { _, sum := control.totals(); return sum == 8 })
	got, _ := control.totals()
	require.Equal(t, once(8), got)
	require.Eventually(t, func() bool { return metric(t, registry, "waypost_clicks_resent_batches_total") == 5 }, 60*time.Second, time.Millisecond)
}

func TestRetention_PacksHaveNoGapsAndNoBatchesAsLargeAsTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int64 // the newest is kept for its cover; 0: a pack
		want  []uint64
	}{
		"so many":                          {[]int64{1, 1, 1, 1, 1, 1}, []uint64{1, 2, 3, 4, 5}},
		"not so many":                      {[]int64{1, 1, 1, 1, 1}, nil},
		"so many bytes":                    {[]int64{40, 40, 40, 40}, []uint64{1, 2, 3}},
		"not so many bytes":                {[]int64{40, 40, 40}, nil},
		"as large as a pack":               {[]int64{100, 1}, nil},
		"behind one that is":               {[]int64{100, 60, 60, 60}, []uint64{2, 3}},
		"up to one that is":                {[]int64{1, 1, 100, 60, 60, 1}, []uint64{1, 2}},
		"not around a pack":                {[]int64{1, 0, 60, 60, 60}, []uint64{3, 4}},
		"alone before one that is, passed": {[]int64{1, 100, 60, 60, 1}, []uint64{3, 4}},
	} {
		require.Equal(t, c.want, clicks.ToPack(c.sizes, 5, 100), name)
	}
}

func TestRetention_AfterAnOutageTheControlPlaneIsAskedWhatItStillHas(t *testing.T) {
	control := newControlPlane(t)
	cfg, _ := keeping(t.TempDir())
	old := open(t, cfg)
	shipInBackground(t, old, control.shipping())
	clickEach(t, old, control, 4)
	settle(t, old)
	require.NoError(t, old.Close())
	next, _ := keeping(cfg.Dir)
	j := open(t, next)
	requests := control.requestCount()
	shipInBackground(t, j, control.shipping())
	control.await(t, "it is asked at the start", func() bool { return control.requestCount() > requests })
	control.setFault(func(_ *waypost.ClickBatch, w http.ResponseWriter, _ func()) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	requests = control.requestCount()
	record(t, j, "other", 1)
	control.await(t, "it is away", func() bool { return control.requestCount() > requests+1 })
	control.failOver(1)
	control.setFault(nil)
	control.await(t, "all is counted", func() bool { _, sum := control.totals(); return sum == 5 })
	got, _ := control.totals()
	want := once(4)
	want["1/other"] = 1
	require.Equal(t, want, got)
}

func TestRetention_OfWhatIsKeptNoLongerOnlyTheNumberIsSent(t *testing.T) {
	control := newControlPlane(t)
	cfg, registry := keeping(t.TempDir())
	cfg.KeepAcknowledged = time.Nanosecond
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	clickEach(t, j, control, 8)
	require.Eventually(t, func() bool {
		return len(files(t, cfg.Dir, "pack"))+len(files(t, cfg.Dir, "batch")) == 1
	}, 60*time.Second, time.Millisecond)
	control.failOver(2)
	record(t, j, "last", 1)
	control.await(t, "the next is counted", func() bool { got, _ := control.totals(); return got["1/last"] == 1 })
	voided, resent := metric(t, registry, "waypost_clicks_voided_batches_total"), metric(t, registry, "waypost_clicks_resent_batches_total")
	require.EqualValues(t, 6, voided+resent)
	require.LessOrEqual(t, resent, 1.0, "the newest, which was kept for its cover")
}

func TestRetention_WhatIsKeptIsTheFirstToGoWhenThereIsNoRoom(t *testing.T) {
	control := newControlPlane(t)
	cfg, _ := keeping(t.TempDir())
	cfg.SegmentBytes, cfg.MaxBytes = 8<<10, 64<<10
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	for i := range 100 {
		for k := range 20 {
			recordAll(t, j, fmt.Sprintf("link%d-%d", i, k), 1)
		}
		control.awaitClicks(t, uint64(20*(i+1)))
		require.LessOrEqual(t, used(t, cfg.Dir), cfg.MaxBytes)
	}
	var kept int64
	require.Eventually(t, func() bool {
		kept = used(t, cfg.Dir) - int64(len(files(t, cfg.Dir, "segment")))*cfg.SegmentBytes
		return kept <= cfg.MaxBytes/8+2<<10
	}, 60*time.Second, time.Millisecond)
	require.Positive(t, kept)
	require.Zero(t, j.Dropped())
}

func TestRetention_PackThatRottedCostsNothingButWhatIsInIt(t *testing.T) {
	control := newControlPlane(t)
	cfg, _ := keeping(t.TempDir())
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	clickEach(t, j, control, 12)
	require.Eventually(t, func() bool {
		waits := func(name string) bool { return strings.HasSuffix(name, ".fixed") }
		return len(files(t, cfg.Dir, "pack")) == 2 && !slices.ContainsFunc(files(t, cfg.Dir, "batch"), waits)
	}, 60*time.Second, time.Millisecond)
	require.NoError(t, j.Close())
	packs := files(t, cfg.Dir, "pack")
	change(t, filepath.Join(cfg.Dir, packs[0]), func(b []byte) { b[len(b)/2] ^= 1 })
	change(t, filepath.Join(cfg.Dir, packs[1]), func(b []byte) { b[3] ^= 1 })
	next, registry := keeping(cfg.Dir)
	j = open(t, next)
	require.Equal(t, packs[1:], files(t, filepath.Join(cfg.Dir, "quarantine"), ""))
	control.failOver(0)
	shipInBackground(t, j, control.shipping())
	require.Eventually(t, func() bool { return metric(t, registry, "waypost_clicks_resent_batches_total") == 2 }, 60*time.Second, time.Millisecond)
	require.EqualValues(t, 10, metric(t, registry, "waypost_clicks_voided_batches_total"))
	_, sum := control.totals()
	require.EqualValues(t, 2, sum)
}

// No one could enrol under a name that is none.
func TestRetention_BootWhoseNameCannotBeReadHasNone(t *testing.T) {
	control := newControlPlane(t)
	cfg, _ := keeping(t.TempDir())
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	clickEach(t, j, control, 12)
	require.Eventually(t, func() bool { return len(files(t, cfg.Dir, "pack")) == 2 }, 60*time.Second, time.Millisecond)
	require.NoError(t, j.Close())
	for _, batch := range files(t, cfg.Dir, "batch") {
		change(t, filepath.Join(cfg.Dir, batch), func(b []byte) { b[len(b)/2] ^= 1 })
	}
	next, _ := keeping(cfg.Dir)
	require.Equal(t, []string{next.Node}, open(t, next).Nodes())
}

func FuzzUnpack(f *testing.F) {
	for _, b := range sampleBatches(f) {
		pack := resum(clicks.SamplePack(b))
		got, err := clicks.Unpack(pack, 1)
		require.NoError(f, err)
		require.Equal(f, b, got)
		f.Add(pack)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := clicks.Unpack(resum(b), 1); err == nil && got != nil {
			_, err := clicks.ReencodeBatchFile(got)
			require.NoError(t, err)
		}
	})
}
