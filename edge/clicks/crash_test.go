package clicks_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/edge/clicks"
	"waypost/internal/logtest"
)

const (
	victimDir = "WAYPOST_CLICKS_VICTIM_DIR"
	victimURL = "WAYPOST_CLICKS_VICTIM_URL" // "": the control plane is away
	recorders = 4

	starve = syscall.SIGUSR1 // has a victim allocate until it ends
)

// busy is a journal that makes batches, syncs and segments all the time.
func busy(dir string) clicks.Config {
	cfg := config(dir)
	cfg.SegmentBytes, cfg.FlushInterval, cfg.SyncInterval = 8<<10, time.Millisecond, time.Millisecond
	return cfg
}

// clickOf returns the link of a recorder, and the variant that its clicks have: two
// recorders share a link.
func clickOf(r int) (link string, variant uint8) { return fmt.Sprintf("link%d", r/2), uint8(1 + r%2) }

// victim records and ships until it is killed. For each click that was recorded it
// writes one byte, which says by which recorder.
func victim(dir, url string) error {
	cfg := busy(dir)
	if url == "" {
		cfg.MaxBytes, cfg.Profiler = 400<<10, crowd{} // which is soon too little for all details
	}
	j, err := clicks.Open(cfg)
	if err != nil {
		return err
	}
	hungry := make(chan os.Signal, 1)
	signal.Notify(hungry, starve)
	group, ctx := errgroup.WithContext(context.Background())
	group.Go(func() error {
		<-hungry
		for all := [][]byte(nil); ; all = append(all, make([]byte, 1<<20)) {
			runtime.KeepAlive(all)
		}
	})
	group.Go(func() error {
		if url == "" {
			return nil
		}
		return j.Ship(ctx, clicks.ShipConfig{URL: url, Token: token, MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond})
	})
	for r := range recorders {
		group.Go(func() error {
			link, variant := clickOf(r)
			c := waypost.Click{Domain: 1, Code: []byte(link), Rule: 1, Variant: variant}
			for {
				for c.At = time.Now().UnixMilli(); !j.TryClick(c); c.At = time.Now().UnixMilli() {
					runtime.Gosched() // a segment is being made
				}
				if _, err := os.Stdout.Write([]byte{byte(r)}); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// killAfter runs a victim until it has recorded n clicks or more, and kills it.
func killAfter(t *testing.T, dir, url string, n int) (recorded [recorders]uint64) {
	t.Helper()
	recorded, _ = endAfter(t, dir, url, n, (*os.Process).Kill)
	return recorded
}

// endAfter is killAfter for another end, and returns what the victim had to say.
func endAfter(t *testing.T, dir, url string, n int, end func(*os.Process) error) (recorded [recorders]uint64, said string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	program, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), victimDir+"="+dir, victimURL+"="+url)
	stderr := &logtest.Buffer{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first := make([]byte, n)
	_, err = io.ReadFull(out, first)
	require.NoError(t, err, stderr.String())
	require.NoError(t, end(cmd.Process))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Error(t, cmd.Wait(), "it has not ended well")
	require.NoError(t, ctx.Err(), "it ended in time")
	for _, r := range append(first, rest...) {
		recorded[r]++
	}
	return recorded, stderr.String()
}

func TestJournal_KilledProcessLosesNoClickAndCountsNoneTwice(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	control.setFault(func(_ *waypost.ClickBatch, w http.ResponseWriter, count func()) bool {
		switch rand.N(6) {
		case 0: // the acknowledgement is lost
			count()
			panic(http.ErrAbortHandler)
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	const kills = 20
	var recorded [recorders]uint64
	for range kills {
		for r, n := range killAfter(t, dir, control.url, 1+rand.N(4000)) {
			recorded[r] += n
		}
	}
	control.setFault(nil)
	shipAll(t, open(t, config(dir)), control)
	requireCounted(t, dir, control, recorded, kills)
}

// requireCounted sees that what victims have recorded was counted once.
func requireCounted(t *testing.T, dir string, control *controlPlane, recorded [recorders]uint64, ends uint64) {
	t.Helper()
	for r, n := range recorded {
		link, variant := clickOf(r)
		got := control.answered("1/"+link, 1, variant)
		require.GreaterOrEqual(t, got, n, link)
		require.LessOrEqual(t, got, n+ends, "at most the one that was being recorded at each end")
	}
	require.Empty(t, files(t, filepath.Join(dir, "quarantine"), ""))
	require.Empty(t, files(t, filepath.Join(dir, "dead"), ""))
}

func TestJournal_ProcessKilledWhileClicksAreCompactedLosesNoneAndCountsNoneTwice(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	const leastKills, mostKills = 4, 20
	var recorded [recorders]uint64
	kills := 0
	for ; kills < leastKills || len(files(t, dir, "compacted")) == 0 && kills < mostKills; kills++ {
		for r, n := range killAfter(t, dir, "", (1+kills)*(3000+rand.N(3000))) {
			recorded[r] += n
		}
	}
	require.NotEmpty(t, files(t, dir, "compacted"))
	shipAll(t, open(t, config(dir)), control)
	for r, n := range recorded {
		link, variant := clickOf(r)
		got := control.answered("1/"+link, 1, variant)
		require.GreaterOrEqual(t, got, n, link)
		require.LessOrEqual(t, got, n+uint64(kills), "at most the one that was being recorded at each kill")
	}
	require.Empty(t, files(t, filepath.Join(dir, "quarantine"), ""))
}

// syncPoints lets look be called, by the test itself, at each sync of a journal's files
// and directory, which waits for that. Between them, and until over, the test does
// idle; nil: nothing.
func syncPoints(cfg *clicks.Config, over <-chan struct{}, idle func(), look func() (enough bool)) (start func()) {
	points, enough := make(chan chan struct{}), make(chan struct{})
	cfg.SetSync(func(f *os.File) error {
		looked := make(chan struct{})
		select {
		case points <- looked:
			<-looked
		case <-enough:
		}
		return f.Sync()
	})
	return func() {
		defer close(enough)
		always := make(chan struct{})
		close(always)
		if idle == nil {
			always = nil
		}
		for {
			select {
			case <-over:
				return
			case looked := <-points:
				done := look()
				close(looked)
				if done {
					return
				}
			case <-always:
				idle()
			}
		}
	}
}

// Every sync of a file or of the directory is a point at which a crash leaves another
// state. Each is kept, brought back to life, and shipped to a control plane that has
// counted what the one in the test had counted then. And each recovery crashes at one
// of its own syncs.
func TestJournal_CrashAtAnySyncLosesNoClickAndCountsNoneTwice(t *testing.T) {
	type point struct {
		dir      string
		control  *controlPlane
		recorded uint64
	}
	control, cfg := newControlPlane(t), busy(t.TempDir())
	var (
		j        atomic.Pointer[clicks.Journal]
		crashes  []point
		recorded uint64
	)
	lookAround := syncPoints(&cfg, nil, func() {
		if j := j.Load(); j != nil && j.TryRecord(1, []byte("abcd"), 1) {
			recorded++
		} else {
			runtime.Gosched() // until there is a segment
		}
	}, func() bool {
		c := point{recorded: recorded}
		c.dir = image(t, cfg.Dir, func() { c.control = control.clone(t) })
		crashes = append(crashes, c)
		return len(crashes) == 40
	})
	opening := inBackground(t, func() error {
		opened, err := clicks.Open(cfg)
		if err == nil {
			shipInBackground(t, opened, control.shipping())
			j.Store(opened)
		}
		return err
	})
	lookAround()
	<-opening
	require.NoError(t, j.Load().Close())

	for i, c := range crashes {
		syncs := i % 8
		dir := crash(t, c.dir, func(string) bool {
			syncs--
			return syncs < 0
		})
		shipAll(t, open(t, config(dir)), c.control)
		_, sum := c.control.totals()
		require.Equal(t, c.recorded, sum, "crash %d", i)
		require.Empty(t, files(t, filepath.Join(dir, "quarantine"), ""))
	}
}

// crash makes batches of what a crash left, without shipping them, and returns what
// another crash leaves at one of the syncs of that: the first that will do, or the last
// of all.
func crash(t *testing.T, dir string, will func(left string) bool) string {
	t.Helper()
	cfg := config(dir)
	var left string
	over := make(chan struct{})
	lookAround := syncPoints(&cfg, over, nil, func() bool {
		left = image(t, dir, func() {})
		return will(left)
	})
	sealing := inBackground(t, func() error {
		defer close(over)
		j, err := clicks.Open(cfg)
		if err == nil {
			err = j.Close()
		}
		return err
	})
	lookAround()
	<-sealing
	return left
}

// inBackground runs f, and closes the channel when it has ended.
func inBackground(t *testing.T, f func() error) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := f(); err != nil {
			t.Error(err)
		}
	}()
	return over
}
