package clicks_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
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

// cutOff is a journal with little room, whose control plane is away.
func cutOff(dir string) clicks.Config {
	cfg := config(dir)
	cfg.SegmentBytes, cfg.MaxBytes, cfg.Shards = 32<<10, 2<<20, 2
	cfg.FlushInterval, cfg.Profiler = time.Millisecond, crowd{}
	return cfg
}

// ledger counts clicks by link, and by link, rule and variant.
type ledger struct{ clicks, answers, bots map[string]uint64 }

func newLedger() *ledger {
	return &ledger{clicks: map[string]uint64{}, answers: map[string]uint64{}, bots: map[string]uint64{}}
}

// clickAround records n clicks on a number of links, by many visitors, over a week.
func (l *ledger) clickAround(t *testing.T, j *clicks.Journal, n, links int) {
	t.Helper()
	l.clickSome(t, j, 0, n, n, links)
}

// clickSome records clicks [from, to) of n.
func (l *ledger) clickSome(t *testing.T, j *clicks.Journal, from, to, n, links int) {
	t.Helper()
	const week = 7 * 24 * 3600 * 1000
	random := rand.New(rand.NewPCG(uint64(n+from), uint64(links)))
	late := time.Now().Add(3 * time.Minute)
	for i := from; i < to; i++ {
		c := waypost.Click{
			Domain: 1, Code: fmt.Appendf(nil, "link%05d", random.IntN(links)), At: 1_700_000_000_000 + int64(i)*week/int64(n), Bot: i%10 == 0,
			Address: [16]byte{0: byte(i), 1: byte(i >> 8), 2: 1}, Agent: agent[:50+i%20], Referrer: referrer,
		}
		c.Rule = uint8(i % 3)
		if c.Rule == 1 {
			c.Variant = uint8(1 + i%5)
		}
		for !j.TryClick(c) {
			require.True(t, time.Now().Before(late), "there is no room for clicks")
			runtime.Gosched()
		}
		link := "1/" + string(c.Code)
		l.clicks[link]++
		l.answers[answerOf(link, c.Rule, c.Variant)]++
		if c.Bot {
			l.bots[link]++
		}
	}
}

// awaitFolds waits until segments that are full are in batches or compacted segments:
// when there are none, the next clicks come into others, however slow the machine is.
func awaitFolds(t *testing.T, j *clicks.Journal, cfg clicks.Config) {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(files(t, cfg.Dir, "segment")) <= cfg.Shards+j.Spares()+j.Reusable()
	}, 60*time.Second, time.Millisecond)
}

func (l *ledger) equals(t *testing.T, control *controlPlane) {
	t.Helper()
	control.mu.Lock()
	defer control.mu.Unlock()
	require.Equal(t, l.clicks, control.clicks)
	require.Equal(t, l.bots, control.bots)
	require.Equal(t, l.answers, control.answers)
}

func TestCompaction_WhatWasCompactedIsShippedWhenTheControlPlaneIsBackAndRecordingGoesOn(t *testing.T) {
	control := newControlPlane(t)
	j := open(t, cutOff(t.TempDir()))
	clicked := newLedger()
	clicked.clickAround(t, j, 10_000, 300)
	shipInBackground(t, j, control.shipping())
	clicked.clickAround(t, j, 10_001, 300)
	control.awaitClicks(t, 20_001)
	clicked.equals(t, control)
	require.NoError(t, j.Seal())
}

func TestCompaction_ClicksThatWereOnlyCompactedKeepTimesProfilesAndVisitors(t *testing.T) {
	control := newControlPlane(t)
	cfg := cutOff(t.TempDir())
	cfg.MaxBytes = 64 << 20
	j := open(t, cfg)
	times := map[int64]bool{}
	var detailed, visitors int
	control.setFault(func(b *waypost.ClickBatch, _ http.ResponseWriter, _ func()) bool {
		if !b.Exact {
			t.Error("it was folded without need")
		}
		for _, l := range b.Links {
			for _, r := range l.Rows {
				times[r.At] = true
				if b.Profiles[r.Profile].Country == "PT" {
					detailed++
				}
			}
			visitors += len(l.Visitors)
		}
		return false
	})
	clicked := newLedger()
	for n := 0; n < 10_000; n += 1_000 {
		clicked.clickSome(t, j, n, n+1_000, 10_000, 400)
		awaitFolds(t, j, cfg) // or they would all become one batch
	}
	require.NotEmpty(t, files(t, cfg.Dir, "compacted"))
	shipAll(t, j, control)
	clicked.equals(t, control)
	require.Len(t, times, 10_000)
	require.Equal(t, 10_000, detailed)
	require.Equal(t, 10_000, visitors)
}

