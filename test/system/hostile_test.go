package system_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServers_AnswerOrCutOffClientsThatTrickleOrLie(t *testing.T) {
	t.Parallel()
	state := twoEdges.For(t).State()
	begun := make(map[string]net.Conn) // all at once, since those who are cut off wait for it
	for name, c := range map[string]struct {
		url     string
		request string
	}{
		"a body that nobody reads does not come":       {state.API, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"},
		"a body without a key does not come":           {state.API, "POST /api/v1/urls HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: x\r\nContent-Length: 100\r\n\r\n"},
		"a body with its promise broken":               {state.API, "POST /api/v1/urls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"},
		"chunks that never end":                        {state.API, "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
		"a stream without the token":                   {state.Fleet, "GET /replication/v1/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"},
		"headers that never end, at the control plane": {state.API, "GET / HTTP/1.1\r\nHost: localhost\r\n"},
		"headers that never end, at an edge":           {state.Edges[0].URL, "GET /abcd HTTP/1.1\r\nHost: localhost\r\n"},
		"a body at an edge":                            {state.Edges[0].URL, "GET /abcd HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(conn, c.request)
		require.NoError(t, err)
		begun[name] = conn
	}
	for name, conn := range begun {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute))) // also behind one that came to nothing
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				timeout, ok := errors.AsType[net.Error](err)
				require.False(t, ok && timeout.Timeout(), "neither answered nor cut off")
				return
			}
			require.NoError(t, res.Body.Close())
			require.Less(t, res.StatusCode, 500)
		})
	}
}

func TestDev_LetsOnlyThisMachineInWithoutAKey(t *testing.T) {
	t.Parallel()
	s := twoEdges.For(t)
	for _, c := range []struct {
		host, forwarded string
		want            int
	}{
		{"", "", http.StatusOK},
		{"localhost:1", "", http.StatusOK},
		{"[::1]:1", "127.0.0.1:8080", http.StatusOK},
		{"evil.example:8080", "", http.StatusUnauthorized},
		{"127.0.0.1.evil.example", "", http.StatusUnauthorized},
		{"evil.example:8080", "localhost", http.StatusUnauthorized}, // by the page's own script
		{"localhost", "evil.example", http.StatusUnauthorized},      // through a proxy on this machine
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State().API+"/api/v1/urls", http.NoBody)
		require.NoError(t, err)
		req.Host = c.host
		if c.forwarded != "" {
			req.Header.Set("X-Forwarded-Host", c.forwarded)
		}
		res, err := visitor.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, c.want, res.StatusCode, "%+v", c)
	}
}
