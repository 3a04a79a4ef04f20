package edge_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge"
)

// TestARequestThatBreaksTheProtocolIsAnsweredOnceAndTheConnectionEnds appends a
// good request to every bad one: it must not be answered.
func TestARequestThatBreaksTheProtocolIsAnsweredOnceAndTheConnectionEnds(t *testing.T) {
	_, addr := serve(t, edge.Config{ReadTimeout: 2 * time.Second})
	const smuggled = "GET /found302 HTTP/1.1\r\nHost: wayp.example\r\n\r\n"

	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"two Host headers":                     {"GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nHost: wayp.example\r\n\r\n", 400},
		"no Host header":                       {"GET /found302 HTTP/1.1\r\nX: y\r\n\r\n", 400},
		"a space before the colon":             {"GET /found302 HTTP/1.1\r\nHost : wayp.example\r\n\r\n", 400},
		"Content-Length and Transfer-Encoding": {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"Transfer-Encoding and Content-Length": {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", 400},
		"Transfer-Encoding alone":              {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"chunks with content":                  {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 400},
		"two Transfer-Encodings":               {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 400},
		"an unknown Transfer-Encoding":         {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400},
		"two Content-Lengths":                  {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 400},
		"a negative Content-Length":            {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
		"a body of one byte":                   {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", 413},
		"a body":                               {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413},
		"a request line that ends in LF":       {"GET /found302 HTTP/1.1\nHost: a\r\n\r\n", 400},
		"a header line that ends in LF":        {"GET /found302 HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400},
		"all lines that end in LF":             {"GET /found302 HTTP/1.1\nHost: a\n\n", 400},
		"a folded line":                        {"GET /found302 HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400},
		"a line folded with a tab":             {"GET /found302 HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n", 400},
		"a lone CR in a header":                {"GET /found302 HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n", 400},
		"NUL in a header":                      {"GET /found302 HTTP/1.1\r\nHost: a\r\nX: y\x00\r\n\r\n", 400},
		"a control byte in the target":         {"GET /found302\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a space in the target":                {"GET /found302 /x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a target without a slash":             {"GET found302 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"an unknown protocol":                  {"GET /found302 HTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a HEAD with a body":                   {"HEAD /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413},
		"POST":                                 {"POST /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 405},
		"DELETE":                               {"DELETE /found302 HTTP/1.1\r\nHost: a\r\n\r\n", 405},
		"OPTIONS of everything":                {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 405},
		"a body that waits for 100 Continue":   {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", 413},
		"a target of 8,193 bytes":              {"GET /" + strings.Repeat("a", 8192) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, addr)
			_, err := io.WriteString(conn, c.request+smuggled)
			require.NoError(t, err)
			r := bufio.NewReader(conn)
			res := read(t, r, false)
			require.Equal(t, c.status, res.StatusCode)
			require.Equal(t, c.status == 405, res.Header.Get("Allow") == "GET, HEAD")
			require.True(t, res.Close)
			rest, _ := io.ReadAll(r) // that the connection is reset is fine
			require.Empty(t, rest, "nothing else is answered")
		})
	}
}

func TestAHeaderAboveTheLimitAnswers431(t *testing.T) {
	_, addr := serve(t, edge.Config{})
	for name, request := range map[string]string{
		"many headers":  "GET /found302 HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("y", 97)+"\r\n", 161),
		"one header":    "GET /found302 HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 16<<10-35),
		"a long target": "GET /" + strings.Repeat("a", 16<<10-5),
	} {
		t.Run(name, func(t *testing.T) {
			res := say(t, addr, request[:16<<10])
			require.Equal(t, 431, res.StatusCode)
			require.True(t, res.Close)
		})
	}
}

func TestAnAmbiguousLineIsSeenWhereverReadsAreCut(t *testing.T) {
	for name, parts := range map[string][]string{
		"LF alone in a read":   {"GET /found302 HTTP/1.1\r\nHost: a", "\n", "\r\n\r\n"},
		"a fold begins a read": {"GET /found302 HTTP/1.1\r\nHost: a\r\nX: y\r\n", " z\r\n\r\n"},
		"LF ends a read":       {"GET /found302 HTTP/1.1\n", "Host: a\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := net.Pipe() // every Write is a Read of its own
			one := &oneListener{conns: make(chan net.Conn, 1)}
			one.conns <- server
			s := edge.New(edge.Config{Links: newMemoryLinks()})
			done := make(chan error, 1)
			go func() { done <- s.Serve(one) }()
			go func() {
				for _, part := range parts {
					if _, err := io.WriteString(client, part); err != nil {
						return // the server has closed it already
					}
				}
			}()
			require.Equal(t, 400, read(t, bufio.NewReader(client), false).StatusCode)
			require.NoError(t, s.Shutdown(t.Context()))
			require.NoError(t, <-done)
		})
	}
}

func TestACRLFMayBeCutByAnything(t *testing.T) {
	_, addr := serve(t, edge.Config{})
	conn := dial(t, addr)
	request := "GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nX: y\r\n\r\n"
	for i := range len(request) {
		_, err := conn.Write([]byte{request[i]})
		require.NoError(t, err)
	}
	require.Equal(t, 302, read(t, bufio.NewReader(conn), false).StatusCode)
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	_, addr := serve(t, edge.Config{})
	conn := dial(t, addr)
	_, err := io.WriteString(conn, "GET /found302 HTTP/1.1\r\nHost: a\r\n\r\nGET /unknown1 HTTP/1.1\r\nHost: a\r\n\r\nGET /found301 HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	for _, status := range []int{302, 404, 301} {
		require.Equal(t, status, read(t, r, false).StatusCode)
	}
}

func TestASlowRequestAnswers408(t *testing.T) {
	_, addr := serve(t, edge.Config{ReadTimeout: 50 * time.Millisecond})
	res := say(t, addr, "GET /found302 HTTP/1.1\r\nHost: a\r\n")
	require.Equal(t, 408, res.StatusCode)
	require.True(t, res.Close)
}

func TestATLSConnectionIsServedAndGuardedAlike(t *testing.T) {
	issuer := httptest.NewUnstartedServer(http.NotFoundHandler())
	issuer.StartTLS()
	certificate := issuer.TLS.Certificates[0]
	client := issuer.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	issuer.Close()
	client.ServerName = "example.com"

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := edge.New(edge.Config{Links: newMemoryLinks()})
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(ln, &tls.Config{Certificates: []tls.Certificate{certificate}}) }()

	for request, status := range map[string]int{
		"GET /found302 HTTP/1.1\r\nHost: a\r\n\r\n":       302,
		"GET /found302 HTTP/1.1\r\nHost: a\nX: y\r\n\r\n": 400,
	} {
		conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		require.Equal(t, status, read(t, bufio.NewReader(conn), false).StatusCode)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-done)
}
