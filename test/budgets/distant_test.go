package budgets_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/test/devtest"
)

// prompt bounds the time of the control plane's answers while it counts as in reach: a
// visitor waits for two seconds, for the rest of a question under way and for the
// question after it, each 300 ms away. A machine that is busy with other things exceeds
// it, and then visitors try again.
const prompt = 600 * time.Millisecond

// plenty is a limit of which each edge gets a click ahead of need, also the last to ask,
// and also while an edge that has restarted counts twice.
const plenty = 4*(edges+1) + edges

// Edges are near to the control plane and far from it. A quarter of the visits is to
// links for one visitor each, a quarter to links for few visitors, and the others to
// links for more visitors than come.
func TestBudgets_TurnNoVisitorAwayWhileClicksAreLeft(t *testing.T) {
	visits := 160
	if devtest.Long() {
		visits = 10_000
	}
	w := start(t, cluster.Database(t), edges)
	t.Run("restarts leave no accounts of links without visitors", func(t *testing.T) {
		var quiet []*limited
		for i := range 5 {
			quiet = append(quiet, w.createLimited(fmt.Sprintf("quiet-%d", i), plenty))
		}
		held := func(clicks int64) {
			t.Helper()
			require.Eventually(t, func() bool {
				return !slices.ContainsFunc(quiet, func(l *limited) bool { return w.budget(l).Granted != clicks })
			}, waiting, 50*time.Millisecond)
		}
		restarted := w.slots[0]
		for range 2 {
			held(edges)
			require.EqualValues(t, edges*len(quiet), exec(t, w.url, `SELECT count(*) FROM budget_account`))
			require.NoError(t, restarted.edge.Stop())
			held(edges - 1)
			w.startEdge(restarted)
		}
	})
	for i, distance := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
		w.slots[i].distance.Store(int64(distance))
	}
	for _, load := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d other visitors of each edge", load), func(t *testing.T) {
			links, turn := w.createDistant(fmt.Sprintf("under-%d", load), visits)
			stop := w.load(load)
			defer stop()
			for _, s := range w.slots {
				s.slowest.Store(0)
			}
			var next, refused atomic.Int64
			var all sync.WaitGroup
			for n := range edges * 10 {
				s := w.slots[n%edges]
				all.Go(func() {
					client := newClient()
					defer client.CloseIdleConnections()
					for i := int(next.Add(1)) - 1; i < visits; i = int(next.Add(1)) - 1 {
						for !w.follow(t.Context(), client, s, turn(i)) && t.Context().Err() == nil { // the page tries again
							refused.Add(1)
						}
					}
				})
			}
			all.Wait()
			var slowest time.Duration
			for _, s := range w.slots {
				slowest = max(slowest, time.Duration(s.slowest.Load()))
			}
			t.Logf("%d visits of %d visitors were refused, with %d other visits a second at each edge; "+
				"the slowest answer of the control plane took %s", refused.Load(), visits, 100*load, slowest)
			if slowest < prompt {
				require.Zero(t, refused.Load(), "for whom clicks are left")
			}
			var got int64
			for _, l := range links {
				require.LessOrEqual(t, l.got.Load(), l.limit, l.code)
				got += l.got.Load()
			}
			require.EqualValues(t, visits, got, "no visitor was led to the target for exhausted budgets")
		})
	}

	t.Run("the visitor after the last one learns at once that all clicks are spent", func(t *testing.T) {
		client := newClient()
		defer client.CloseIdleConnections()
		for i, s := range w.slots {
			l := w.createLimited(fmt.Sprintf("one-time-%d", i), 1)
			require.Eventually(t, func() bool { return w.visits(s, l, 1) == 1 }, waiting, 10*time.Millisecond)
			require.True(t, w.follow(t.Context(), client, s, l), "it leads to the target for exhausted budgets")
			require.EqualValues(t, 1, l.got.Load())
		}
	})

	t.Run("edges hold clicks of links that nobody visits", func(t *testing.T) {
		large, small := w.createLimited("ahead-large", plenty), w.createLimited("ahead-small", 4*edges-1)
		require.Eventually(t, func() bool { return w.budget(large).Granted == edges }, waiting, 50*time.Millisecond, "one click for each edge")
		require.Zero(t, w.budget(small).Granted)
		for _, s := range w.slots {
			s.cut.Store(true)
		}
		for _, s := range w.slots {
			require.EqualValues(t, 1, w.visits(s, large, 1), "without the control plane")
			require.Zero(t, w.visits(s, small, 1))
			s.cut.Store(false)
		}
	})

	t.Run("clicks that others hold are recalled", func(t *testing.T) {
		l := w.createLimited("recalled", plenty)
		require.Eventually(t, func() bool { return w.budget(l).Granted == edges }, waiting, 50*time.Millisecond)
		busy := w.slots[2]
		require.Eventually(t, func() bool { w.visits(busy, l, 1); return l.got.Load() == l.limit }, waiting, 100*time.Millisecond)
		require.Zero(t, w.visits(busy, l, 3))
	})
}

// createLimited makes a link with a budget, and waits until all edges have it.
func (w *world) createLimited(code string, limit int64) *limited {
	w.t.Helper()
	l := &limited{code: code, limit: limit}
	w.createBudget(l, true)
	return l
}

func (w *world) createBudget(l *limited, wait bool) {
	w.t.Helper()
	path := "/api/v1/urls"
	if wait {
		path += "?wait=all"
	}
	var made api.Link
	w.call(http.MethodPost, path, api.NewLink{
		OriginalURL: target, CustomCode: l.code, MaxClicks: l.limit, MaxClicksMode: "exact", ExhaustedURL: "https://example.com/ended",
	}, &made)
}

// createDistant makes the links for that many visits, and returns the link of a visit.
func (w *world) createDistant(prefix string, visits int) (links []*limited, turn func(visit int) *limited) {
	w.t.Helper()
	const few, many = 3, 20 // visitors of a link
	var single, some, large []*limited
	add := func(to *[]*limited, n int, limit int64) {
		for range n {
			l := &limited{code: fmt.Sprintf("%s-%05d", prefix, len(links)), limit: limit}
			*to, links = append(*to, l), append(links, l)
		}
	}
	add(&single, visits/4+1, 1)
	add(&some, visits/4/few+1, few)
	add(&large, visits/2/many+1, int64(2*visits))
	for i, l := range links {
		w.createBudget(l, i == len(links)-1)
	}
	return links, func(visit int) *limited {
		switch n := visit / 4; visit % 4 {
		case 0:
			return single[n]
		case 1:
			return some[n/few]
		default:
			return large[n%len(large)]
		}
	}
}

// load lets visitors follow a link without a budget at each edge, each a hundred times a
// second, until stop is called.
func (w *world) load(visitors int) (stop func()) {
	var made api.Link
	w.call(http.MethodPost, "/api/v1/urls?wait=all", api.NewLink{OriginalURL: "https://example.com/other"}, &made)
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, s := range w.slots {
		for range visitors {
			all.Go(func() {
				client, other := newClient(), &limited{code: made.ShortCode}
				defer client.CloseIdleConnections()
				pace := time.NewTicker(10 * time.Millisecond)
				defer pace.Stop()
				for {
					select {
					case <-done:
						return
					case <-pace.C:
						w.follow(w.t.Context(), client, s, other)
					}
				}
			})
		}
	}
	return func() { close(done); all.Wait() }
}
