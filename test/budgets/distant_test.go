package budgets_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/test/devtest"
)

// Edges are near to the control plane and far from it. Half of the links are for one
// visitor each, and the others for more than come.
func TestBudgets_TurnNoVisitorAwayWhileClicksAreLeft(t *testing.T) {
	visits := 900
	if devtest.Long() {
		visits = 10_000
	}
	w := start(t, cluster.Database(t), edges)
	for i, distance := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
		w.slots[i].distance.Store(int64(distance))
	}
	many := visits / 10
	for i := range visits/2 + many {
		l := &limited{code: fmt.Sprintf("distant-%05d", i), limit: 1}
		if i < many {
			l.limit = int64(2 * visits)
		}
		path := "/api/v1/urls"
		if i == visits/2+many-1 {
			path += "?wait=all"
		}
		var made api.Link
		w.call(http.MethodPost, path, api.NewLink{
			OriginalURL: target, CustomCode: l.code, MaxClicks: l.limit, MaxClicksMode: "exact", ExhaustedURL: "https://example.com/ended",
		}, &made)
		w.links = append(w.links, l)
	}
	var next, again atomic.Int64
	var all sync.WaitGroup
	for n := range edges * 10 {
		s := w.slots[n%edges]
		all.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for i := int(next.Add(1)) - 1; i < visits; i = int(next.Add(1)) - 1 {
				l := w.links[many+i/2]
				if i%2 == 1 {
					l = w.links[i%many]
				}
				for !w.follow(t.Context(), client, s, l) && t.Context().Err() == nil { // the page tries again
					again.Add(1)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d visits, of which %d had to try again", visits, again.Load())
	var got int64
	for _, l := range w.links {
		got += l.got.Load()
	}
	require.EqualValues(t, visits, got, "no visitor was led to the target for exhausted budgets")
	for _, l := range w.links {
		require.LessOrEqual(t, l.got.Load(), l.limit, l.code)
	}
}
