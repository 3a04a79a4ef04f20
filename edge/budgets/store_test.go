package budgets_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/edge/budgets"
	"waypost/rules/budget"
)

const waitLimit = 30 * time.Second

// control grants clicks as the control plane does. All links have the same limit.
type control struct {
	*httptest.Server

	mu       sync.Mutex
	epoch    uint32
	limit    int64
	away     bool
	refused  int                       // questions while it was away
	state    string                    // instead of open
	accounts map[string]budget.Account // by edge, id and code
	recalled map[string]bool           // codes of links with visitors to whom no click could be granted
	complete []api.EdgeBudgets
	empty    int           // reports without accounts that complete nothing
	answered chan struct{} // gets a token for each report, if it has room
}

func newControl(t *testing.T, limit int64) *control {
	c := &control{epoch: 7, limit: limit, accounts: map[string]budget.Account{}, recalled: map[string]bool{}, answered: make(chan struct{}, 1)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var report api.EdgeBudgets
	if json.NewDecoder(r.Body).Decode(&report) != nil || c.away || r.URL.Path != api.PathEdgeBudgets {
		c.refused += min(1, len(report.Accounts))
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer := api.EdgeGrants{Epoch: c.epoch}
	for _, a := range report.Accounts {
		k := report.Node + "/" + a.ID + "/" + a.Code
		known := c.accounts[k].Merge(budget.Account{Granted: a.Granted, Returned: a.Returned, Spent: a.Spent})
		c.accounts[k] = known
		pool := budget.Pool{Limit: c.limit, Used: c.usedOf(a.Code)}
		if known.Granted == a.Granted && report.Epoch == c.epoch && c.state == "" {
			known.Granted += pool.Grant(a.Want, a.Waiting)
			c.accounts[k] = known
		}
		state := "open"
		if c.usedOf(a.Code) >= c.limit {
			state = "held"
			if a.Waiting > 0 {
				c.recalled[a.Code] = true
			}
		}
		if c.spentOf(a.Code)-known.Spent+known.Used() >= c.limit {
			state = "used"
		}
		if c.state != "" {
			state = c.state
		}
		answer.Grants = append(answer.Grants, api.EdgeGrant{Granted: known.Granted, State: state})
	}
	for code := range c.recalled {
		answer.Recalled = append(answer.Recalled, api.EdgeLink{Domain: 1, Code: code})
	}
	if report.Complete {
		c.complete = append(c.complete, report)
	} else if len(report.Accounts) == 0 {
		c.empty++
	}
	_ = json.NewEncoder(w).Encode(&answer)
	select {
	case c.answered <- struct{}{}:
	default:
	}
}

func (c *control) used() int64 { return c.usedOf("") }

// usedOf returns the clicks of a link that count as used; "": of all links.
func (c *control) usedOf(code string) (used int64) {
	for k, a := range c.accounts {
		if strings.HasSuffix(k, "/"+code) || code == "" {
			used += a.Used()
		}
	}
	return used
}

// spentOf returns the clicks of a link that were reported as spent.
func (c *control) spentOf(code string) (spent int64) {
	for k, a := range c.accounts {
		if strings.HasSuffix(k, "/"+code) {
			spent += a.Spent
		}
	}
	return spent
}

func (c *control) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *control) eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	limit := time.After(waitLimit)
	for {
		c.mu.Lock()
		ok := f()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.answered:
		case <-limit:
			t.Fatal(what)
		}
	}
}

// introduce lets the control plane know an edge, at the price of a click.
func (c *control) introduce(t *testing.T, dir string) {
	t.Helper()
	s, stop := open(t, c, dir)
	defer stop()
	reachable(t, s)
}

// reachable waits until a visit gets a click.
func reachable(t *testing.T, s *budgets.Store) {
	t.Helper()
	require.Eventually(t, func() bool { return visit(t, s, 1) == 1 }, waitLimit, 10*time.Millisecond)
}