func TestCompaction_DropsAreToldInTheNextBatch(t *testing.T) {
	control := newControlPlane(t)
	j := open(t, config(t.TempDir()))
	record(t, j, "abcd", 3)
	for range 5 {
		j.Record(waypost.Click{Domain: 1, Code: []byte("a b"), At: 1})
	}
	var told uint64
	control.setFault(func(b *waypost.ClickBatch, _ http.ResponseWriter, _ func()) bool {
		told += b.Dropped
		return false
	})
	shipAll(t, j, control)
	control.awaitClicks(t, 3)
	require.EqualValues(t, 5, told)
}

// Every sync is a point at which a crash leaves another state, also while clicks are
// compacted and compacted segments are merged. Each is brought back to life, and crashes
// once more.
func TestCompaction_CrashWhileClicksAreCompactedLosesNoneAndCountsNoneTwice(t *testing.T) {
	const few = 10
	cfg := cutOff(t.TempDir())
	cfg.SegmentBytes, cfg.MaxBytes = 8<<10, 200<<10
	type point struct {
		dir      string
		recorded uint64
	}
	var (
		merges   []point // when one was over
		others   []point // a few or twice as many, at equal distances, however long it takes
		distance = 12
		recorded uint64
		merging  bool
		code     = make([]byte, 0, 16)
	)
	opened := make(chan *clicks.Journal, 1)
	var j *clicks.Journal
	seen := 0
	lookAround := syncPoints(&cfg, nil, func() {
		if j == nil {
			select {
			case j = <-opened:
			default:
				runtime.Gosched()
				return
			}
		}
		code = fmt.Appendf(code[:0], "link%d", recorded%37)
		c := waypost.Click{
			Domain: 1, Code: code, At: 1_700_000_000_000 + int64(recorded)*60_000, Address: [16]byte{byte(recorded)},
			Agent: agent, Referrer: referrer, Rule: uint8(recorded % 3),
		}
		if j.TryClick(c) {
			recorded++
		} else {
			runtime.Gosched() // until there is room
		}
	}, func() bool {
		now := slices.ContainsFunc(files(t, cfg.Dir, ".new-compacted"), func(n string) bool { return strings.Contains(n, "-ffffffffffffffff.") })
		seen++
		switch {
		case merging && !now: // it has its name, and what it was made of is there still
			merges = append(merges, point{image(t, cfg.Dir, func() {}), recorded})
		case seen%distance == 0:
			others = append(others, point{image(t, cfg.Dir, func() {}), recorded})
		}
		merging = now
		if len(others) == 2*few {
			for i := range few {
				others[i] = others[2*i+1]
			}
			others, distance = others[:few], 2*distance
		}
		return len(others) >= few && len(merges) > 4
	})
	opening := inBackground(t, func() error {
		o, err := clicks.Open(cfg)
		opened <- o
		return err
	})
	lookAround()
	<-opening
	if j == nil {
		j = <-opened
	}
	require.NoError(t, j.Close())

	for i, c := range slices.Concat(others, merges) {
		syncs := i % 8
		dir := crash(t, c.dir, func(string) bool {
			syncs--
			return syncs < 0
		})
		control := newControlPlane(t)
		shipAll(t, open(t, config(dir)), control)
		_, sum := control.totals()
		require.Equal(t, c.recorded, sum, "crash %d", i)
		rules := map[uint8]uint64{}
		for n := range uint64(37) {
			for rule := range uint8(3) {
				rules[rule] += control.answered(fmt.Sprintf("1/link%d", n), rule, 0)
			}
		}
		require.Equal(t, map[uint8]uint64{0: (c.recorded + 2) / 3, 1: (c.recorded + 1) / 3, 2: c.recorded / 3}, rules, "crash %d", i)
		require.Empty(t, files(t, filepath.Join(dir, "quarantine"), ""))
	}
}

// compacted segments are what a process with some leaves, made once for all tests.
var folds struct {
	once   sync.Once
	left   left
	clicks uint64
}

// compacted makes a directory with compacted segments of a killed process, and reports
// how many clicks there are.
func folded(t *testing.T) (dir string, sum uint64) {
	t.Helper()
	folds.once.Do(func() {
		cfg := cutOff(t.TempDir())
		cfg.MaxBytes = 64 << 20
		j := open(t, cfg)
		for clicked := newLedger(); len(files(t, cfg.Dir, "compacted")) < 4; folds.clicks += 1_000 {
			clicked.clickAround(t, j, 1_000, 50)
			awaitFolds(t, j, cfg)
		}
		require.NoError(t, j.Close())
		folds.left = leftIn(t, cfg.Dir)
	})
	dir = t.TempDir()
	for name, b := range folds.left {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return dir, folds.clicks
}

func TestCompaction_CompactedSegmentThatRottedIsQuarantinedAndTheOthersAreShipped(t *testing.T) {
	for name, at := range map[string]func(size int) int{
		"in a block":      func(int) int { return 100 },
		"in what follows": func(size int) int { return size - 40 },
		"in its length":   func(size int) int { return size - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			dir, sum := folded(t)
			second := files(t, dir, "compacted")[1]
			change(t, filepath.Join(dir, second), func(b []byte) { b[at(len(b))] ^= 1 })
			counted, registry := shipLeftovers(t, dir)
			require.Equal(t, []string{second}, files(t, filepath.Join(dir, "quarantine"), ""))
			require.Less(t, counted, sum)
			require.Positive(t, counted)
			require.EqualValues(t, 1, metric(t, registry, "waypost_clicks_quarantined_files_total"))
		})
	}
}

