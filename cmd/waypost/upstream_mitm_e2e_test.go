package main_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/client"
	"waypost/replication"
	"waypost/test/devtest"
)

const evilTarget = "https://evil.example/"

// middleman stands between an edge and the control plane. It may hold up what comes on the stream, and change answers to
// questions for a record.
type middleman struct {
	web  *httptest.Server
	lies atomic.Bool
	told atomic.Int64 // lies

	mu   sync.Mutex
	free chan struct{} // closed: the stream goes on
}

func newMiddleman(t *testing.T, control string) *middleman {
	t.Helper()
	target, err := url.Parse(control)
	require.NoError(t, err)
	m := &middleman{free: make(chan struct{})}
	close(m.free)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(res *http.Response) error {
		switch {
		case res.Request.URL.Path == replication.PathStream:
			res.Body = heldUp{res.Body, m, res.Request}
		case res.Request.URL.Path == replication.PathRecord && res.StatusCode == http.StatusOK && m.lies.Load():
			return m.lie(res)
		}
		return nil
	}
	m.web = httptest.NewServer(proxy)
	m.web.Config.ErrorLog = proxy.ErrorLog
	t.Cleanup(func() {
		m.web.CloseClientConnections()
		m.web.Close()
	})
	return m
}

// lie gives the record another target, and a position that no edge comes to.
func (m *middleman) lie(res *http.Response) error {
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var rec waypost.Record
	if err := replication.DecodeRecord(raw, &rec); err != nil {
		return err
	}
	at, err := waypost.ParsePosition(res.Header.Get(replication.HeaderPosition))
	if err != nil {
		return err
	}
	at.Seq = 1 << 60
	rec.Payload = []byte(evilTarget)
	raw = replication.AppendRecord(nil, &rec)
	res.Header.Set(replication.HeaderPosition, at.String())
	res.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	res.ContentLength, res.Body = int64(len(raw)), io.NopCloser(bytes.NewReader(raw))
	m.told.Add(1)
	return nil
}

// hold keeps what comes on the stream from the edge until release.
func (m *middleman) hold() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	free := make(chan struct{})
	m.free = free
	return func() { close(free) }
}

// heldUp is the stream's body.
type heldUp struct {
	io.ReadCloser
	by  *middleman
	req *http.Request
}

func (h heldUp) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	h.by.mu.Lock()
	free := h.by.free
	h.by.mu.Unlock()
	select {
	case <-free:
		return n, err
	case <-h.req.Context().Done():
		return 0, h.req.Context().Err()
	}
}

func TestAnAnswerThatIsChangedOnItsWayLeadsNobodyAnywhere(t *testing.T) {
	t.Parallel()
	system := devtest.Start(t, devtest.Config{Edges: "us-east-1=127.0.0.1:0"})
	state := system.State()
	api, err := client.New(state.API, state.APIKey)
	require.NoError(t, err)
	t.Cleanup(api.Close)
	between := newMiddleman(t, state.API)
	e := startFollower(t, system, "solo", between.web.URL, "WAYPOST_EDGE_ASK_UPSTREAM=true")
	create := func() client.Link {
		t.Helper()
		var l client.Link
		persist(t, func() (err error) {
			l, err = api.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/" + strconv.Itoa(int(time.Now().UnixNano()))})
			return err
		})
		return l
	}
	visitTo := func(l client.Link) int {
		t.Helper()
		status, to, err := location(t.Context(), "http://"+e.status.Addr+"/"+l.ShortCode)
		require.NoError(t, err)
		require.Contains(t, []string{"", l.OriginalURL}, to, "a visitor is led elsewhere")
		return status
	}
	// unseen makes a link that the stream does not bring, and gives what its first visitor is told: 404 also when the edge
	// asked nobody, or had no answer in time.
	unseen := func() int {
		t.Helper()
		eventually(t, time.Minute, "fresh", func() bool { s := e.state(); return s.Connected && s.AgeSeconds < 1.5 })
		release := between.hold()
		l := create()
		status := visitTo(l)
		release()
		eventually(t, time.Minute, "brought by the stream", func() bool { return visitTo(l) == http.StatusFound })
		return status
	}
	e.awaitLink(create().ShortCode) // the control plane's key is pinned
	eventually(t, 2*time.Minute, "answered", func() bool { return unseen() == http.StatusFound })

	between.lies.Store(true)
	eventually(t, 2*time.Minute, "lied to", func() bool {
		require.Equal(t, http.StatusNotFound, unseen(), "as if nobody could be asked")
		return between.told.Load() >= 3
	})
	require.Contains(t, e.process.Output(), replication.ErrSignature.Error(), "it is said why nobody is asked")
	between.lies.Store(false)
	eventually(t, 2*time.Minute, "answered again", func() bool { return unseen() == http.StatusFound })
}
