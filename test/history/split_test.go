package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/internal/pgserver"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

// split is a promoted primary and the forgotten old one, each with a control plane, and
// two edges whose connections may lead to either.
type split struct {
	base       string
	first      *pgserver.Server // the old primary
	old, young *devtest.Control // of the old primary, and of the promoted one
	edges      []*swinging

	byOld, byNew map[string]bool // codes that were minted since the promotion
	live         []string        // links of the new primary
	leaving      []string        // links that it has deleted, which edges may not know yet
	deleted      guarded         // the others that it has deleted
}

// swinging is an edge behind a wire.
type swinging struct {
	*devtest.Edge
	wire *replicationtest.Wire
	at   atomic.Pointer[devtest.Control]
}

// swing leads an edge's connections to a control plane.
func (e *swinging) swing(to *devtest.Control) {
	e.at.Store(to)
	e.wire.Break()
}

// guarded holds deleted codes, and what a visitor saw of them.
type guarded struct {
	mu       sync.Mutex
	codes    []string
	returned []string
}

func (g *guarded) add(codes ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.codes = append(g.codes, codes...)
}

func (g *guarded) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.codes[:len(g.codes):len(g.codes)]
}

func (g *guarded) saw(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.returned = append(g.returned, what)
}

func (g *guarded) wrong() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.returned
}

// newSplit fails a primary over to its standby without a loss, and leaves the old primary
// and its control plane running.
func newSplit(t *testing.T) *split {
	in := &split{base: t.TempDir(), byOld: map[string]bool{}, byNew: map[string]bool{}}
	in.first = startServer(t, filepath.Join(in.base, "first"), nil)
	t.Cleanup(func() { stopServer(t, in.first) })
	require.NoError(t, migrations.Up(t.Context(), in.first.URL()))
	in.old, in.young = in.control(t, "old", in.first), in.control(t, "young", in.first)
	for _, node := range []string{"eu-1", "eu-2"} {
		e := &swinging{}
		e.at.Store(in.old)
		e.wire = replicationtest.NewWire(t, func() string { return strings.TrimPrefix(e.at.Load().API, "http://") })
		var err error
		e.Edge, err = devtest.StartEdge(t, devtest.EdgeConfig{
			Control: e.wire.URL(), DataDir: filepath.Join(in.base, node), Region: "eu-west-1", Node: node,
		})
		require.NoError(t, err)
		ready, err := e.Ready()
		require.NoError(t, err)
		require.True(t, ready, e.Output())
		in.edges = append(in.edges, e)
	}
	for range 100 {
		in.live = append(in.live, in.create(t, in.old, ""))
	}
	in.create(t, in.young, "") // it holds a lease as well
	require.NoError(t, in.young.Stop())

	files := filepath.Join(in.base, "second", "data")
	require.NoError(t, os.MkdirAll(filepath.Dir(files), 0o755))
	devtest.BaseBackup(t, devtest.Superuser(in.first), files, filepath.Join(in.base, "first", "data"), "--write-recovery-conf")
	second := startServer(t, filepath.Join(in.base, "second"), nil)
	t.Cleanup(func() { stopServer(t, second) })
	var lsn string
	byHand(t, in.first, func(conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&lsn))
	})
	byHand(t, second, func(conn *pgx.Conn) {
		eventually(t, "the standby has all", func() (err error) {
			var has bool
			err = conn.QueryRow(t.Context(), `SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)`, lsn).Scan(&has)
			if err == nil && !has {
				err = errors.New("it is behind")
			}
			return err
		})
		_, err := conn.Exec(t.Context(), `SELECT pg_promote()`)
		require.NoError(t, err)
	})
	in.young = in.control(t, "young", second)
	return in
}

func (in *split) control(t *testing.T, node string, server *pgserver.Server) *devtest.Control {
	t.Helper()
	c, err := devtest.StartControl(t, devtest.ControlConfig{
		Database: pgservertest.Patient(server.URL()), DataDir: filepath.Join(in.base, node, "data"),
		Region: "eu-west-1", Node: node,
	})
	require.NoError(t, err)
	ready, err := c.Ready()
	require.NoError(t, err)
	require.True(t, ready, c.Output())
	return c
}

// call sends a request to a control plane, an edge or an admin listener.
func call(t *testing.T, method, url, body string) (status int, applied string, text []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(r) // it follows no redirect
	require.NoError(t, err)
	text, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, res.Header.Get(api.HeaderApplied), text
}

