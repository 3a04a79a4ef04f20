package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/httpapi"
)

// dial sends a request on a connection of its own, of which the client reads nothing by
// itself.
func (a *testAPI) dial(request string) net.Conn {
	a.t.Helper()
	var d net.Dialer
	c, err := d.DialContext(a.t.Context(), "tcp", strings.TrimPrefix(a.url, "http://"))
	require.NoError(a.t, err)
	require.NoError(a.t, c.(*net.TCPConn).SetReadBuffer(4<<10))
	a.t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, request)
	require.NoError(a.t, err)
	return c
}

// largest is the length of the largest body.
const largest = 12 << 20

// slowBulk announces a large body of which only the beginning comes.
func (a *testAPI) slowBulk(key, begin string) {
	a.t.Helper()
	c := a.dial("POST /api/v1/urls/bulk HTTP/1.1\r\nHost: a\r\nX-Api-Key: " + key +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(largest) + "\r\n\r\n")
	go func() { _, _ = io.WriteString(c, begin) }() // ends with the connection
}

func (a *testAPI) bulk(ctx context.Context, key string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/api/v1/urls/bulk", strings.NewReader(`{"links":[`+create+`]}`))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// requireBulk sees that a bulk request is answered soon, and how.
func (a *testAPI) requireBulk(status int, key string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 10*time.Second)
	defer cancel()
	got, err := a.bulk(ctx, key)
	require.NoError(a.t, err)
	require.Equal(a.t, status, got)
}

func TestBulk_SlowBodiesHoldNobodyUp(t *testing.T) {
	a := start(t)
	for range 150 {
		a.slowBulk(fullKey, `{"links":[`)
	}
	a.requireBulk(200, strangerKey)
	a.requireBulk(200, fullKey)
}

// The share of a workspace is the memory of four of the largest bodies.
func TestBulk_BodiesOfAWorkspaceHaveAShareOfTheMemory(t *testing.T) {
	a := start(t)
	part := strings.Repeat(" ", largest-1)
	for range 4 {
		a.slowBulk(fullKey, part)
	}
	require.Eventually(t, func() bool {
		status, err := a.bulk(t.Context(), fullKey)
		return err == nil && status == 503
	}, time.Minute, 5*time.Millisecond)
	a.requireBulk(200, strangerKey)
}

func TestBulk_RequestsOfAWorkspaceHaveAShareOfThePlaces(t *testing.T) {
	held, release, ended := make(chan any), make(chan struct{}), make(chan struct{}) // held has the workspaces
	defer close(ended)
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onBulk = func(ctx context.Context) error {
			select {
			case held <- ctx.Value(workspaceKey{}):
				<-release
			case <-ended:
			}
			return nil
		}
	})
	done := make(chan struct{}, 21)
	two := `{"links":[` + create + "," + create + `]}`
	post := func(key string) {
		go func() {
			a.do(call{method: http.MethodPost, path: "/api/v1/urls/bulk", body: two, key: key})
			done <- struct{}{}
		}()
	}
	for range 20 {
		post(fullKey)
	}
	for range 8 {
		require.Equal(t, waypost.WorkspaceID(1), <-held)
	}
	post(strangerKey)
	require.NotEqual(t, waypost.WorkspaceID(1), <-held, "the ninth is the stranger's")
	let()
	for range 12 {
		<-held
	}
	for range 21 {
		<-done
	}
}

func TestExport_SlowReadersOfOthersEndNone(t *testing.T) {
	a := start(t)
	for i := range 2000 { // more than the buffers of a connection hold
		a.links.all = append(a.links.all, waypost.Link{
			ID: int64(i + 1), Workspace: waypost.WorkspaceID(1 + i%2), Code: waypost.Code(fmt.Sprintf("code%04d", i)),
			OriginalURL: "https://example.com/" + strings.Repeat("x", 20_000), RedirectStatus: 302,
		})
	}
	for _, key := range []string{fullKey, strangerKey} {
		for range 2 {
			c := a.dial("GET /api/v1/urls/export HTTP/1.1\r\nHost: a\r\nX-Api-Key: " + key + "\r\n\r\n")
			begin := make([]byte, 12)
			_, err := io.ReadFull(c, begin)
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 200", string(begin))
		}
	}
	require.Equal(t, 503, a.get("/api/v1/urls/export").StatusCode, "two of a workspace are enough")
	require.Equal(t, 200, a.do(call{path: "/api/v1/urls/export?limit=1", key: thirdKey}).StatusCode)
}

// patient is a response that notes by when a client must have taken what is written, and
// fails after some bytes.
type patient struct {
	*httptest.ResponseRecorder
	until []time.Time
	most  int
}

func (p *patient) SetWriteDeadline(t time.Time) error {
	p.until = append(p.until, t)
	return nil
}

func (p *patient) Write(b []byte) (int, error) {
	if p.Body.Len() > p.most {
		return 0, os.ErrDeadlineExceeded
	}
	return p.ResponseRecorder.Write(b)
}

// A client has a time for each 1,000 links, so that it has a least rate.
func TestExport_ClientHasHalfAMinuteForAPage(t *testing.T) {
	f := newLinks()
	for i := range 2500 {
		f.all = append(f.all, waypost.Link{ID: int64(i + 1), Workspace: 1, Code: waypost.Code(fmt.Sprintf("code%04d", i))})
	}
	h := httpapi.New(services(f))
	export := func(w http.ResponseWriter) {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/urls/export", http.NoBody)
		r.Header.Set("X-Api-Key", fullKey)
		h.ServeHTTP(w, r)
	}
	w := &patient{ResponseRecorder: httptest.NewRecorder(), most: 1 << 30}
	began := time.Now()
	export(w)
	require.Len(t, w.until, 3)
	for _, at := range w.until {
		require.WithinRange(t, at, began.Add(30*time.Second), time.Now().Add(30*time.Second))
	}
	w = &patient{ResponseRecorder: httptest.NewRecorder()}
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { export(w) }, "one that is too slow is cut off")
	for range 3 { // and its place is free
		w = &patient{ResponseRecorder: httptest.NewRecorder()}
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { export(w) })
	}
}
