package keys_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// crowd is 100 clients that create one link after the other.
type crowd struct {
	keys    ledger
	created atomic.Int64
	refused atomic.Int64
	slowest atomic.Int64 // nanoseconds

	mu    sync.Mutex
	wrong map[string]int // answers that no one should get
}

// refusals are the problems that a crowd may be answered with.
var refusals = []string{"urn:waypost:problem:unavailable", "urn:waypost:problem:keys-exhausted"}

// run has them begin; end stops them and waits for the last.
func (c *crowd) run(t *testing.T, api string) (end func()) {
	t.Helper()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 100 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				unless(t.Context(), 100*time.Millisecond)
				began := time.Now()
				code, got := create(t.Context(), api, "")
				note(&c.slowest, time.Since(began))
				switch {
				case got.status == http.StatusCreated:
					c.keys.receive("", code)
					c.created.Add(1)
				case got.status == http.StatusServiceUnavailable && hasRefusal(got.text):
					c.refused.Add(1)
				default:
					c.mu.Lock()
					c.wrong[strconv.Itoa(got.status)+" "+got.text]++
					c.mu.Unlock()
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(stop); wg.Wait() })
}

// note keeps the longest of what takes time.
func note(longest *atomic.Int64, took time.Duration) {
	for old := longest.Load(); int64(took) > old && !longest.CompareAndSwap(old, int64(took)); old = longest.Load() {
	}
}

func hasRefusal(text string) bool {
	for _, r := range refusals {
		if strings.Contains(text, r) {
			return true
		}
	}
	return false
}

func (c *crowd) requireOrder(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.wrong, "answers that are neither a link nor a 503 problem")
	require.Less(t, time.Duration(c.slowest.Load()), 25*time.Second, "the API answers within 5 seconds, unless the machine stands still")
	c.keys.requireNoneTwice(t)
}

func TestPool_IsDrainedWhileLeasesTakeTwoSecondsAndRecoversAtOnce(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	slow := filepath.Join(base, "slow")
	c := start(t, devtest.ControlConfig{
		Database: databases.Database(t), DataDir: dirOf(base, "eu"), Region: "eu-west-1", Node: "eu",
		Env: []string{"FAILPOINT=lease keys: asked~" + slow, "FAILPOINT=keys of a lease@50"},
	})
	_, got := create(t.Context(), c.API, "")
	require.Equal(t, http.StatusCreated, got.status, got.text)
	require.NoError(t, os.WriteFile(slow, []byte("2s"), 0o600))

	all := &crowd{wrong: make(map[string]int)}
	began := time.Now()
	end := all.run(t, c.API)
	defer end()
	eventually(t, "the pool is drained three times", func() bool { return time.Since(began) > 6500*time.Millisecond })
	drained, took := all.created.Load(), time.Since(began)
	// One lease is at hand, the next one may be under way, and each is at most twice as
	// large as the one before.
	require.Less(t, drained, int64(50)<<(took/(2*time.Second)+2), "the lease source was slow")
	require.Positive(t, drained)
	healthy := createsByHand(t, c.API)

	require.NoError(t, os.Remove(slow))
	began = time.Now()
	eventually(t, "creates are fast again", func() bool { return all.created.Load() > drained+1000 })
	recovered := time.Since(began)
	require.Less(t, recovered, 35*time.Second, "1,000 creates, of which the slow source would give 50 in 2 seconds")
	end()
	all.requireOrder(t)
	require.True(t, healthy, "a custom code needs no key and waits for none")
	t.Logf("%d created and %d refused, %d while leases took 2 s; %s after that until 1,000 more; slowest %s",
		all.created.Load(), all.refused.Load(), drained, recovered.Round(time.Millisecond),
		time.Duration(all.slowest.Load()).Round(time.Millisecond))
}

// createsByHand reports whether a link with a code that needs no key is made soon. A
// machine that stands still for long may have the first try be late.
func createsByHand(t *testing.T, api string) bool {
	began := time.Now()
	for tries := range 3 {
		_, got := create(t.Context(), api, fmt.Sprint("chosen-by-hand-", tries))
		if got.status != http.StatusServiceUnavailable {
			return got.status == http.StatusCreated && time.Since(began) < 20*time.Second
		}
	}
	return false
}

func TestSpace_UsedUpAnswers503UntilAnOperatorMovesKeys(t *testing.T) {
	t.Parallel()
	base, database := t.TempDir(), databases.Database(t)
	c := start(t, devtest.ControlConfig{
		Database: database, DataDir: dirOf(base, "eu"), Region: "eu-west-1", Node: "eu",
		Env: []string{
			patient, "FAILPOINT=keys of a lease@50", "WAYPOST_CONTROL_CODE_LENGTH=5", "WAYPOST_CONTROL_REGIONS=eu-west-1,us-east-1",
			"WAYPOST_CONTROL_RATE_LIMIT=0", // refusals are faster than one key may ask
		},
	})
	// No prefix is free, and the region keeps a few hundred counters of its own.
	useUpPrefixes(t, psql(t, database))
	var own, theirs listedRange
	for _, r := range listRanges(t, c.API) {
		switch r.Region {
		case "eu-west-1":
			own = r
		case "us-east-1":
			theirs = r
		}
	}
	changed(t, c.API, step{"action": "move", "range": own.ID, "region": "us-east-1", "at": 1000})

	all := &crowd{wrong: make(map[string]int)}
	end := all.run(t, c.API)
	defer end()
	eventually(t, "all keys are used up", func() bool { return all.created.Load() == 1000 && all.refused.Load() > 200 })
	_, got := create(t.Context(), c.API, "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.text, "keys-exhausted")
	require.Contains(t, got.text, "no keys are left in region eu-west-1")
	_, got = create(t.Context(), c.API, "chosen-by-hand")
	require.Equal(t, http.StatusCreated, got.status, "a custom code needs no key: %s", got.text)

	began := time.Now()
	changed(t, c.API, step{"action": "move", "range": theirs.ID, "region": "eu-west-1", "remainder": true})
	eventually(t, "it goes on", func() bool { return all.created.Load() > 1000 })
	took := time.Since(began)
	eventually(t, "and on", func() bool { return all.created.Load() > 2000 })
	end()
	all.requireOrder(t)
	require.Less(t, took, 20*time.Second)
	t.Logf("the first key %s after the move", took.Round(time.Millisecond))
}
