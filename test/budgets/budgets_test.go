// Package budgets_test counts what visitors get of click budgets, while edges and the
// control plane are killed and cut off from one another.
package budgets_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/test/devtest"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	if err := devtest.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	edges    = 3
	visitors = 2 // of each edge
	window   = 8 // links that are visited at a time
	target   = "https://example.com/target"
	waiting  = 90 * time.Second
)

// limited is a link with a budget.
type limited struct {
	code  string
	limit int64
	got   atomic.Int64 // visitors who were led to the target
}

// slot is the place of one edge, which is killed and started again, behind a proxy that
// can be cut.
type slot struct {
	node, dir string
	proxy     *httptest.Server
	cut       atomic.Bool
	distance  atomic.Int64 // to the control plane: nanoseconds of a round trip
	slowest   atomic.Int64 // answer of the control plane to a report of budgets: nanoseconds
	addr      atomic.Pointer[string]
	edge      *devtest.Edge // its own goroutine's
}

// world is one control plane with its edges.
type world struct {
	t       *testing.T
	url     string // of the database
	dir     string
	control atomic.Pointer[url.URL]
	plane   *devtest.Control
	slots   []*slot
	links   []*limited
}

// start starts a control plane on a database, and edges.
func start(t *testing.T, url string, edges int) *world {
	t.Helper()
	w := &world{t: t, url: url, dir: t.TempDir()}
	w.startControl()
	for n := range edges {
		s := &slot{node: fmt.Sprintf("edge-%d", n), dir: filepath.Join(w.dir, fmt.Sprintf("edge-%d", n))}
		pass := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(w.control.Load()) }, FlushInterval: -1,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
			ErrorLog:     log.New(io.Discard, "", 0), // streams end all the time
		}
		s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.cut.Load() {
				panic(http.ErrAbortHandler)
			}
			if d := time.Duration(s.distance.Load()); d > 0 {
				select {
				case <-time.After(d):
				case <-r.Context().Done():
				}
			}
			began := time.Now()
			pass.ServeHTTP(w, r)
			if r.URL.Path == api.PathEdgeBudgets {
				s.slowest.Store(max(s.slowest.Load(), int64(time.Since(began))))
			}
		}))
		t.Cleanup(func() { s.proxy.CloseClientConnections(); s.proxy.Close() })
		w.slots = append(w.slots, s)
		w.startEdge(s)
	}
	return w
}

func (w *world) startControl() {
	c, err := devtest.StartControl(w.t, devtest.ControlConfig{
		Database: w.url, DataDir: filepath.Join(w.dir, "control"), Region: "eu", Node: "control-1",
	})
	require.NoError(w.t, err)
	ready, err := c.Ready()
	require.NoError(w.t, err)
	require.True(w.t, ready, c.Output())
	at, err := url.Parse(c.API)
	require.NoError(w.t, err)
	w.control.Store(at)
	w.plane = c
}

func (w *world) startEdge(s *slot) {
	e, err := devtest.StartEdge(w.t, devtest.EdgeConfig{Control: s.proxy.URL, DataDir: s.dir, Region: "eu", Node: s.node})
	require.NoError(w.t, err)
	ready, err := e.Ready()
	require.NoError(w.t, err)
	require.True(w.t, ready, e.Output())
	s.edge = e
	addr := e.Addr
	s.addr.Store(&addr)
}

// call sends a request to the control plane.
func (w *world) call(method, path string, body, answer any) {
	w.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(w.t, err)
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.control.Load().String()+path, bytes.NewReader(text))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, res.Body.Close()) }()
	read, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.Less(w.t, res.StatusCode, 300, "%s %s: %s", method, path, read)
	require.NoError(w.t, json.Unmarshal(read, answer))
}

// create makes the links of the test: one-time links among them.
func (w *world) create(n int) {
	for i := range n {
		l := &limited{code: fmt.Sprintf("limited-%03d", i), limit: 1 + int64(i*i%61)}
		if i%3 == 2 {
			l.limit = 1
		}
		path := "/api/v1/urls"
		if i == n-1 {
			path += "?wait=all"
		}
		var made api.Link
		w.call(http.MethodPost, path, api.NewLink{
			OriginalURL: target, CustomCode: l.code, MaxClicks: l.limit, MaxClicksMode: "exact", ExhaustedURL: "https://example.com/ended",
		}, &made)
		w.links = append(w.links, l)
	}
}

