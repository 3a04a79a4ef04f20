package keys_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/keyrange"
	"waypost/test/devtest"
)

// places at which control planes are killed, with how often at most they are passed
// before. Those of "assign a prefix" are passed only by the first of a region.
var (
	firstPlaces = []string{"assign a prefix: begun", "assign a prefix: before commit", "assign a prefix: committed"}
	places      = map[string]int{
		"lease keys: begun": 4, "lease keys: before commit": 4, "lease keys: committed": 4,
		"insert links: begun": 30, "insert links: committed": 30,
		"reserve keys: begun": 6, "reserve keys: committed": 6,
		"return keys: begun": 2, "return keys: before commit": 2, "return keys: committed": 2,
		"reuse keys: begun": 2, "reuse keys: before commit": 2, "reuse keys: committed": 2,
		"change ranges: begun": 2, "change ranges: before commit": 2, "change ranges: committed": 2,
		"return a lease: begun": 1, "return a lease: before commit": 1, "return a lease: committed": 1,
		"burn leases: begun": 1, "burn leases: before commit": 1, "burn leases: committed": 1,
	}
)

// manyKeys names a variable with how many keys clients get at least, such as 1000000,
// while control planes are killed at all places. Without it clients get few, and control
// planes are killed at one place of each act, another one in each run.
const (
	manyKeys = "WAYPOST_KEYS"
	fewKeys  = 1_500
)

const (
	silence     = 5 * time.Second       // after which leases of the dead are burned, instead of a minute
	longestLife = 15 * time.Second      // of a control plane, before it is asked to stop
	pause       = 30 * time.Millisecond // of a client after each request
	loadLimit   = 15 * time.Minute      // of a machine that has much else to do; 30 seconds are usual
)

var regions = []string{"ap-south-1", "eu-west-1", "us-east-1"}

// fleet is control planes in three regions, which are killed and started again all the
// while: four, and in make test-long two in each region.
type fleet struct {
	t        *testing.T
	wanted   int // keys
	database string
	base     string
	coder    *keyrange.Coder
	slots    []*slot
	keys     ledger

	mu     sync.Mutex
	kills  map[string]int
	queue  []string // places, in the order of their turns
	ahead  []listedRange
	errors []error
	acts   int // of the operator that were done
}

// keptLease is logged by a control plane that stops while PostgreSQL has no time:
// its lease is burned like that of one that was killed.
const keptLease = "waypost: give back leased keys: the database did not answer in time"

// slot is the place of one control plane, with a data directory of its own.
type slot struct {
	name, region string

	mu    sync.Mutex
	alive *devtest.Control // nil while there is none
	lives int
}

// node returns the control plane that runs in a slot, nil when there is none.
func (s *slot) node() *devtest.Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

func (f *fleet) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Errorf(format, args...))
}

// turn returns the next place: first those at which no one was killed yet.
func (f *fleet) turn() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.queue, func(a, b string) int { return f.kills[a] - f.kills[b] })
	p := f.queue[0]
	f.queue = append(f.queue[1:], p)
	return fmt.Sprintf("%s=%d", p, rand.IntN(places[p]))
}

// missing is the places at which no one was killed yet.
func (f *fleet) missing() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.queue {
		if f.kills[p] == 0 {
			names = append(names, p)
		}
	}
	return names
}

// live starts a control plane in a slot that is killed at a place, and returns it once
// it answers: nil when it was killed before.
func (f *fleet) live(s *slot, place string) *devtest.Control {
	s.lives++
	c, err := devtest.StartControl(f.t, devtest.ControlConfig{
		Database: f.database, DataDir: dirOf(f.base, s.name), Region: s.region, Node: fmt.Sprintf("%s.%d", s.name, s.lives),
		Env: []string{"FAILPOINT=" + place + ";a control plane is dead after@" + silence.String(), "FAILPOINT=keys of a lease@1000", unhurried},
	})
	if err != nil {
		f.fail("%w", err)
		return nil
	}
	ready, err := c.Ready()
	if err != nil {
		f.fail("%w", err)
	}
	if !ready {
		f.bury(c, place)
		return nil
	}
	return c
}

