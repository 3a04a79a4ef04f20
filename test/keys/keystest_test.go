// Package keys_test proves on real control planes and a real PostgreSQL that no
// key is ever issued twice: while processes are killed and operators rebalance, after a
// restore, and when leases are slow or used up.
package keys_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
	"waypost/test/devtest"
)

var databases = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) {
	code := databases.Main(m)
	if err := devtest.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// requestLimit bounds the time of every answer: the API's own 5 seconds, or a
// minute when it is patient, and some for a busy machine.
const requestLimit = 90 * time.Second

var requester = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: requestLimit}

// answer is the outcome of a request. Status is 0 when there was no answer.
type answer struct {
	status int
	text   string
}

// ask sends one request and reads the answer to it into out, when it was a good one.
func ask(ctx context.Context, method, url string, body, out any) answer {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return answer{text: err.Error()}
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return answer{text: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := requester.Do(req)
	if err != nil {
		return answer{text: err.Error()}
	}
	got, err := io.ReadAll(res.Body)
	if err2 := res.Body.Close(); err == nil {
		err = err2
	}
	if err == nil && res.StatusCode < 300 && out != nil {
		err = json.Unmarshal(got, out)
	}
	if err != nil {
		return answer{text: err.Error()}
	}
	return answer{status: res.StatusCode, text: string(got)}
}

type linkWish struct {
	OriginalURL string `json:"original_url"`
	CustomCode  string `json:"custom_code,omitempty"`
}

const someTarget = "https://example.com/some/where"

// create makes one link; custom is its code, "" for one that is minted.
func create(ctx context.Context, api, custom string) (string, answer) {
	var link struct {
		Code string `json:"short_code"`
	}
	got := ask(ctx, http.MethodPost, api+"/api/v1/urls", linkWish{OriginalURL: someTarget, CustomCode: custom}, &link)
	return link.Code, got
}

// createMany makes links in bulk and returns the codes of those that were made.
func createMany(ctx context.Context, api string, n int) ([]string, answer) {
	var made struct {
		Results []struct {
			Link *struct {
				Code string `json:"short_code"`
			} `json:"link"`
		} `json:"results"`
	}
	links := slices.Repeat([]linkWish{{OriginalURL: someTarget}}, n)
	got := ask(ctx, http.MethodPost, api+"/api/v1/urls/bulk", map[string]any{"links": links}, &made)
	var codes []string
	for _, r := range made.Results {
		if r.Link != nil {
			codes = append(codes, r.Link.Code)
		}
	}
	return codes, got
}

// reserve reserves n keys for a service.
func reserve(ctx context.Context, api, service string, n int) ([]string, answer) {
	var got struct {
		Keys []string `json:"keys"`
	}
	a := ask(ctx, http.MethodPost, api+"/api/v1/kgs/keys/bulk", map[string]any{"count": n, "service": service}, &got)
	return got.Keys, a
}

// ledger is all keys that clients have received. Any goroutine may use it.
type ledger struct {
	mu    sync.Mutex
	keys  map[string]*entry
	twice []string // keys that came to a client although another had them
}

type entry struct {
	node     string // that has issued it; "" for a code that a client chose
	reserved bool   // a service holds it, so that its workspace may choose it, once
	chosen   bool   // a client has chosen it as the code of a link
	back     bool   // it was given back, or may have been, so that it may come again
}

// receive notes keys of links that a client got from a node.
func (l *ledger) receive(node string, keys ...string) { l.note(entry{node: node}, keys) }

// reserve notes keys that a service got from a node.
func (l *ledger) reserve(node string, keys ...string) {
	l.note(entry{node: node, reserved: true}, keys)
}

// choose notes codes that a client has chosen and got.
func (l *ledger) choose(keys ...string) { l.note(entry{chosen: true}, keys) }

func (l *ledger) note(got entry, keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = make(map[string]*entry)
	}
	for _, k := range keys {
		switch e := l.keys[k]; {
		case e == nil:
			one := got
			l.keys[k] = &one
		case got.reserved && e.back:
			e.back = false
		case got.chosen && e.reserved && !e.chosen: // published, if PostgreSQL says so too
			e.chosen = true
		case got.reserved && e.chosen && !e.reserved: // the same, but its answer came first
			e.node, e.reserved = got.node, true
		default:
			l.twice = append(l.twice, fmt.Sprintf("%s as %+v, after %+v", k, got, *e))
		}
	}
}