// open runs a store until the test or stop ends it.
func open(t *testing.T, c *control, dir string, change ...func(*budgets.Config)) (s *budgets.Store, stop func()) {
	t.Helper()
	cfg := budgets.Config{
		Dir: dir, Node: "edge-a", Boot: newBoot(), URL: c.URL, Client: c.Client(), Interval: 5 * time.Millisecond, Patience: waitLimit,
		Epoch: func() uint32 { return 7 },
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := budgets.Open(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return s, stop
}

var boots atomic.Uint32

func newBoot() waypost.BootID {
	n := boots.Add(1)
	return waypost.BootID{1, byte(n >> 8), byte(n)}
}

var code = []byte("tickets")

// visit makes n visits, and returns how many got a click.
func visit(t *testing.T, s *budgets.Store, n int) (got int) {
	t.Helper()
	for range n {
		if s.Spend(1, code) {
			got++
		} else if spent, _ := s.SpendOrAsk(t.Context(), 1, code); spent {
			got++
		}
	}
	return got
}

func TestStore_SpendsABudgetToTheLastClickAndNoFurther(t *testing.T) {
	c := newControl(t, 300)
	var got atomic.Int64
	var all sync.WaitGroup
	for _, node := range []string{"edge-a", "edge-b", "edge-c"} {
		s, _ := open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.Node, cfg.Idle = node, 10*time.Millisecond })
		for range 4 {
			all.Go(func() { // until the visitors have everything
				for got.Load() < 300 && t.Context().Err() == nil {
					got.Add(int64(visit(t, s, 1)))
				}
			})
		}
	}
	all.Wait()
	require.EqualValues(t, 300, got.Load())
	c.eventually(t, "what was spent is reported", func() bool {
		var spent int64
		for _, a := range c.accounts {
			spent += a.Spent
		}
		return spent == 300
	})
}

func TestStore_SpendDoesNotAllocate(t *testing.T) {
	c := newControl(t, 1_000_000)
	s, _ := open(t, c, t.TempDir())
	require.Equal(t, 100, visit(t, s, 100))
	other := []byte("another-code")
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Spend(1, other); s.Spend(1, code) }))
}

func TestStore_ManyVisitorsAtOnceShareARequest(t *testing.T) {
	c := newControl(t, 1000)
	s, _ := open(t, c, t.TempDir())
	var got atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { got.Add(int64(visit(t, s, 1))) })
	}
	all.Wait()
	require.EqualValues(t, 100, got.Load())
}

// A boot that was killed may have spent everything that it held.
func TestStore_SpendsNothingOfABootThatWasKilled(t *testing.T) {
	c, dir := newControl(t, 64), t.TempDir()
	got := 0
	for range 20 {
		s, stop := open(t, c, dir)
		n := visit(t, s, 5)
		got += n
		s.Kill()
		stop()
	}
	require.LessOrEqual(t, got, 64)
	require.GreaterOrEqual(t, got, 30, "little is burned")

	// PostgreSQL forgets everything: the next boot knows what all others had.
	c.set(func() { clear(c.accounts); c.epoch = 8; c.complete = nil })
	s, _ := open(t, c, dir)
	c.eventually(t, "all accounts are reported", func() bool {
		return len(c.complete) > 0 && c.complete[len(c.complete)-1].Epoch == 8
	})
	c.set(func() { require.GreaterOrEqual(t, c.used(), int64(got)) })
	got += visit(t, s, 64)
	require.LessOrEqual(t, got, 64)
}

func TestStore_GivesBackWhatIsLeft(t *testing.T) {
	c := newControl(t, 100)
	s, stop := open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.Idle = time.Hour })
	require.Equal(t, 20, visit(t, s, 20))
	stop()
	require.Zero(t, visit(t, s, 1), "it is closed")
	c.set(func() { require.EqualValues(t, 20, c.used()) })

	s, _ = open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.Idle = time.Millisecond })
	require.Equal(t, 20, visit(t, s, 20))
	c.eventually(t, "idle clicks are returned", func() bool { return c.used() == 40 })
}