// What the newest file says of the others is lost with it.
func TestCompaction_WithoutTheNewestCompactedSegmentNothingOfItsBootIsCountedTwice(t *testing.T) {
	dir, _ := folded(t)
	all := files(t, dir, "compacted")
	newest := all[len(all)-1]
	change(t, filepath.Join(dir, newest), func(b []byte) { b[len(b)-40] ^= 1 })
	shipLeftovers(t, dir)
	require.Equal(t, all, files(t, filepath.Join(dir, "quarantine"), "compacted"))
	require.Empty(t, files(t, dir, "compacted"))
}

func TestCompaction_EveryFlippedByteOfACompactedSegmentIsNoticed(t *testing.T) {
	dir, _ := folded(t)
	name := files(t, dir, "compacted")[0]
	whole := read(t, filepath.Join(dir, name))
	reader, err := clicks.NewCompactedReader()
	require.NoError(t, err)
	defer reader.Close()
	require.NoError(t, reader.Check(whole, -1))
	for at := range whole {
		whole[at] ^= 0x20
		require.Error(t, reader.Check(whole, at), "byte %d", at)
		whole[at] ^= 0x20
	}
	for cut := range whole {
		require.Error(t, reader.Check(whole[:cut], -1), "cut at %d", cut)
	}
}

func FuzzDecodeFold(f *testing.F) {
	sample := clicks.SampleFoot()
	again, err := clicks.ReencodeFoot(sample)
	require.NoError(f, err)
	require.Equal(f, sample, again)
	f.Add(sample)
	f.Fuzz(func(t *testing.T, foot []byte) {
		if again, err := clicks.ReencodeFoot(resum(foot)); err == nil {
			require.Equal(t, resum(foot), again)
		}
	})
}

// A week at 500 clicks a second is 302 million. A tenth of that must fit a tenth of the
// default quota: WAYPOST_WEEK=zipf or uniform.
func TestCompaction_WeekOfClicksFitsTheQuota(t *testing.T) {
	shape := os.Getenv("WAYPOST_WEEK")
	if shape == "" {
		t.Skip("takes minutes: set WAYPOST_WEEK to zipf or uniform")
	}
	const n, links, week = 30_000_000, 1_000_000, 7 * 24 * 3600 * 1000
	control, registry := newControlPlane(t), prometheus.NewPedanticRegistry()
	cfg := clicks.Config{
		Dir: t.TempDir(), Node: "edge-1", SegmentBytes: 1 << 20, MaxBytes: 2 << 30 / 302 * 30, SyncInterval: time.Minute,
		FlushInterval: 10 * time.Millisecond, Profiler: crowd{}, Metrics: registry,
	}
	j := open(t, cfg)
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, links-1)
	want := make([]uint32, links)
	started, most := time.Now(), int64(0)
	for i := range n {
		link := random.Uint64N(links)
		if shape == "zipf" {
			link = zipf.Uint64()
		}
		c := waypost.Click{
			Domain: 1, Code: fmt.Appendf(nil, "%07x", link*2654435761%(1<<28)), At: 1_700_000_000_000 + int64(i)*week/n, Bot: i%8 == 0,
			Agent: agent[:40+random.IntN(60)], Referrer: referrer,
		}
		for k := range 16 {
			c.Address[k] = byte(random.Uint32())
		}
		for !j.TryClick(c) { // faster than any disk: wait for the next segment
			runtime.Gosched()
			if time.Since(started) > 20*time.Minute {
				require.FailNow(t, "there is no room", "after %d clicks", i)
			}
		}
		want[link]++
		if i%1_000_000 == 0 {
			most = max(most, used(t, cfg.Dir))
			t.Logf("%d clicks after %s: %d MB of %d, %d folds", i, time.Since(started).Round(time.Second), used(t, cfg.Dir)>>20, cfg.MaxBytes>>20, len(files(t, cfg.Dir, "compacted")))
		}
	}
	t.Logf("recorded in %s, %d MB at most, of %d", time.Since(started).Round(time.Second), most>>20, cfg.MaxBytes>>20)
	control.lean = true
	require.NoError(t, j.Seal())
	require.NoError(t, j.Ship(t.Context(), control.shipping()))
	require.NoError(t, j.Close())
	t.Logf("shipped after %s", time.Since(started).Round(time.Second))
	got, sum := control.totals()
	require.EqualValues(t, n, sum)
	for link, clicks := range want {
		require.EqualValues(t, clicks, got[fmt.Sprintf("1/%07x", uint64(link)*2654435761%(1<<28))])
	}
}
