package httpapi_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

// listen opens a live stream. Next returns its next event of a kind, and its data.
func (a *testAPI) listen(key string) (res *http.Response, next func(kind string) string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
	a.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/api/v1/live", http.NoBody)
	require.NoError(a.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	res, err = http.DefaultClient.Do(r)
	require.NoError(a.t, err)
	a.t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	return res, func(kind string) string {
		a.t.Helper()
		for lines.Scan() {
			if lines.Text() != "event: "+kind {
				continue
			}
			require.True(a.t, lines.Scan())
			return strings.TrimPrefix(lines.Text(), "data: ")
		}
		require.NoError(a.t, lines.Err(), "no %s came", kind)
		a.t.Fatalf("the stream ended before %s came", kind)
		return ""
	}
}

func TestLive_TellsOfClicksAndNewLinks(t *testing.T) {
	f := &statistics{news: controlplane.News{Clicks: 3, NewestLink: 7}}
	a := startWithStats(t, f)
	res, next := a.listen(readKey)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Equal(t, "no-store, no-transform", res.Header.Get("Cache-Control"))
	require.Equal(t, "no", res.Header.Get("X-Accel-Buffering"), "nginx would gather events")
	require.Empty(t, res.Header.Get("RateLimit-Limit"), "a stream takes no request of the rate")
	require.JSONEq(t, `{"clicks": 3, "newest_link": "7"}`, next("workspace"))
	f.mu.Lock()
	f.news.Clicks++
	f.mu.Unlock()
	require.JSONEq(t, `{"clicks": 4, "newest_link": "7"}`, next("workspace"))
}

func TestLive_GivesEdgesToOperatorsAlone(t *testing.T) {
	a := start(t)
	_, next := a.listen(operatorKey)
	require.Contains(t, next("edges"), `"edges":`)
	_, next = a.listen(strangerKey)
	// The first heartbeat comes after the first state of the fleet.
	lines := make(chan string, 1)
	go func() { lines <- next("heartbeat") }()
	select {
	case line := <-lines:
		require.Empty(t, line)
	case <-time.After(10 * time.Second):
		t.Fatal("no heartbeat came")
	}
}

func TestLive_EndsWithItsCredential(t *testing.T) {
	t.Parallel() // waits for a heartbeat
	revoked := make(chan struct{})
	a := start(t, func(l *links, _ *httpapi.Config) {
		l.onAuthenticate = func(context.Context) error {
			select {
			case <-revoked:
				return waypost.Errorf(waypost.EUnauthorized, "the key is not valid")
			default:
				return nil
			}
		}
	})
	_, next := a.listen(readKey)
	require.Empty(t, next("heartbeat"))
	close(revoked)
	require.Equal(t, "{}", next("ended"))
}

func TestLive_EndsWhenTheControlPlaneStops(t *testing.T) {
	stopping := make(chan struct{})
	a := start(t, func(_ *links, c *httpapi.Config) { c.Stopping = stopping })
	res, next := a.listen(readKey)
	require.Empty(t, next("heartbeat"))
	close(stopping)
	_, err := bufio.NewReader(res.Body).ReadString(0)
	require.ErrorContains(t, err, "EOF")
}

func TestLive_BoundsStreams(t *testing.T) {
	a := start(t)
	for range 16 {
		res, next := a.listen(readKey)
		require.Equal(t, http.StatusOK, res.StatusCode)
		next("heartbeat")
	}
	res, _ := a.listen(readKey)
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	res, _ = a.listen(fullKey)
	require.Equal(t, http.StatusOK, res.StatusCode, "another key has its own")
}

// untilHeartbeat returns the kinds of a stream's events up to the next heartbeat.
func untilHeartbeat(t *testing.T, lines *bufio.Scanner) (kinds []string) {
	t.Helper()
	for lines.Scan() {
		kind, ok := strings.CutPrefix(lines.Text(), "event: ")
		if !ok {
			continue
		}
		if kinds = append(kinds, kind); kind == "heartbeat" {
			return kinds
		}
	}
	t.Fatalf("the stream ended after %v: %v", kinds, lines.Err())
	return nil
}

// A credential that may not read statistics gets none that others of its workspace have
// asked for.
func TestLive_GivesNewsToThoseWhoMayReadThem(t *testing.T) {
	a := startWithStats(t, &statistics{news: controlplane.News{Clicks: 3, NewestLink: 7}})
	_, next := a.listen(readKey)
	next("workspace")
	res, _ := a.listen(writeKey)
	require.Equal(t, []string{"heartbeat"}, untilHeartbeat(t, bufio.NewScanner(res.Body)))
}

func TestLive_EndsTheStateOfEdgesWithTheOperator(t *testing.T) {
	t.Parallel() // waits for heartbeats
	var demoted atomic.Bool
	a := start(t, func(l *links, _ *httpapi.Config) {
		l.onActor = func(by controlplane.Actor) controlplane.Actor {
			if demoted.Load() {
				by.Scopes = []controlplane.Scope{controlplane.ScopeLinksRead}
			}
			return by
		}
	})
	res, _ := a.listen(operatorKey)
	lines := bufio.NewScanner(res.Body)
	require.Contains(t, untilHeartbeat(t, lines), "edges")
	demoted.Store(true)
	untilHeartbeat(t, lines)
	require.Equal(t, []string{"heartbeat"}, untilHeartbeat(t, lines))
}

// Streams that come and go one after another read the database no more often than one
// that stays, because they do not count as requests.
func TestLive_StreamsThatComeAndGoShareALook(t *testing.T) {
	f := &statistics{news: controlplane.News{Clicks: 3, NewestLink: 7}}
	a := startWithStats(t, f)
	began := time.Now()
	for range 20 {
		res, next := a.listen(readKey)
		next("workspace")
		require.NoError(t, res.Body.Close())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.LessOrEqual(t, f.looks, 1+int(time.Since(began)/(500*time.Millisecond)))
}

func TestRoot_SendsBrowsersToTheConsole(t *testing.T) {
	console := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("console " + r.URL.Path)) })
	a := start(t, func(_ *links, c *httpapi.Config) { c.Console = console })
	res := a.do(call{path: "/", key: "none", header: map[string]string{"Accept": "text/html,application/xhtml+xml"}})
	require.Equal(t, http.StatusFound, res.StatusCode)
	require.Equal(t, "/console", res.Header.Get("Location"))
	require.Equal(t, 200, a.do(call{path: "/", key: "none"}).StatusCode, "programs get the name of the service")
	for _, path := range []string{"/console", "/console/", "/console/links/a"} {
		require.Equal(t, "console "+path, a.do(call{path: path, key: "none"}).text)
	}
}

// leftNodes answers its first question once the context of that question has ended.
type leftNodes struct {
	edgeNodes
	asked chan struct{}
	ended chan error
	once  sync.Once
}

func (n *leftNodes) Credentials(ctx context.Context, by controlplane.Actor) ([]api.NodeCredential, error) {
	n.once.Do(func() {
		close(n.asked)
		<-ctx.Done()
		n.ended <- ctx.Err()
	})
	return n.edgeNodes.Credentials(ctx, by)
}

func TestLive_StreamThatLeavesEndsNoLookupForOthers(t *testing.T) {
	nodes := &leftNodes{asked: make(chan struct{}), ended: make(chan error, 1)}
	a := start(t, func(_ *links, c *httpapi.Config) { c.Nodes = nodes })
	res, _ := a.listen(operatorKey)
	<-nodes.asked
	require.NoError(t, res.Body.Close())
	require.ErrorIs(t, <-nodes.ended, context.DeadlineExceeded, "the lookup has a limit of its own")
}