func TestStore_KeepsAClickOfAnExpectedLinkUntilItIsRecalled(t *testing.T) {
	c := newControl(t, 8)
	dir := t.TempDir()
	c.introduce(t, dir)
	quiet, _ := open(t, c, dir, func(cfg *budgets.Config) { cfg.Idle = time.Hour })
	for _, code := range []string{"first", "second"} {
		quiet.Expect(1, []byte(code))
	}
	c.eventually(t, "a click of each is granted", func() bool { return c.usedOf("first") == 1 && c.usedOf("second") == 1 })
	c.set(func() { c.away = true })
	require.Eventually(t, func() bool { return quiet.Spend(1, []byte("second")) }, waitLimit, time.Millisecond, "without the control plane")
	c.set(func() { c.away = false })

	busy, _ := open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.Node = "edge-b" })
	for range 8 {
		require.True(t, seek(t, busy, "first"), "all clicks can be spent at one edge")
	}
	require.False(t, seek(t, busy, "first"))
}

// A click for a visitor who has one would lie idle, and visitors of other edges need it.
func TestStore_GetsNoClickForAVisitorWhoHasOne(t *testing.T) {
	c := newControl(t, 3)
	s, _ := open(t, c, t.TempDir())
	for link := range 300 {
		code := fmt.Sprintf("link-%03d", link)
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range 2 {
			all.Go(func() { <-begin; seek(t, s, code) })
		}
		close(begin)
		all.Wait()
		c.set(func() { require.EqualValues(t, 2, c.usedOf(code), code) })
	}
}

// An edge that crashes at each start would use up the budgets of links without visitors.
func TestStore_AsksForNoClickAheadOfNeedAfterAKill(t *testing.T) {
	c, dir := newControl(t, 1000), t.TempDir()
	c.introduce(t, dir)
	var epoch atomic.Uint32
	epoch.Store(7)
	run := func(change ...func(*budgets.Config)) (s *budgets.Store, stop func()) {
		s, stop = open(t, c, dir, append(change, func(cfg *budgets.Config) { cfg.Epoch = epoch.Load })...)
		s.Expect(1, []byte("quiet"))
		return s, stop
	}
	s, stop := run()
	c.eventually(t, "a click is granted", func() bool { return c.usedOf("quiet") == 1 })
	s.Kill()
	stop()
	for range 3 {
		s, stop = run()
		c.set(func() { c.complete, c.epoch = nil, c.epoch+1; epoch.Store(c.epoch) })
		c.eventually(t, "it has reported", func() bool { return len(c.complete) > 0 })
		require.True(t, seek(t, s, "visited"), "a visitor waits")
		c.set(func() { require.EqualValues(t, 1, c.usedOf("quiet")) })
		s.Kill()
		stop()
	}
	_, stop = run(func(cfg *budgets.Config) { cfg.Caution = time.Millisecond })
	c.eventually(t, "a click is granted", func() bool { return c.usedOf("quiet") == 2 })
	stop()
	c.set(func() { require.EqualValues(t, 1, c.usedOf("quiet")) })
	_, _ = run()
	c.eventually(t, "nothing was killed", func() bool { return c.usedOf("quiet") == 2 })
}

// No click of a small budget is taken from the visitors of other edges.
func TestStore_AsksForNoClickOfASmallBudgetAheadOfNeed(t *testing.T) {
	c := newControl(t, 3)
	s, _ := open(t, c, t.TempDir())
	s.Expect(1, code)
	c.eventually(t, "it has asked", func() bool { return len(c.accounts) > 0 })
	c.set(func() { require.Zero(t, c.used()) })
	require.Equal(t, 3, visit(t, s, 3))
}

// A tick that was due while a question failed comes at once, within the pause after it.
func TestStore_ExpectsALinkAsLongAsQuestionsFail(t *testing.T) {
	c := newControl(t, 1000)
	s, _ := open(t, c, t.TempDir())
	c.eventually(t, "it reports its accounts", func() bool { return len(c.complete) > 0 })
	c.set(func() { c.away = true })
	s.Expect(1, code)
	require.Eventually(t, func() (both bool) {
		c.set(func() { both = c.refused >= 2 })
		return both
	}, waitLimit, time.Millisecond, "both tries of a question have failed")
	c.set(func() { c.away = false })
	c.eventually(t, "a click is granted", func() bool { return c.used() == 1 })
}

