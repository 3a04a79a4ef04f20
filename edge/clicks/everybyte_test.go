package clicks_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/clicks"
)

// left are the files of a directory after a crash.
type left map[string][]byte

func leftIn(t *testing.T, dir string) left {
	t.Helper()
	out := left{}
	for _, file := range files(t, dir, "") {
		out[file] = read(t, filepath.Join(dir, file))
	}
	return out
}

// shipChanged brings the files back with one of them changed, ships what can be read of
// them, and returns the clicks that were counted, and what is in quarantine.
func (l left) shipChanged(t *testing.T, file string, changed []byte, control *controlPlane) (counted uint64, quarantine left) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, b := range l {
		if name == file {
			b = changed
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	cfg := config(dir)
	cfg.SegmentBytes, cfg.MaxBytes, cfg.Shards = 4<<10, 1<<20, 1
	cfg.SetSync(func(*os.File) error { return nil }) // no power is cut here
	j, err := clicks.Open(cfg)
	require.NoError(t, err)
	control.empty()
	shipAll(t, j, control)
	_, counted = control.totals()
	require.Empty(t, files(t, dir, "segment"))
	quarantine = leftIn(t, filepath.Join(dir, "quarantine"))
	require.NoError(t, os.RemoveAll(dir))
	return counted, quarantine
}

// killed returns the files of a journal that was killed when it had recorded some clicks
// and state held.
func killed(t *testing.T, cfg clicks.Config, clicks int, state func(dir string) bool) left {
	t.Helper()
	cfg.SegmentBytes, cfg.MaxBytes, cfg.Shards = 4<<10, 1<<20, 1
	j := open(t, cfg)
	record(t, j, "abcd", clicks)
	require.Eventually(t, func() bool { return state(cfg.Dir) }, 60*time.Second, time.Millisecond)
	l := leftIn(t, image(t, cfg.Dir, func() {}))
	require.NoError(t, j.Close())
	return l
}

// that has the name of the file that has the text.
func (l left) that(t *testing.T, prefix, has string) string {
	t.Helper()
	for name, b := range l {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix && bytes.Contains(b, []byte(has)) {
			return name
		}
	}
	require.FailNow(t, "there is no such file", prefix)
	return ""
}

// renamed returns files as they are named once their boot is over.
func renamed(l left) left {
	out := left{}
	for name, b := range l {
		out[sealedName(name)] = b
	}
	return out
}

func sealedName(name string) string {
	if base, ok := bytes.CutSuffix([]byte(name), []byte(".active")); ok {
		return string(base) + ".sealed"
	}
	return name
}

// The batch is the newest, and the clicks that it has are in a segment still, with others
// that it does not have: whether it was counted before no one can tell.
func TestRecovery_BatchChangedAnywhereIsSetAsideAndItsClicksAreNotCountedTwice(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.FlushInterval = time.Millisecond
	l := killed(t, cfg, 5, func(dir string) bool { return len(files(t, dir, "batch")) == 1 })
	segment, batch := l.that(t, "segment", "abcd"), l.that(t, "batch", "WPCLICKB")
	whole := l[batch]
	counted, quarantine := l.shipChanged(t, batch, whole, newControlPlane(t))
	require.EqualValues(t, 5, counted)
	require.Empty(t, quarantine)
	control := newControlPlane(t)
	check := func(changed []byte, what string, at int) {
		counted, quarantine := l.shipChanged(t, batch, changed, control)
		require.Zero(t, counted, "%s %d", what, at)
		require.Equal(t, changed, quarantine[batch], "%s %d", what, at)
		require.Equal(t, l[segment], renamed(quarantine)[sealedName(segment)], "%s %d", what, at)
	}
	for at := range whole {
		changed := slices.Clone(whole)
		changed[at] ^= 1 << (at % 8)
		check(changed, "flipped at", at)
		check(whole[:at], "cut at", at)
	}
}