// newClient returns a client that follows no redirect.
func newClient() *http.Client {
	return &http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// visitor follows links until ctx ends; those between from and from + window, where from
// moves on.
func (w *world) visitor(ctx context.Context, s *slot, from *atomic.Int64) {
	client := newClient()
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		first := int(from.Load())
		l := w.links[min(first+rand.IntN(window), len(w.links)-1)]
		w.follow(ctx, client, s, l)
		select { // a thousand visits a second are enough
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// follow visits a link, and counts where it led.
func (w *world) follow(ctx context.Context, client *http.Client, s *slot, l *limited) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+*s.addr.Load()+"/"+l.code, http.NoBody)
	if err != nil {
		return false
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0")
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	if res.Header.Get("Location") == target {
		l.got.Add(1)
	}
	return res.StatusCode == http.StatusFound
}

// exhaust follows links until no edge leads to their targets any more.
func (w *world) exhaust(ctx context.Context, links []*limited) {
	next := make(chan *limited)
	var all sync.WaitGroup
	for range edges * visitors {
		all.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for l := range next {
				for before := int64(-1); before < l.got.Load() && ctx.Err() == nil; {
					before = l.got.Load()
					for _, s := range w.slots {
						w.follow(ctx, client, s, l)
					}
				}
			}
		})
	}
	for _, l := range links {
		next <- l
	}
	close(next)
	all.Wait()
}

// budget returns the state of a link's budget.
func (w *world) budget(l *limited) *api.Budget {
	var shown api.Link
	w.call(http.MethodGet, "/api/v1/urls/"+l.code, nil, &shown)
	require.NotNil(w.t, shown.Budget)
	return shown.Budget
}

// strike kills edges and cuts them off, until ctx ends. Then everything runs again.
func (w *world) strike(ctx context.Context) {
	pause := func(most time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(most/2 + rand.N(most/2)):
		}
	}
	for ctx.Err() == nil {
		s := w.slots[rand.IntN(edges)]
		switch rand.IntN(5) {
		case 0, 1:
			s.edge.Kill()
			<-s.edge.Exited()
			w.startEdge(s)
		case 2, 3:
			s.cut.Store(true)
			s.proxy.CloseClientConnections()
			pause(time.Second)
			s.cut.Store(false)
		case 4:
			w.plane.Kill()
			<-w.plane.Exited()
			w.startControl()
		}
		pause(600 * time.Millisecond)
	}
}

// TestBudgets_HoldWhileEdgesAreKilledAndCutOff finds this defect: clicks that an edge
// holds and has not spent yet are granted to another edge as well.
func TestBudgets_HoldWhileEdgesAreKilledAndCutOff(t *testing.T) {
	length, links := 6*time.Second, 45
	if devtest.Long() {
		length, links = time.Minute, 300
	}
	w := start(t, cluster.Database(t), edges)
	w.create(links)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var from atomic.Int64
	var all sync.WaitGroup
	for _, s := range w.slots {
		for range visitors {
			all.Go(func() { w.visitor(ctx, s, &from) })
		}
	}
	all.Go(func() {
		step := time.NewTicker(length / time.Duration(links))
		defer step.Stop()
		for ctx.Err() == nil {
			select {
			case <-step.C:
				from.Add(1)
			case <-ctx.Done():
			}
		}
	})
	w.strike(ctx)
	all.Wait()

	for _, l := range w.links {
		require.LessOrEqual(t, l.got.Load(), l.limit, l.code)
	}

	// Everything runs again: what is left can be had, and what was spent is known. How far
	// the visitors came before depends on the machine.
	ctx, cancel = context.WithTimeout(t.Context(), 3*waiting)
	defer cancel()
	// An edge returns clicks that no visitor takes, so all are looked at until none
	// has anything left.
	granted := make(map[*limited]int64)
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for ; ; <-poll.C {
		var left []*limited
		for _, l := range w.links {
			b := w.budget(l)
			if granted[l] = b.Granted; b.Granted < b.Limit {
				left = append(left, l)
			}
		}
		t.Logf("%d budgets have clicks left", len(left)) // a test that is silent for long is ended
		if len(left) == 0 {
			break
		}
		w.exhaust(ctx, left)
		require.NoError(t, ctx.Err(), "%d budgets do not end", len(left))
	}

	var got, limits int64
	for _, l := range w.links {
		n := l.got.Load()
		require.LessOrEqual(t, n, l.limit, l.code)
		shown := w.budget(l)
		require.Equal(t, l.limit, shown.Limit)
		require.LessOrEqual(t, n, *shown.AtMost)
		require.Equal(t, l.limit, granted[l])
		require.Equal(t, l.limit, *shown.AtMost)
		got += n
		limits += l.limit
	}
	t.Logf("visitors got %d of %d clicks", got, limits)
	require.Greater(t, got, limits/2, "little is burned")
}