func TestStore_SaysNothingWhileNoLinkHasABudget(t *testing.T) {
	c := newControl(t, 3)
	var epoch atomic.Uint32
	epoch.Store(7)
	open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.Epoch = epoch.Load })
	for next := range uint32(3) { // it reports in each epoch
		c.eventually(t, "it reports its accounts", func() bool { return len(c.complete) > int(next) })
		c.set(func() { require.Zero(t, c.empty); c.epoch++; epoch.Store(c.epoch) })
	}
}

func TestStore_WaitsForTheControlPlaneForAMoment(t *testing.T) {
	c := newControl(t, 100)
	held := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(held)
	dir := t.TempDir()
	c.introduce(t, dir)
	s, _ := open(t, c, dir, func(cfg *budgets.Config) { cfg.URL, cfg.Patience = slow.URL, 0 })
	began := time.Now()
	require.Zero(t, visit(t, s, 1))
	require.Less(t, time.Since(began), 4*time.Second)
}

// A control plane that was quick until now, and has much to do at the moment.
func TestStore_WaitsForABusyControlPlane(t *testing.T) {
	c, dir := newControl(t, 100), t.TempDir()
	var delay atomic.Int64
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(delay.Load()))
		c.ServeHTTP(w, r)
	}))
	defer busy.Close()
	s, _ := open(t, c, dir, func(cfg *budgets.Config) { cfg.URL, cfg.Patience = busy.URL, 0 })
	require.Equal(t, 10, visit(t, s, 10))
	delay.Store(int64(1200 * time.Millisecond))
	spent, _ := s.SpendOrAsk(t.Context(), 1, []byte("another"))
	require.True(t, spent)
}

func TestStore_IgnoresAnOlderHistory(t *testing.T) {
	c := newControl(t, 1000)
	var seen atomic.Uint32
	seen.Store(7)
	dir := t.TempDir()
	s, stop := open(t, c, dir, func(cfg *budgets.Config) { cfg.Epoch = seen.Load })
	require.Equal(t, 1, visit(t, s, 1))
	seen.Store(9)
	c.set(func() { c.state = "held" }) // or what it holds would be spent first
	c.eventually(t, "it learns of the epoch", func() bool { return true })
	stop()
	c.set(func() { c.state = "" })
	seen.Store(7)
	s, _ = open(t, c, dir, func(cfg *budgets.Config) { cfg.Epoch, cfg.Patience = seen.Load, time.Second })
	require.Zero(t, visit(t, s, 1), "the next boot remembers it")
	c.set(func() { c.epoch = 9 })
	c.eventually(t, "the newer primary is back", func() bool {
		return len(c.complete) > 0 && c.complete[len(c.complete)-1].Epoch == 9
	})
	reachable(t, s)
}

func TestStore_SpendsNothingWhileItsDiskFails(t *testing.T) {
	c, dir := newControl(t, 1000), filepath.Join(t.TempDir(), "budgets")
	s, _ := open(t, c, dir)
	require.Equal(t, 20, visit(t, s, 20))
	require.NoError(t, os.Rename(dir, dir+".away")) // no new file can be written
	require.NoError(t, s.BreakFile())
	require.Eventually(t, func() bool { return visit(t, s, 1) == 0 }, waitLimit, time.Millisecond, "until the next grant")
	require.Zero(t, visit(t, s, 50))
	require.NoError(t, os.Rename(dir+".away", dir))
	reachable(t, s) // a new file is written
}

// The control plane is away when an edge stops in order.
func TestStore_ReportsClicksThatTheEarlierBootGaveBack(t *testing.T) {
	c, dir := newControl(t, 1000), t.TempDir()
	c.introduce(t, dir)
	metrics := prometheus.NewPedanticRegistry()
	s, stop := open(t, c, dir, func(cfg *budgets.Config) { cfg.Metrics = metrics })
	s.Expect(1, []byte("quiet"))
	c.eventually(t, "a click is granted", func() bool { return counters(t, metrics)["waypost_budget_granted_clicks_total"] == 1 })
	c.set(func() { c.away = true })
	stop()
	c.set(func() { c.away = false; c.complete = nil })
	_, _ = open(t, c, dir)
	c.eventually(t, "it reports", func() bool { return len(c.complete) > 0 })
	c.set(func() { require.Zero(t, c.usedOf("quiet")) })
}

