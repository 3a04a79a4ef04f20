package edgecredentials_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/api"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

// fleet is a control plane that may be replaced, and edges that reach it at one address.
type fleet struct {
	t       *testing.T
	root    string
	start   func() *devtest.Control
	control atomic.Pointer[devtest.Control]
	wire    *replicationtest.Wire
}

// patience bounds what takes a moment.
const patience = time.Minute

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, root: t.TempDir()}
	database := databases.Database(t)
	f.start = func() *devtest.Control {
		c, err := devtest.StartControl(t, devtest.ControlConfig{
			Database: database, DataDir: filepath.Join(f.root, "control"), Region: "eu-west-1", Node: "control",
		})
		require.NoError(t, err)
		ready, err := c.Ready()
		require.NoError(t, err)
		require.True(t, ready, c.Output())
		return c
	}
	f.control.Store(f.start())
	f.wire = replicationtest.NewWire(t, func() string { return strings.TrimPrefix(f.control.Load().API, "http://") })
	return f
}

// edge starts an edge in a directory.
func (f *fleet) edge(node, dir, addr string, env ...string) *devtest.Edge {
	f.t.Helper()
	e, err := devtest.StartEdge(f.t, devtest.EdgeConfig{
		Control: f.wire.URL(), DataDir: filepath.Join(f.root, dir), Region: "eu-west-1", Node: node, Addr: addr, Env: env,
	})
	require.NoError(f.t, err)
	ready, err := e.Ready()
	require.NoError(f.t, err)
	require.True(f.t, ready, e.Output())
	return e
}

func (f *fleet) ask(method, url, body string) (int, http.Header, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, url, strings.NewReader(body))
	require.NoError(f.t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(f.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, res.Body.Close())
	return res.StatusCode, res.Header, string(text)
}

// made makes a link that all edges have, and returns its code.
func (f *fleet) made(want string) (code string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		status, header, text := f.ask(http.MethodPost, f.control.Load().API+"/api/v1/urls?wait=all&wait_timeout=5", `{"original_url": "https://example.com/"}`)
		var made struct {
			Code    string      `json:"short_code"`
			Applied api.Applied `json:"applied"`
		}
		if status != http.StatusCreated {
			return false // keys wait for an edge
		}
		require.NoError(f.t, json.Unmarshal([]byte(text), &made))
		require.Equal(f.t, strings.Split(header.Get("Waypost-Applied"), ";")[0], made.Applied.Outcome)
		code = made.Code
		return header.Get("Waypost-Applied") == want
	}, patience, 50*time.Millisecond, "a link is on all edges")
	return code
}

// removed deletes a link and returns the outcome of waiting.
func (f *fleet) removed(code, timeout string) string {
	f.t.Helper()
	status, header, text := f.ask(http.MethodDelete, f.control.Load().API+"/api/v1/urls/"+code+"?wait=all&wait_timeout="+timeout, "")
	require.Equal(f.t, http.StatusNoContent, status, text)
	return header.Get("Waypost-Applied")
}

func (f *fleet) stop(e *devtest.Edge) {
	f.t.Helper()
	require.NoError(f.t, e.Stop())
}

// TestWait_SaysAllOfEveryEdgeThatMayServe takes links down while an edge is slow, silent,
// off, unknown to a control plane that was just started, or there twice.
func TestWait_SaysAllOfEveryEdgeThatMayServe(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	slow := filepath.Join(f.root, "slow")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := free.Addr().String()
	require.NoError(t, free.Close())
	one := f.edge("one", "one", at, "FAILPOINT=sync the WAL~"+slow)
	two := f.edge("two", "two", "")

	// A disk that does not answer for longer than an edge may be silent.
	code := f.made("all; edges=2")
	require.NoError(t, os.WriteFile(slow, []byte("10m"), 0o600))
	require.Equal(t, "timeout; behind=one", f.removed(code, "6"))
	require.NoError(t, os.Remove(slow))

	// A silent edge.
	code = f.made("all; edges=2")
	require.NoError(t, unix.Kill(one.PID(), unix.SIGSTOP))
	require.Equal(t, "reachable; silent=one", f.removed(code, "10"))
	began := time.Now()
	require.Equal(t, "reachable; silent=one", f.removed(f.unwaited(), "10"))
	require.Less(t, time.Since(began), 3*time.Second, "at once")
	require.NoError(t, unix.Kill(one.PID(), unix.SIGCONT))

	// An edge that has stopped in order, and starts.
	codes := make([]string, 5)
	for i := range codes {
		codes[i] = f.made("all; edges=2")
	}
	f.stop(one)
	for _, code := range codes {
		require.Equal(t, "all; edges=1", f.removed(code, "10"))
	}
	f.wire.Degrade(replicationtest.Quality{Delay: 60 * time.Millisecond}) // so that it lacks them for a while
	starting := make(chan struct{})
	answers := make(chan int, 1)
	go func() {
		defer close(answers)
		client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for {
			select {
			case <-starting:
				return
			default:
			}
			res, err := client.Get("http://" + at + "/" + codes[len(codes)-1]) //nolint:noctx // it has a timeout
			if err != nil {
				continue // it does not listen
			}
			_ = res.Body.Close()
			answers <- res.StatusCode
			return
		}
	}()
	one = f.edge("one", "one", at, "FAILPOINT=sync the WAL~"+slow)
	select {
	case status := <-answers:
		require.Equal(t, http.StatusGone, status, "its first answer")
	case <-time.After(patience):
		t.Fatal("it does not answer")
	}
	close(starting)
	f.wire.Mend()

	// A control plane that dies right after the first report of an edge.
	code = f.made("all; edges=2")
	three := f.edge("three", "three", "")
	f.control.Load().Kill()
	for _, e := range []*devtest.Edge{one, two, three} {
		require.NoError(t, unix.Kill(e.PID(), unix.SIGSTOP))
	}
	f.control.Store(f.start())
	require.Equal(t, "timeout; behind=one,three,two", f.removed(code, "1"))
	for _, e := range []*devtest.Edge{one, two, three} {
		require.NoError(t, unix.Kill(e.PID(), unix.SIGCONT))
	}
	f.made("all; edges=3")

	// A copy of an edge's disk.
	f.stop(three)
	require.NoError(t, os.CopyFS(filepath.Join(f.root, "copy"), os.DirFS(filepath.Join(f.root, "three"))))
	three = f.edge("three", "three", "")
	f.made("all; edges=3")
	f.edge("three", "copy", "")
	require.Eventually(t, func() bool {
		_, _, text := f.ask(http.MethodGet, f.control.Load().API+"/api/admin/edges", "")
		return strings.Contains(text, fmt.Sprintf(`"twins":[%q]`, three.Addr))
	}, patience, 100*time.Millisecond, "the twin is shown")
	require.Equal(t, "timeout; behind=three", f.removed(f.unwaited(), "1"))
	require.Eventually(t, func() bool {
		return strings.Contains(f.control.Load().Output(), "found several edges that report under one name")
	}, patience, 100*time.Millisecond, "the log warns of it")
	f.stop(three)
	f.made("all; edges=3")
}

// unwaited makes a link, which edges may not have yet.
func (f *fleet) unwaited() string {
	f.t.Helper()
	status, _, text := f.ask(http.MethodPost, f.control.Load().API+"/api/v1/urls", `{"original_url": "https://example.com/"}`)
	require.Equal(f.t, http.StatusCreated, status, text)
	var made struct {
		Code string `json:"short_code"`
	}
	require.NoError(f.t, json.Unmarshal([]byte(text), &made))
	return made.Code
}
