package server_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// wellFormed is a request without a body as RFC 9112 has it, with no room for two
// readings: CRLF ends each line and stands nowhere else, no line is folded. Empty
// lines before it are passed over (section 2.2).
var wellFormed = regexp.MustCompile(`^(\r\n)*(GET|HEAD) [\x21-\x7e\x{80}-\x{ff}]+ HTTP/1\.[01]\r\n` +
	"([!#$%&'*+.^_`|~0-9A-Za-z-]+:" + `[\t\x20-\x7e\x{80}-\x{ff}]*\r\n)*\r\n`)

// firstRequest returns the well-formed request that b begins with, or nil.
func firstRequest(b []byte) []byte {
	runes := make([]rune, len(b)) // one for each byte, as regexp knows no bytes
	for i, c := range b {
		runes[i] = rune(c)
	}
	return b[:utf8.RuneCountInString(wellFormed.FindString(string(runes)))]
}

// FuzzServer_AnswersOnlyWellFormedRequests sends bytes, cut anywhere, and compares the
// requests that are answered with those that any proxy in front would see.
func FuzzServer_AnswersOnlyWellFormedRequests(f *testing.F) {
	const host = "Host: wayp.example\r\n"
	for _, seed := range []string{
		goodRequest, goodRequest + goodRequest, "HEAD /found301 HTTP/1.1\r\n" + host + "Accept: */*\r\n\r\n" + goodRequest,
		"GET /found302 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n" + goodRequest,
		"GET /found302 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + goodRequest,
		"GET /found302 HTTP/1.1\nHost: a\n\n", "GET /found302 HTTP/1.1\r\nHost: a\r\n X: y\r\n\r\n", "\r\n" + goodRequest,
		"GET /found302 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n" + goodRequest,
		"GET http://wayp.example/found302 HTTP/1.0\r\n\r\n", "GET /found302 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET /found302 HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", "GET /found302 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + goodRequest,
		formRequest("/secret01", "password=x") + goodRequest, formRequest("/found302", "a=b\nc") + goodRequest, goodRequest + formRequest("/secret01", "x"),
	} {
		f.Add([]byte(seed), uint8(3))
	}
	s := newFuzzServer(f, false, false)
	f.Fuzz(func(t *testing.T, sent []byte, cut uint8) {
		answers, _ := s.exchange(t, sent, int(cut)%50)
		again, _ := s.exchange(t, sent, 0)
		require.Equal(t, statuses(t, again), statuses(t, answers), "cuts change nothing")
		rest := sent
		for _, status := range statuses(t, answers) {
			if status >= 400 && status != 404 && status != 410 && status != 503 && status != 500 {
				return // refused, and the last
			}
			request := firstRequest(rest)
			require.NotEmpty(t, request, "%d answers %q", status, rest)
			head, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
			if err == nil { // where it is stricter, it is about the target
				require.Zero(t, head.ContentLength)
			}
			require.NotRegexp(t, `(?i)\ntransfer-encoding:`, string(request))
			require.LessOrEqual(t, strings.Count(strings.ToLower(string(request)), "\r\nhost:"), 1)
			rest = rest[len(request):]
		}
	})
}

// statuses returns the statuses of the answers, each of which must be whole.
func statuses(t *testing.T, answers []byte) []int {
	t.Helper()
	var all []int
	r := bufio.NewReader(bytes.NewReader(answers))
	for {
		if _, err := r.Peek(1); err == io.EOF {
			return all
		}
		status := statusLine.FindSubmatch(peekLine(r))
		require.NotNil(t, status, "%q", answers)
		// To a HEAD there is no body: what follows begins an answer either way.
		res, err := http.ReadResponse(r, &http.Request{Method: http.MethodHead})
		require.NoError(t, err)
		all = append(all, res.StatusCode)
		if next, err := r.Peek(5); err == nil && string(next) != "HTTP/" || err == io.EOF && len(next) > 0 {
			_, err := io.CopyN(io.Discard, r, res.ContentLength)
			require.NoError(t, err)
		}
	}
}

var statusLine = regexp.MustCompile(`^HTTP/1\.1 (\d{3}) `)

func peekLine(r *bufio.Reader) []byte {
	line, _ := r.Peek(13)
	return line
}