func TestStore_TriesAgainToReadEarlierBoots(t *testing.T) {
	c, dir := newControl(t, 1000), filepath.Join(t.TempDir(), "budgets")
	first, stop := open(t, c, dir)
	require.Equal(t, 20, visit(t, first, 20))
	first.Kill()
	stop()
	metrics := prometheus.NewPedanticRegistry()
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	s, _ := open(t, c, dir, func(cfg *budgets.Config) { cfg.Metrics = metrics })
	require.Zero(t, visit(t, s, 1))
	require.Positive(t, counters(t, metrics)["waypost_budget_failures_total"])
	c.set(func() { c.complete = nil })
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Rename(dir+".away", dir))
	c.eventually(t, "it reports the account of the first boot", func() bool {
		return len(c.complete) > 0 && len(c.complete[len(c.complete)-1].Accounts) > 0
	})
	reachable(t, s)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// Each cut of the file is a state that a crash can leave; a changed byte is damage.
func TestStore_CountsAFileThatItCannotReadAsSpent(t *testing.T) {
	c, dir := newControl(t, 1000), t.TempDir()
	s, stop := open(t, c, dir)
	require.Equal(t, 20, visit(t, s, 20))
	s.Kill()
	stop()
	files, err := filepath.Glob(filepath.Join(dir, "grants-*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	c = newControl(t, 1000) // which no request of the killed boot can reach late

	report := func(dir string) (disk string, used int64) {
		t.Helper()
		c.set(func() { clear(c.accounts); c.complete = nil })
		_, stop := open(t, c, dir)
		defer stop()
		c.eventually(t, "it reports", func() bool { return len(c.complete) > 0 })
		c.set(func() { disk, used = c.complete[0].Disk, c.used() })
		return disk, used
	}
	restart := func(text []byte) (disk string, lost bool, used int64) {
		t.Helper()
		fresh := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(fresh, filepath.Base(files[0])), text, 0o600))
		disk, used = report(fresh)
		aside, err := filepath.Glob(filepath.Join(fresh, "*.unreadable"))
		require.NoError(t, err)
		if len(aside) > 0 { // the control plane hears of it once
			again, _ := report(fresh)
			require.Equal(t, disk, again)
		}
		return disk, len(aside) > 0, used
	}
	first, _, whole := restart(text)
	require.GreaterOrEqual(t, whole, int64(20))
	before := int64(0)
	for n := 0; n <= len(text); n += 13 {
		_, lost, used := restart(text[:n])
		require.False(t, lost)
		require.GreaterOrEqual(t, used, before)
		before = used
	}
	damaged := 0
	for at := 0; at < len(text)/2; at += 17 {
		bad := []byte(strings.Clone(string(text)))
		bad[at] ^= 0x55
		disk, lost, used := restart(bad)
		if lost {
			damaged++
			require.NotEqual(t, first, disk, "byte %d", at)
		} else {
			require.Equal(t, whole, used, "byte %d", at)
		}
	}
	require.Positive(t, damaged)
}

func TestStore_KnowsItsDisk(t *testing.T) {
	c, dir := newControl(t, 1000), t.TempDir()
	disk := func(dir string) (id string) {
		t.Helper()
		c.set(func() { c.complete = nil })
		_, stop := open(t, c, dir)
		defer stop()
		c.eventually(t, "it reports", func() bool { return len(c.complete) > 0 })
		c.set(func() { id = c.complete[0].Disk })
		return id
	}
	first := disk(dir)
	require.Len(t, first, 32)
	require.Equal(t, first, disk(dir))
	require.NotEqual(t, first, disk(t.TempDir()))
}

