package clicks_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
)

// config is that of a journal that makes batches only when it is sealed.
func config(dir string) clicks.Config {
	return clicks.Config{
		Dir: dir, Node: "edge-1", SegmentBytes: 64 << 10, MaxBytes: 16 << 20, Shards: 2,
		FlushInterval: time.Hour, SyncInterval: time.Hour, KeepAcknowledged: -1,
	}
}

// open opens a journal that the test's end closes, if the test has not.
func open(t *testing.T, cfg clicks.Config) *clicks.Journal {
	t.Helper()
	j, err := clicks.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() }) // what it says is tested where it matters
	return j
}

// record records a number of clicks on a link of the default domain.
func record(t *testing.T, j *clicks.Journal, code string, n int) {
	t.Helper()
	for range n {
		require.True(t, j.TryRecord(1, []byte(code), 1_700_000_000_000))
	}
}

// shipInBackground ships until the test ends, or the journal is closed.
func shipInBackground(t *testing.T, j *clicks.Journal, cfg clicks.ShipConfig) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if err := j.Ship(ctx, cfg); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
}

// shipAll seals a journal, ships all that it has, and closes it.
func shipAll(t *testing.T, j *clicks.Journal, c *controlPlane) {
	t.Helper()
	require.NoError(t, j.Seal())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, j.Ship(ctx, c.shipping()))
	require.NoError(t, ctx.Err(), "all was shipped in time")
	require.NoError(t, j.Close())
}

// files returns the names in a directory that begin with prefix.
func files(t *testing.T, dir, prefix string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && !e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// image copies a journal's directory as a killed process would leave it, and calls
// with at a time when that was its state.
func image(t *testing.T, dir string, with func()) string {
	t.Helper()
	for {
		to := t.TempDir()
		before := files(t, dir, "")
		whole := true
		for _, file := range before {
			b, err := os.ReadFile(filepath.Join(dir, file))
			whole = whole && err == nil
			require.NoError(t, os.WriteFile(filepath.Join(to, file), b, 0o600))
		}
		with()
		if whole && slices.Equal(before, files(t, dir, "")) {
			return to
		}
	}
}

// used is the size of all files in a directory.
func used(t *testing.T, dir string) (sum int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was put away meanwhile
		}
		return err
	}))
	return sum
}

// metric returns the sum of a metric's values, or of those with the value of a label.
func metric(t *testing.T, r *prometheus.Registry, name string, label ...string) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		found = true
		for _, m := range f.GetMetric() {
			if len(label) > 0 && m.GetLabel()[0].GetValue() != label[0] {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	require.True(t, found, "there is a metric %s", name)
	return sum
}

// resum puts the right checksum at the end of what is all but it.
func resum(b []byte) []byte {
	body := b[:max(len(b)-4, 0)]
	return binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// sampleBatches returns the files of some batches.
func sampleBatches(tb testing.TB) (out [][]byte) {
	cfg := config(tb.TempDir())
	j, err := clicks.Open(cfg)
	require.NoError(tb, err)
	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1})
	require.NoError(tb, j.Close())
	entries, err := filepath.Glob(filepath.Join(cfg.Dir, "batch-*"))
	require.NoError(tb, err)
	for _, path := range entries {
		b, err := os.ReadFile(path)
		require.NoError(tb, err)
		out = append(out, b)
	}
	require.NotEmpty(tb, out)
	return out
}