// bury looks at how a control plane has ended.
func (f *fleet) bury(c *devtest.Control, place string) {
	name, _, _ := strings.Cut(place, "=")
	switch {
	case c.Killed():
		f.mu.Lock()
		f.kills[name]++
		f.mu.Unlock()
	case !c.Succeeded() && !strings.Contains(c.Output(), keptLease):
		f.fail("%s ended by itself:\n%s", c.Node, lastLines(c.Output()))
	}
	if strings.Contains(c.Output(), "WARNING: DATA RACE") {
		f.fail("%s has a race:\n%s", c.Node, c.Output())
	}
}

// keep has a control plane in a slot until ctx ends, one after the other.
func (f *fleet) keep(ctx context.Context, s *slot) {
	for ctx.Err() == nil {
		place := f.turn()
		c := f.live(s, place)
		if c == nil {
			continue
		}
		s.mu.Lock()
		s.alive = c
		s.mu.Unlock()
		life := longestLife
		if strings.HasPrefix(place, "return a lease") {
			life = time.Second + time.Duration(rand.IntN(1000))*time.Millisecond
		}
		select {
		case <-c.Exited():
		case <-time.After(life):
		case <-ctx.Done():
		}
		s.mu.Lock()
		s.alive = nil
		s.mu.Unlock()
		if err := c.Terminate(); err != nil {
			f.fail("%w", err)
		}
		select {
		case <-c.Exited():
		case <-time.After(2 * time.Minute):
			f.fail("%s does not stop", c.Node)
			c.Kill()
		}
		f.bury(c, place)
	}
}

func TestKeys_AreIssuedOnceWhileControlPlanesAreKilledAndRangesMoved(t *testing.T) {
	wanted := fewKeys
	if text := os.Getenv(manyKeys); text != "" {
		var err error
		wanted, err = strconv.Atoi(text)
		require.NoError(t, err, manyKeys)
	}
	f := &fleet{t: t, wanted: wanted, database: databases.Database(t), base: t.TempDir(), coder: coder(t), kills: make(map[string]int)}
	acts := make(map[string]bool)
	for p := range places { // in random order
		act, _, _ := strings.Cut(p, ":")
		if wanted != fewKeys || !acts[act] {
			f.queue = append(f.queue, p)
		}
		acts[act] = true
	}
	slots := 4
	if wanted != fewKeys {
		slots = 2 * len(regions)
	}
	for i := range slots {
		f.slots = append(f.slots, &slot{name: fmt.Sprintf("%s-%d", regions[i%3], i/3), region: regions[i%3]})
	}
	for i, place := range firstPlaces { // while no region has a range
		require.Nil(t, f.live(f.slots[i], place))
	}
	require.Len(t, f.kills, len(firstPlaces), "killed while the first prefixes were assigned")

	began := time.Now()
	nodes, endNodes := context.WithCancel(t.Context())
	load, endLoad := context.WithCancel(t.Context())
	var keepers, clients sync.WaitGroup
	defer func() { endLoad(); endNodes(); clients.Wait(); keepers.Wait() }()
	for _, s := range f.slots {
		keepers.Go(func() { f.keep(nodes, s) })
		clients.Go(func() { f.service(load, s) })
		clients.Go(func() { f.creator(load, s) })
	}
	clients.Go(func() { f.operator(load) })

	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	enough := func() bool { return f.keys.size() >= wanted && len(f.missing()) == 0 }
	for said := began; !enough() && time.Since(began) < loadLimit; <-poll.C {
		if time.Since(said) > 20*time.Second { // a test that is silent for long is ended
			said = time.Now()
			t.Logf("%d keys so far", f.keys.size())
		}
	}
	endLoad()
	clients.Wait()
	endNodes()
	keepers.Wait()
	kills := 0
	for _, n := range f.kills {
		kills += n
	}
	t.Logf("%d keys, %d kills, %d acts of the operator in %s", f.keys.size(), kills, f.acts, time.Since(began).Round(time.Millisecond))
	require.Empty(t, f.errors)
	require.GreaterOrEqual(t, f.keys.size(), wanted)
	require.Empty(t, f.missing(), "places at which no one was killed")
	require.Greater(t, f.acts, 5)
	f.keys.requireNoneTwice(t)
	f.judge()
}