// A link is deleted and restored, or its budget is switched off and on again.
func TestStore_CountsWhatWasSpentBeforeABudgetWasAway(t *testing.T) {
	for _, state := range []string{"none", "gone"} {
		t.Run(state, func(t *testing.T) {
			c := newControl(t, 8)
			s, _ := open(t, c, t.TempDir())
			require.Equal(t, 3, visit(t, s, 3))
			c.set(func() { c.state = state })
			got := 3
			for before := -1; before < got; { // until the edge has heard of it
				before = got
				got += visit(t, s, 1)
			}
			c.set(func() { c.state = "" })
			require.Eventually(t, func() bool { got += visit(t, s, 1); return got >= 8 }, waitLimit, 10*time.Millisecond)
			require.Zero(t, visit(t, s, 20))
			require.Equal(t, 8, got)
			c.set(func() { require.EqualValues(t, 8, c.used()) })
		})
	}
}

// seek asks for a click of a link until there is one, or none is left.
func seek(t *testing.T, s *budgets.Store, code string) (spent bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var exhausted bool
		spent, exhausted = s.SpendOrAsk(t.Context(), 1, []byte(code))
		return spent || exhausted
	}, waitLimit, time.Millisecond, code)
	return spent
}

func TestStore_ServesMoreLinksThanItHasAccounts(t *testing.T) {
	c := newControl(t, 2)
	s, _ := open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.MaxAccounts, cfg.MaxClosed = 4, 8 })
	for round, want := range []bool{true, true, false} {
		for link := range 40 {
			require.Equal(t, want, seek(t, s, fmt.Sprintf("link-%02d", link)), "link %d, round %d", link, round)
		}
	}
}

// What the edge remembers of links that had nothing left is reported in a new epoch.
func TestStore_ReportsLinksWithoutAccounts(t *testing.T) {
	c, dir := newControl(t, 1), t.TempDir()
	var epoch atomic.Uint32
	epoch.Store(7)
	s, stop := open(t, c, dir, func(cfg *budgets.Config) { cfg.MaxAccounts, cfg.Epoch = 4, epoch.Load })
	for link := range 20 {
		require.True(t, seek(t, s, fmt.Sprintf("link-%02d", link)))
	}
	all := func() bool { return c.epoch == 8 && c.used() == 20 }
	c.set(func() { clear(c.accounts); c.epoch = 8 })
	epoch.Store(8)
	c.eventually(t, "this boot reports them", all)
	stop()
	c.set(func() { clear(c.accounts) })
	_, _ = open(t, c, dir, func(cfg *budgets.Config) { cfg.Epoch = epoch.Load })
	c.eventually(t, "and so does the next", all)
}

func TestStore_CountsLinksThatItHasNoRoomFor(t *testing.T) {
	c := newControl(t, 100)
	metrics := prometheus.NewPedanticRegistry()
	s, _ := open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.MaxAccounts, cfg.Metrics, cfg.Idle = 1, metrics, time.Hour })
	require.Equal(t, 3, visit(t, s, 3), "a click is left, so that the account stays")
	spent, exhausted := s.SpendOrAsk(t.Context(), 1, []byte("another"))
	require.False(t, spent)
	require.False(t, exhausted)
	require.EqualValues(t, 1, counters(t, metrics)["waypost_budget_refusals_total"])
}

// A slow disk delays grants, and no visitor who needs none.
func TestStore_SlowDiskDelaysNoVisitorOfAnotherLink(t *testing.T) {
	c := newControl(t, 1000)
	s, _ := open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.Interval = time.Hour })
	require.Equal(t, 20, visit(t, s, 20)) // and some are left
	syncing, mended := make(chan struct{}, 100), make(chan struct{})
	mend := sync.OnceFunc(func() { close(mended) })
	defer mend()
	s.SlowDisk(func() { syncing <- struct{}{}; <-mended })
	var waiting sync.WaitGroup
	waiting.Go(func() { seek(t, s, "first") })
	<-syncing
	began := time.Now()
	require.True(t, s.Spend(1, code))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	spent, exhausted := s.SpendOrAsk(ctx, 1, []byte("second"))
	require.False(t, spent)
	require.False(t, exhausted)
	spent, _ = s.SpendOrAsk(t.Context(), 1, code)
	require.True(t, spent)
	require.Less(t, time.Since(began), waitLimit/2)
	mend()
	waiting.Wait()
	require.True(t, seek(t, s, "second"))
}

