package clicks_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
)

// platter holds the durable state of a disk: of each file what was synced, and the names
// as of the last sync of the directory.
type platter struct {
	mu     sync.Mutex
	synced map[uint64][]byte
	names  map[string]uint64
	before func(f *os.File) // is called before each sync
	after  func(f *os.File)
	pages  string // directory of which the system writes any page at any time
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// sync is one of the journal's.
func (p *platter) sync(f *os.File) error {
	p.before(f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p.mu.Lock()
	if info.IsDir() {
		entries, err := os.ReadDir(f.Name())
		if err != nil {
			p.mu.Unlock()
			return err
		}
		p.names = map[string]uint64{}
		for _, e := range entries {
			if i, err := e.Info(); err == nil && !e.IsDir() {
				p.names[e.Name()] = inode(i)
			}
		}
	} else {
		b, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
		if err != nil {
			p.mu.Unlock()
			return err
		}
		p.synced[inode(info)] = b
	}
	p.mu.Unlock()
	p.after(f)
	return nil
}

// cut returns what is left when the power is cut.
func (p *platter) cut(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now(t)
	for name, i := range p.names {
		b := p.synced[i]
		if strings.HasPrefix(name, "segment-") {
			b = anyPages(b, now[i])
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return dir
}

// now returns the files as a process sees them, if the system writes their pages.
func (p *platter) now(t *testing.T) map[uint64][]byte {
	t.Helper()
	now := map[uint64][]byte{}
	if p.pages == "" {
		return now
	}
	for _, file := range files(t, p.pages, "") {
		f, err := os.Open(filepath.Join(p.pages, file))
		if err != nil {
			continue // it is gone
		}
		info, err := f.Stat()
		require.NoError(t, err)
		now[inode(info)], err = io.ReadAll(f)
		require.NoError(t, errors.Join(err, f.Close()))
	}
	return now
}

// anyPages returns a file in which some pages are newer.
func anyPages(b, newer []byte) []byte {
	const page = 4 << 10
	b = bytes.Clone(b)
	for at := 0; at < min(len(b), len(newer)); at += page {
		if rand.N(2) == 0 {
			copy(b[at:min(at+page, len(b))], newer[at:])
		}
	}
	return b
}

// Each click has a link of its own, so that it shows which of them are lost, and that
// none counts twice. The control plane is away, so that all there is is on this disk.
//
// It finds this defect: a batch is sent before its file is on the disk, so after a
// power cut its clicks are sent again under another number.
func TestJournal_PowerCutLosesNoClickThatWasSyncedAndCountsNoneTwice(t *testing.T) {
	for name, cfg := range map[string]clicks.Config{"with room": busy(""), "folding": cutOff(""), "any page": cutOff("")} {
		t.Run(name, func(t *testing.T) {
			cfg.Dir = t.TempDir()
			cfg.SegmentBytes, cfg.MaxBytes, cfg.Shards, cfg.SyncInterval = 4<<10, 2<<20, 1, time.Millisecond
			var (
				mu       sync.Mutex
				recorded int // clicks, in order
				synced   int // those of before the last sync
				more     = 1 // may be recorded until the next sync
				durable  int
				round    rounds
				cuts     = map[string]int{} // directories, and how many clicks must be in them
				syncs    int
			)
			disk := &platter{synced: map[uint64][]byte{}, names: map[string]uint64{}}
			if name == "any page" {
				disk.pages, cfg.SegmentBytes, cfg.MaxBytes = cfg.Dir, 8<<10, 4<<20
			}
			disk.before = func(f *os.File) {
				mu.Lock()
				defer mu.Unlock()
				durable = max(durable, round.begin(f))
			}
			disk.after = func(f *os.File) {
				mu.Lock()
				defer mu.Unlock()
				round.end(f, recorded)
				// Fewer than fill a segment, or it would hardly ever be synced before it is in a
				// batch; and sometimes more.
				synced, more = recorded, 1+rand.N(100)
				if syncs++; syncs%23 == 0 && durable > 0 && len(cuts) < 6 {
					cuts[disk.cut(t)] = durable
				}
			}
			cfg.SetSync(disk.sync)
			j := open(t, cfg)
			late := time.Now().Add(3 * time.Minute)
			for enough := false; !enough; {
				c := waypost.Click{Domain: 1, Code: fmt.Appendf(nil, "%07d", recorded), At: 1_700_000_000_000, Agent: agent, Referrer: referrer}
				mu.Lock()
				if recorded < synced+more && j.TryClick(c) {
					recorded++
				}
				enough = len(cuts) == 6
				mu.Unlock()
				runtime.Gosched()
				require.True(t, time.Now().Before(late))
			}
			require.NoError(t, j.Close())
			some := 0
			for dir, least := range cuts {
				control := newControlPlane(t)
				shipAll(t, open(t, config(dir)), control)
				got, _ := control.totals()
				lost, twice := 0, 0
				for i := range least {
					if got[fmt.Sprintf("1/%07d", i)] == 0 {
						lost++
					}
				}
				for _, n := range got {
					if n > 1 {
						twice++
					}
				}
				require.Zero(t, lost, "of %d that were synced", least)
				require.Zero(t, twice)
				some += least
			}
			require.Positive(t, some)
		})
	}
}

// rounds follows how the segments in use are synced, in their order, round after round.
type rounds struct {
	last   string // segment that was synced
	before int    // clicks, when the round had not begun yet
	latest int    // clicks, when a segment was last synced
}

// begin returns how many clicks are surely on the disk: those from before a round that is
// over.
func (r *rounds) begin(f *os.File) (durable int) {
	name := inUse(f)
	if name == "" {
		return 0
	}
	if name <= r.last {
		durable, r.before = r.before, r.latest
	}
	r.last = name
	return durable
}

func (r *rounds) end(f *os.File, recorded int) {
	if inUse(f) != "" {
		r.latest = recorded
	}
}

// inUse returns the name of a segment that is no longer being made, and "" for other
// files.
func inUse(f *os.File) string {
	dir, name := filepath.Split(f.Name())
	name, making := strings.CutPrefix(name, ".new-")
	if _, err := os.Stat(filepath.Join(dir, name)); !making || err != nil || !strings.HasPrefix(name, "segment-") {
		return ""
	}
	return name
}

// With the default times, and the control plane away: a click in ten milliseconds, and a
// cut at every phase of the second between two syncs.
func TestJournal_PowerCutLosesTheClicksOfOneSyncIntervalAtMost(t *testing.T) {
	const interval = time.Second // what Config.SyncInterval promises
	type cut struct {
		dir      string
		old, all int // clicks that were older than the interval, and recorded at all
	}
	var cuts []cut
	synctest.Test(t, func(bubble *testing.T) {
		disk := &platter{synced: map[uint64][]byte{}, names: map[string]uint64{}, before: func(*os.File) {}, after: func(*os.File) {}}
		cfg := clicks.Config{Dir: bubble.TempDir(), Node: "edge-1", SegmentBytes: 64 << 10, Shards: 2}
		cfg.SetSync(disk.sync)
		j := open(bubble, cfg)
		var at []time.Time
		for n := range 800 {
			require.True(bubble, j.TryRecord(1, fmt.Appendf(nil, "%07d", n), time.Now().UnixMilli()))
			at = append(at, time.Now())
			time.Sleep(10 * time.Millisecond) // of the bubble's time
			synctest.Wait()
			if n%67 != 66 {
				continue
			}
			c := cut{dir: disk.cut(t), all: len(at)}
			for c.old < len(at) && time.Since(at[c.old]) >= interval {
				c.old++
			}
			cuts = append(cuts, c)
		}
		require.NoError(bubble, j.Close())
	})
	require.Len(t, cuts, 11)
	lost := 0
	for _, c := range cuts {
		control := newControlPlane(t)
		shipAll(t, open(t, config(c.dir)), control)
		got, sum := control.totals()
		for n := range c.old {
			require.EqualValues(t, 1, got[fmt.Sprintf("1/%07d", n)], "click %d of %d, %d of them older than the interval", n, c.all, c.old)
		}
		require.LessOrEqual(t, sum, uint64(c.all))
		lost += c.all - int(sum)
	}
	require.Positive(t, lost, "the power was cut")
}

func TestJournal_PlatterForgetsWhatWasNotSynced(t *testing.T) {
	dir := t.TempDir()
	p := &platter{synced: map[uint64][]byte{}, before: func(*os.File) {}, after: func(*os.File) {}}
	f, err := os.Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	d, err := os.Open(dir)
	require.NoError(t, err)
	_, err = f.WriteString("synced")
	require.NoError(t, err)
	require.NoError(t, p.sync(f))
	require.Empty(t, files(t, p.cut(t), ""), "it has no name yet")
	require.NoError(t, p.sync(d))
	_, err = f.WriteString(" and not")
	require.NoError(t, err)
	left := p.cut(t)
	require.True(t, bytes.Equal([]byte("synced"), read(t, filepath.Join(left, "a"))))
	require.NoError(t, f.Close())
	require.NoError(t, d.Close())
}