// mark notes that keys are given back, or, when that was refused, are not.
func (l *ledger) mark(back bool, keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if e := l.keys[k]; e != nil {
			e.back = back
		}
	}
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}

// requireNoneTwice is the point of it all.
func (l *ledger) requireNoneTwice(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.twice[:min(5, len(l.twice))], "%d of %d keys came twice", len(l.twice), len(l.keys))
}

// A control plane is patient when no request and no write is given up because the machine
// stands still, and unhurried when it waits for the database also at its end.
const (
	patient   = "FAILPOINT=a request takes at most@1m;a write takes at most@1m"
	unhurried = "FAILPOINT=a stop takes at most@20s"
)

// start runs a control plane and waits for it.
func start(t *testing.T, cfg devtest.ControlConfig) *devtest.Control {
	t.Helper()
	c, err := devtest.StartControl(t, cfg)
	require.NoError(t, err)
	ready, err := c.Ready()
	require.NoError(t, err)
	require.True(t, ready, c.Output())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of %s:\n%s", c.Node, lastLines(c.Output()))
		}
		requireNoRace(t, c)
	})
	return c
}

func requireNoRace(t *testing.T, c *devtest.Control) {
	t.Helper()
	if i := strings.Index(c.Output(), "WARNING: DATA RACE"); i >= 0 {
		t.Errorf("%s: %s", c.Node, c.Output()[i:])
	}
}

func lastLines(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// ranges runs a command of `waypost ranges` against an API.
func ranges(t *testing.T, api string, args ...string) devtest.Result {
	t.Helper()
	return devtest.Run(t, []string{"WAYPOST_API=" + api}, append([]string{"ranges"}, args...)...)
}

// rangesDone is ranges for what must succeed.
func rangesDone(t *testing.T, api string, args ...string) string {
	t.Helper()
	r := ranges(t, api, args...)
	require.Zero(t, r.Code, "%v: %s%s", args, r.Stdout, r.Stderr)
	return r.Stdout
}

// listedRange is a range as the API shows it.
type listedRange struct {
	ID     int64
	Prefix string
	Lo, Hi int64
	Next   int64
	Region string
	State  string
}

func listRanges(t *testing.T, api string) []listedRange {
	t.Helper()
	var space struct{ Ranges []listedRange }
	got := ask(t.Context(), http.MethodGet, api+"/api/admin/ranges", nil, &space)
	require.Equal(t, http.StatusOK, got.status, got.text)
	return space.Ranges
}

// step is an act of an operator.
type step map[string]any

// change does steps through the API.
func change(t *testing.T, api string, steps ...step) answer {
	t.Helper()
	return ask(t.Context(), http.MethodPost, api+"/api/admin/ranges/changes", map[string]any{"steps": steps}, nil)
}

// changed is change for what must succeed.
func changed(t *testing.T, api string, steps ...step) {
	t.Helper()
	got := change(t, api, steps...)
	require.Equal(t, http.StatusOK, got.status, "%v: %s", steps, got.text)
}

// psql connects to a database as superuser.
func psql(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	cfg.User = "postgres"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be gone
	return conn
}

// coder is that of every cluster with codes of 7 characters.
func coder(t *testing.T) *keyrange.Coder {
	t.Helper()
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	return keyrange.NewCoder(space, devtest.ClusterSecret)
}

// eventually tries until it holds, for 60 seconds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(30 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(60 * time.Second); !holds(); <-poll.C {
		require.True(t, time.Now().Before(end), "%s: not within 60 seconds", what)
	}
}

// dirOf is the data directory of a control plane.
func dirOf(base, name string) string { return filepath.Join(base, name) }