// A click that another edge holds may still be returned.
func TestStore_TakesABudgetForExhaustedOnlyWhenAllClicksAreSpent(t *testing.T) {
	c := newControl(t, 1)
	c.set(func() { c.accounts["edge-b/1/tickets"] = budget.Account{Granted: 1} })
	s, _ := open(t, c, t.TempDir())
	for range 3 {
		spent, exhausted := s.SpendOrAsk(t.Context(), 1, code)
		require.False(t, spent)
		require.False(t, exhausted)
	}
	c.set(func() { c.accounts["edge-b/1/tickets"] = budget.Account{Granted: 1, Spent: 1} })
	require.False(t, seek(t, s, string(code)))
}

func TestStore_KnowsAtOnceThatItHasSpentTheLastClick(t *testing.T) {
	c, dir := newControl(t, 3), t.TempDir()
	c.introduce(t, dir)
	s, _ := open(t, c, dir, func(cfg *budgets.Config) { cfg.Interval = time.Hour })
	for range 2 {
		spent, exhausted := s.SpendOrAsk(t.Context(), 1, code)
		require.True(t, spent)
		require.False(t, exhausted)
	}
	c.set(func() { c.away = true })
	spent, exhausted := s.SpendOrAsk(t.Context(), 1, code)
	require.False(t, spent)
	require.True(t, exhausted)
}

// Another edge may spend a click that was given back.
func TestStore_TakesNoClickThatItGaveBackForSpent(t *testing.T) {
	c, dir := newControl(t, 2), t.TempDir()
	c.introduce(t, dir)
	s, _ := open(t, c, dir)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	s.SlowDisk(sync.OnceFunc(func() { cancel(); <-asked })) // the visitor leaves before the click is there
	spent, _ := s.SpendOrAsk(ctx, 1, code)
	close(asked)
	require.False(t, spent)
	c.eventually(t, "the click is granted", func() bool { return c.used() == 2 })
	c.set(func() { c.recalled[string(code)] = true })
	c.eventually(t, "and given back", func() bool { return c.used() == 1 })
	c.set(func() { c.away = true })
	spent, exhausted := s.SpendOrAsk(t.Context(), 1, code)
	require.False(t, spent)
	require.False(t, exhausted)
}

// An answer that is late is not an answer that all clicks are spent.
func TestStore_WaitsForADistantControlPlane(t *testing.T) {
	c := newControl(t, 1)
	distant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var report api.EdgeBudgets
		_ = json.NewDecoder(r.Body).Decode(&report)
		time.Sleep(300 * time.Millisecond) // the distance
		answer := api.EdgeGrants{Epoch: 7}
		for _, a := range report.Accounts {
			answer.Grants = append(answer.Grants, api.EdgeGrant{Granted: a.Granted + a.Want, State: "open"})
		}
		_ = json.NewEncoder(w).Encode(&answer)
	}))
	defer distant.Close()
	s, _ := open(t, c, t.TempDir(), func(cfg *budgets.Config) { cfg.URL, cfg.Patience, cfg.Interval = distant.URL, 0, 0 })
	reachable(t, s)
	var refused atomic.Int64
	var all sync.WaitGroup
	for visitor := range 2000 {
		all.Go(func() {
			time.Sleep(time.Duration(visitor) * time.Millisecond) // they come at random
			if spent, _ := s.SpendOrAsk(t.Context(), 1, fmt.Appendf(nil, "link-%04d", visitor)); !spent {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	require.Zero(t, refused.Load())
}

func counters(t *testing.T, metrics prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, f := range families {
		counted[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	return counted
}

// A step of the machine's clock must keep no visitor from a budget. Moments that are
// compared are therefore those of the monotonic clock, which no number of seconds has.
func TestStore_MeasuresTimeByTheMonotonicClock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotRegexp(t, `\.(Unix|UnixMilli|UnixMicro|UnixNano|Round)\(`, string(text), file)
	}
}
