package system_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
	"waypost/test/devtest"
)

// takedowns deletes links and waits for all edges, until it is told to stop.
type takedowns struct {
	edges []string // base URLs
	fresh *http.Client
	codes chan string

	all, late, failed atomic.Int64 // answers by kind
	mu                sync.Mutex
	wrong             []string
}

// remove takes links down one after the other, at most a hundred a second, and asks the
// edges that served before once more as soon as it was told that all have done so. An
// edge that was down meanwhile may serve the state of its disk until it is connected.
func (d *takedowns) remove(ctx context.Context, server *client.Client) {
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for ; ; <-pace.C {
		var code string
		select {
		case <-ctx.Done():
			return
		case code = <-d.codes:
		}
		began := time.Now()
		serving := d.redirected(ctx, d.edges, code)
		receipt, err := server.Links.Remove(ctx, code, client.Write{Wait: "all", Timeout: 2 * time.Second})
		switch {
		case err != nil: // the control plane is down
			d.failed.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		case strings.HasPrefix(receipt.Applied, "all; "):
			d.all.Add(1)
			// One that answers again so soon was not started meanwhile.
			if wrong := d.redirected(ctx, serving, code); len(wrong) > 0 && time.Since(began) < time.Second {
				d.mu.Lock()
				d.wrong = append(d.wrong, fmt.Sprintf("%s after %q: %v", code, receipt.Applied, wrong))
				d.mu.Unlock()
			}
		default:
			d.late.Add(1)
		}
	}
}

// redirected returns the edges that answer and redirect a code.
func (d *takedowns) redirected(ctx context.Context, edges []string, code string) (some []string) {
	for _, edge := range edges {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, edge+"/"+code, http.NoBody)
		if err != nil {
			panic(err) // the URL is an edge's
		}
		res, err := d.fresh.Do(req)
		if err != nil {
			continue // it does not serve
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusFound {
			some = append(some, edge)
		}
	}
	return some
}

// answered waits until five more takedowns have been answered.
func (d *takedowns) answered(t *testing.T) {
	t.Helper()
	before := d.all.Load()
	eventually(t, time.Minute, "answered", func() bool { return d.all.Load() >= before+5 })
}

// TestWait_LeavesOutNoEdgeThatServes restarts edges in every way, and control planes,
// while links are taken down.
func TestWait_LeavesOutNoEdgeThatServes(t *testing.T) {
	t.Parallel()
	rounds, links := 2, 2_000
	if devtest.Long() {
		rounds, links = 20, 40_000 // 120 restarts of edges, 20 of control planes
	}
	s := devtest.Start(t, devtest.Config{})
	server, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	d := &takedowns{
		codes: make(chan string, links),
		fresh: &http.Client{
			Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, e := range s.State().Edges {
		d.edges = append(d.edges, e.URL)
	}
	last := ""
	for n := 0; n < links; n += 1000 {
		batch := make([]client.NewLink, 1000)
		for i := range batch {
			batch[i].OriginalURL = "https://example.com/"
		}
		var made []api.LinkOutcome
		persist(t, func() (err error) { made, err = server.Links.CreateBulk(t.Context(), batch); return err })
		for i := range made {
			last = made[i].ShortCode
			require.NotEmpty(t, last)
			d.codes <- last
		}
	}
	for _, edge := range d.edges {
		eventually(t, time.Minute, "on all edges", func() bool {
			status, _, err := location(t.Context(), edge+"/"+last)
			return err == nil && status == http.StatusFound
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	var removing sync.WaitGroup
	defer func() { stop(); removing.Wait() }()
	for range 2 {
		removing.Go(func() { d.remove(ctx, server) })
	}

	restarted := func(what string, pid func(devtest.State) int, restart func(pid int)) {
		t.Helper()
		d.answered(t)
		old := pid(s.State())
		restart(old)
		s.Await("with another "+what, func(st devtest.State) bool { return pid(st) > 0 && pid(st) != old })
		d.answered(t)
	}
	renewed := func() {
		t.Helper()
		d.answered(t)
		s.RenewEdges()
		d.answered(t)
	}
	edge := func(i int) func(devtest.State) int { return func(st devtest.State) int { return int(st.Edges[i].PID) } }
	for i := range rounds {
		renewed()
		restarted("edge after a stop", edge(i%2), func(pid int) { devtest.StopProcess(t, pid) })
		restarted("edge after a kill", edge(1-i%2), func(pid int) { devtest.KillProcess(t, pid) })
		renewed()
		restarted("control plane", func(st devtest.State) int { return int(st.Control.PID) }, func(pid int) { devtest.KillProcess(t, pid) })
	}
	stop()
	removing.Wait()
	t.Logf("%d takedowns on all edges, %d late, %d failed", d.all.Load(), d.late.Load(), d.failed.Load())
	require.Empty(t, d.wrong)
}