// create makes a link, with a minted code or a custom one. A control plane that was just
// started issues no key before it has heard an edge.
func (in *split) create(t *testing.T, c *devtest.Control, custom string) (code string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"original_url": "https://example.com/" + c.Node, "custom_code": custom})
	require.NoError(t, err)
	if custom == "" {
		body = []byte(`{"original_url": "https://example.com/` + c.Node + `"}`)
	}
	eventually(t, c.Node+" makes a link", func() error {
		status, _, text := call(t, http.MethodPost, c.API+"/api/v1/urls", string(body))
		if status == http.StatusServiceUnavailable && bytes.Contains(text, []byte("edge")) && !bytes.Contains(text, []byte("resume")) {
			return fmt.Errorf("%s", text)
		}
		require.Equal(t, http.StatusCreated, status, "%s", text)
		var made struct {
			Code string `json:"short_code"`
		}
		require.NoError(t, json.Unmarshal(text, &made))
		code = made.Code
		return nil
	})
	return code
}

// change makes a link at the new primary and deletes another there.
func (in *split) change(t *testing.T) {
	t.Helper()
	code := in.create(t, in.young, "")
	require.False(t, in.byNew[code] || in.byOld[code], "%s was issued twice", code)
	in.byNew[code] = true
	gone := in.live[0]
	in.live = append(in.live[1:], code)
	status, _, text := call(t, http.MethodDelete, in.young.API+"/api/v1/urls/"+gone, "")
	require.Equal(t, http.StatusNoContent, status, "%s", text)
	in.leaving = append(in.leaving, gone)
}

// takeDown deletes a link at the new primary, and returns once both edges have that, as
// all changes before.
func (in *split) takeDown(t *testing.T) {
	t.Helper()
	var gone string
	next := func() { gone, in.live = in.live[0], in.live[1:] }
	next()
	eventually(t, "both edges follow the new primary", func() error {
		status, applied, text := call(t, http.MethodDelete, in.young.API+"/api/v1/urls/"+gone+"?wait=all", "")
		switch {
		case status == http.StatusNoContent && applied == "all; edges=2":
			return nil
		case status == http.StatusNoContent: // it is deleted; another one asks again
			in.leaving = append(in.leaving, gone)
			next()
			return errors.New(applied)
		}
		return fmt.Errorf("%d: %s", status, text)
	})
	in.deleted.add(append(in.leaving, gone)...)
	in.leaving = nil
}

