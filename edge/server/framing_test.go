package server_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

// TestARequestThatBreaksTheProtocolIsAnsweredOnceAndTheConnectionEnds appends a
// good request to every bad one: it must not be answered.
func TestARequestThatBreaksTheProtocolIsAnsweredOnceAndTheConnectionEnds(t *testing.T) {
	overBothFamilies(t, breakTheProtocol)
}

func breakTheProtocol(t *testing.T, listen string) {
	_, addr := serveOn(t, listen, server.Config{})
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
		"chunked in another case":              {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 400},
		"chunked after another coding":         {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
		"chunked behind a tab":                 {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", 400},
		"Transfer-Encoding before a space":     {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
		"Transfer-Encoding in HTTP/1.0":        {"GET /found302 HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"two Content-Lengths that differ":      {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello", 400},
		"a list of Content-Lengths":            {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n", 400},
		"a Content-Length with a sign":         {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", 400},
		"a hexadecimal Content-Length":         {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", 400},
		"a Content-Length beyond all bounds":   {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
		"an empty Content-Length":              {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
		"two Hosts that differ":                {"GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nhost: other.example\r\n\r\n", 400},
		"a Host that is folded":                {"GET /found302 HTTP/1.1\r\nHost:\r\n wayp.example\r\n\r\n", 400},
		"a fold before the first header":       {"GET /found302 HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n", 400},
		"a header without a name":              {"GET /found302 HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", 400},
		"a header without a colon":             {"GET /found302 HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400},
		"a name with a space in it":            {"GET /found302 HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n", 400},
		"a name with a tab in it":              {"GET /found302 HTTP/1.1\r\nHost: a\r\nX\tY: z\r\n\r\n", 400},
		"a name with a byte above ASCII":       {"GET /found302 HTTP/1.1\r\nHost: a\r\nX\xa0: z\r\n\r\n", 400},
		"a name in parentheses":                {"GET /found302 HTTP/1.1\r\nHost: a\r\n(X): z\r\n\r\n", 400},
		"Transfer-Encoding identity":           {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400},
		"an empty Transfer-Encoding":           {"GET /found302 HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING:\r\n\r\n", 400},
		"a name with a control byte":           {"GET /found302 HTTP/1.1\r\nHost: a\r\nX\x01: y\r\n\r\n", 400},
		"a lone CR that ends the request line": {"GET /found302 HTTP/1.1\rHost: a\r\n\r\n", 400},
		"a tab in the request line":            {"GET\t/found302\tHTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"HTTP/0.9":                             {"GET /found302\r\n\r\n", 400},
		"HTTP/0.0":                             {"GET /found302 HTTP/0.0\r\nHost: a\r\n\r\n", 400},
		"HTTP/1.2":                             {"GET /found302 HTTP/1.2\r\nHost: a\r\n\r\n", 400},
		"HTTP/2.0":                             {"GET /found302 HTTP/2.0\r\nHost: a\r\n\r\n", 400},
		"a version in lower case":              {"GET /found302 http/1.1\r\nHost: a\r\n\r\n", 400},
		"HTTP/2 without asking":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		"CONNECT":                              {"CONNECT wayp.example:443 HTTP/1.1\r\nHost: wayp.example\r\n\r\n", 405},
		"TRACE":                                {"TRACE /found302 HTTP/1.1\r\nHost: a\r\n\r\n", 405},
		"a method in lower case":               {"get /found302 HTTP/1.1\r\nHost: a\r\n\r\n", 405},
		"a PROXY header that nobody asked for": {"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\nGET /found302 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a TLS hello to a plain listener":      {"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n\r\n", 400},
		"an unknown protocol":                  {"GET /found302 HTP/1.1\r\nHost: a\r\n\r\n", 400},
		"a HEAD with a body":                   {"HEAD /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413},
		"POST":                                 {"POST /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 405},
		"DELETE":                               {"DELETE /found302 HTTP/1.1\r\nHost: a\r\n\r\n", 405},
		"OPTIONS of everything":                {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 405},
		"a body that waits for 100 Continue":   {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", 413},
		"100 Continue for no body":             {"GET /found302 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", 400},
		"100 Continue for an empty body":       {"GET /found302 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-Continue\r\n\r\n", 400},
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

func TestAnAmbiguousLineIsSeenWhereverReadsAreCut(t *testing.T) {
	for name, parts := range map[string][]string{
		"LF alone in a read":   {"GET /found302 HTTP/1.1\r\nHost: a", "\n", "\r\n\r\n"},
		"a fold begins a read": {"GET /found302 HTTP/1.1\r\nHost: a\r\nX: y\r\n", " z\r\n\r\n"},
		"LF ends a read":       {"GET /found302 HTTP/1.1\n", "Host: a\r\n\r\n"},
		"a coding is cut":      {"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-E", "ncoding", ": identity\r\n\r\n"},
		"a name is cut":        {"GET /found302 HTTP/1.1\r\nHost: a\r\nX", " Y: z\r\n\r\n"},
		"an end is cut":        {"GET /found302 HTTP/1.1\r\nHost: a\r\n\r", "X: y\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			srv, client := net.Pipe() // every Write is a Read of its own
			one := &oneListener{conns: make(chan net.Conn, 1)}
			one.conns <- srv
			s := server.New(patient(server.Config{Links: newMemoryLinks()}))
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
	_, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	request := "GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nX: y\r\n\r\n"
	for i := range len(request) {
		_, err := conn.Write([]byte{request[i]})
		require.NoError(t, err)
	}
	require.Equal(t, 302, read(t, bufio.NewReader(conn), false).StatusCode)
}

func TestNamesThatAreLikeATransferEncodingAreNone(t *testing.T) {
	_, addr := serve(t, server.Config{})
	for _, name := range []string{
		"Transfer-Encodin", "Transfer-Encodings", "X-Transfer-Encoding", "TE", "Transfer-Encodinx", "!#$%&'*+-.^_`|~0",
	} {
		require.Equal(t, 302, get(t, addr, "/found302", "a", name+": chunked").StatusCode, name)
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	_, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	_, err := io.WriteString(conn, "GET /found302 HTTP/1.1\r\nHost: a\r\n\r\nGET /unknown1 HTTP/1.1\r\nHost: a\r\n\r\nGET /found301 HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	for _, status := range []int{302, 404, 301} {
		require.Equal(t, status, read(t, r, false).StatusCode)
	}
}

func BenchmarkGuardingTheLinesOfABrowsersRequest(b *testing.B) {
	request := []byte("GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" +
		"Connection: keep-alive\r\nReferer: https://www.example.org/a/page\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\n" +
		"Sec-Fetch-Site: cross-site\r\nPriority: u=0, i\r\n\r\n")
	good := server.GuardLines(request)
	for b.Loop() {
		if !good() {
			b.Fatal("refused")
		}
	}
}
