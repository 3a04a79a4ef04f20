package clicks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/clicks"
)

func TestSpares_FilesOfSegmentsThatAreDoneAreUsedAgain(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	cfg := config(dir)
	cfg.FlushInterval, cfg.SegmentBytes, cfg.Shards = time.Millisecond, 8<<10, 1
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	names := map[uint64]map[string]bool{} // of each file
	again := func() bool {
		recordAll(t, j, "abcd", 100)
		for _, file := range files(t, dir, "segment") {
			info, err := os.Stat(filepath.Join(dir, file))
			if err != nil {
				continue // it has another name now
			}
			i := inode(info)
			if names[i] == nil {
				names[i] = map[string]bool{}
			}
			if names[i][strings.TrimSuffix(strings.TrimSuffix(file, ".active"), ".sealed")] = true; len(names[i]) > 4 {
				return true
			}
		}
		return false
	}
	end := time.Now().Add(60 * time.Second)
	for !again() {
		require.True(t, time.Now().Before(end), "no file is used again")
	}
	recorded := j.Recorded()
	require.NoError(t, j.Seal())
	control.await(t, "all clicks are counted", func() bool { _, sum := control.totals(); return sum == recorded })
	require.Eventually(t, func() bool { return len(files(t, dir, "segment")) == 0 }, 60*time.Second, time.Millisecond, "once that is known here")
}

func TestSpares_FilesAreNotKeptToBeUsedAgainWhenNothingIsRecorded(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	cfg := config(dir)
	cfg.FlushInterval, cfg.SegmentBytes, cfg.Shards = time.Millisecond, 8<<10, 1
	cfg.SetReuseFor(time.Millisecond)
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	recordAll(t, j, "abcd", 5000)
	require.Eventually(t, func() bool { return j.Reusable() == 0 }, 60*time.Second, time.Millisecond)
}

// After a power cut a file may have any page of any of its uses, and the head of an
// earlier one.
func TestSpares_ClickOfAnEarlierUseOfTheFileIsNeverCounted(t *testing.T) {
	const page, pages = 4 << 10, 16
	dir, segment := recorded(t)
	name := filepath.Base(segment)
	fill := func(code string, number uint32) []byte {
		b := clicks.SegmentHead(name, "edge-1", uint64(number))
		for len(b) < page*pages-100 {
			b = clicks.AppendNumbered(b, code, number)
		}
		return append(b, make([]byte, page*pages-len(b))...)
	}
	was, is := fill("older-code", 1), fill("new1", 9)
	for n, c := range map[string]struct {
		newer   []int
		damaged bool
		atLeast int
	}{
		"nothing of it was written":   {newer: nil},
		"its beginning was written":   {newer: []int{0, 1, 2}, atLeast: (3*page - 128) / recordBytes},
		"all but its head":            {newer: []int{1, 2, 3}, damaged: true, atLeast: 3*page/recordBytes - 2},
		"its end":                     {newer: []int{14, 15}, damaged: true, atLeast: 2*page/recordBytes - 4},
		"a page in the middle is old": {newer: []int{0, 1, 3, 4}, damaged: true, atLeast: 4*page/recordBytes - 6},
	} {
		t.Run(n, func(t *testing.T) {
			b := slices.Clone(was)
			for _, i := range c.newer {
				copy(b[i*page:(i+1)*page], is[i*page:])
			}
			dir := image(t, dir, func() {})
			for _, file := range files(t, dir, "segment") {
				require.NoError(t, os.Remove(filepath.Join(dir, file)))
			}
			at := strings.LastIndex(name, "-")
			file := fmt.Sprintf("%s-%016x.sealed", name[:at], 9)
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), b, 0o600))
			control := newControlPlane(t)
			shipAll(t, open(t, config(dir)), control)
			got, sum := control.totals()
			require.Equal(t, got["1/new1"], sum, "nothing else")
			require.GreaterOrEqual(t, int(sum), c.atLeast)
			require.Equal(t, c.damaged, len(files(t, filepath.Join(dir, "quarantine"), "segment")) == 1)
			require.Empty(t, files(t, dir, "segment"))
		})
	}
}