// watch asks both edges for the deleted links, again and again, until the test stops it.
func (in *split) watch(t *testing.T) (stop func()) {
	end := make(chan struct{})
	var watching sync.WaitGroup
	for _, e := range in.edges {
		watching.Go(func() {
			for {
				for _, code := range in.deleted.all() {
					res, err := http.DefaultTransport.RoundTrip(request("http://" + e.Addr + "/" + code))
					if err != nil {
						in.deleted.saw(e.Node + ": " + err.Error())
						return
					}
					_ = res.Body.Close()
					if res.StatusCode != http.StatusGone {
						in.deleted.saw(fmt.Sprintf("%s: %s answers %d", e.Node, code, res.StatusCode))
					}
				}
				select {
				case <-end:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { close(end); watching.Wait() })
	t.Cleanup(stop)
	return stop
}

func request(url string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		panic(err) // the address is an edge's
	}
	return r
}

// state is a part of /readyz.
type state struct {
	Status    string `json:"status"`
	Position  string `json:"position"`
	Error     string `json:"error"`
	LastError string `json:"last_error"`
}

func readyz(t *testing.T, admin string) (s state, code int) {
	t.Helper()
	code, _, text := call(t, http.MethodGet, admin+"/readyz", "")
	require.NoError(t, json.Unmarshal(text, &s))
	return s, code
}

func epoch(t *testing.T, s state) waypost.Epoch {
	t.Helper()
	p, err := waypost.ParsePosition(s.Position)
	require.NoError(t, err)
	return p.Epoch
}

// requireWaiting looks at an edge in the old primary's view of the fleet.
func (in *split) requireWaiting(t *testing.T, e *swinging) {
	t.Helper()
	eventually(t, "the edge reports that it waits", func() error {
		_, _, text := call(t, http.MethodGet, in.old.API+"/api/admin/edges", "")
		var fleet api.EdgeList
		require.NoError(t, json.Unmarshal(text, &fleet))
		for i := range fleet.Edges {
			if is := &fleet.Edges[i]; is.Node == e.Node && is.Replica == "waiting" && strings.Contains(is.HeldWhy, "another primary was promoted") {
				return nil
			}
		}
		return fmt.Errorf("%s", text)
	})
}

// A primary is failed over and the old one is forgotten. Edges that reach the old one's
// control plane from time to time are neither taken over by it nor do they bring its
// history to the new primary, until an operator prefers the old one.
func TestHistory_ForgottenPrimaryTakesNoEdgeOver(t *testing.T) {
	in := newSplit(t)
	before, _ := readyz(t, in.old.Admin)
	for range 10 { // the edges have not seen the new primary yet
		in.byOld[in.create(t, in.old, "")] = true
	}
	for _, e := range in.edges {
		e.swing(in.young)
	}
	for range 10 {
		in.byOld[in.create(t, in.old, "")] = true
		in.change(t)
	}
	for range 3 {
		in.takeDown(t)
	}
	promoted, status := readyz(t, in.young.Admin)
	require.Equal(t, http.StatusOK, status)
	require.Greater(t, epoch(t, promoted).Ordinal, epoch(t, before).Ordinal)
	stop := in.watch(t)

	var forks []string
	rounds := 5
	if devtest.Long() {
		rounds = 20
	}
	for i := range rounds {
		away := in.edges[i%2 : i%2+1]
		if i%5 == 4 {
			away = in.edges
		}
		for _, e := range away {
			e.swing(in.old)
		}
		for _, e := range away {
			eventually(t, "the edge is refused", func() error {
				require.Empty(t, in.deleted.wrong(), "no deleted link returns")
				if s, _ := readyz(t, e.Admin); !strings.Contains(s.LastError, "another primary was promoted") {
					return errors.New(s.LastError)
				}
				return nil
			})
		}
		s, status := readyz(t, in.old.Admin)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "superseded", s.Status)
		status, _, text := call(t, http.MethodPost, in.old.API+"/api/v1/urls", `{"original_url": "https://example.com/"}`)
		require.Equal(t, http.StatusServiceUnavailable, status, "%s", text)
		for _, e := range away {
			in.requireWaiting(t, e)
		}
		forks = append(forks, in.create(t, in.old, fmt.Sprintf("fork-%d", i)))
		in.change(t) // while an edge is away
		for _, e := range away {
			e.swing(in.young)
		}
		in.takeDown(t)
	}
	stop()
	require.Empty(t, in.deleted.wrong(), "no deleted link returns")
	answer := func(e *swinging, code string) int {
		t.Helper()
		status, _, _ := call(t, http.MethodGet, "http://"+e.Addr+"/"+code, "")
		return status
	}
	for _, e := range in.edges {
		answers := func(code string, want int) {
			t.Helper()
			require.Equal(t, want, answer(e, code), "%s on %s", code, e.Node)
		}
		for _, code := range in.deleted.all() {
			answers(code, http.StatusGone)
		}
		for _, code := range in.live {
			answers(code, http.StatusFound)
		}
		for _, code := range forks {
			answers(code, http.StatusNotFound)
		}
		for code := range in.byOld {
			answers(code, http.StatusNotFound)
			require.False(t, in.byNew[code], "%s was issued twice", code)
		}
	}
	after, status := readyz(t, in.young.Admin)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, epoch(t, promoted), epoch(t, after), "the new primary opens no other epoch")
	after, _ = readyz(t, in.old.Admin)
	require.Equal(t, epoch(t, before), epoch(t, after), "nor does the old one")
	require.Contains(t, in.old.Output(), "refused an edge that has seen a newer epoch of the changelog")
	t.Logf("%d deleted, %d live, %d issued by the old primary and %d by the new one", len(in.deleted.all()), len(in.live), len(in.byOld), len(in.byNew))

	// An operator says that the old primary is the right one.
	require.NoError(t, in.young.Stop())
	r := devtest.Run(t, []string{"WAYPOST_API=" + in.old.API}, "ranges", "resume", "--gap", "1000000")
	require.Zero(t, r.Code, r.Stderr)
	after, status = readyz(t, in.old.Admin)
	require.Equal(t, http.StatusOK, status)
	require.Greater(t, epoch(t, after).Ordinal, epoch(t, promoted).Ordinal)
	code := in.create(t, in.old, "")
	require.False(t, in.byNew[code] || in.byOld[code], "%s was issued twice", code)
	for _, e := range in.edges {
		e.swing(in.old)
		want := map[string]int{code: http.StatusFound}
		for _, code := range forks {
			want[code] = http.StatusFound
		}
		for code := range in.byNew {
			want[code] = http.StatusNotFound
		}
		for code, want := range want { // slot by slot
			eventually(t, e.Node+" follows the old primary", func() error {
				if got := answer(e, code); got != want {
					return fmt.Errorf("%s answers %d and not %d", code, got, want)
				}
				return nil
			})
		}
	}
}
