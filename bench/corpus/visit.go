package corpus

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Access is the order in which links are visited.
type Access string

// The orders.
const (
	Uniform Access = "uniform" // every link alike
	Zipfian Access = "zipf"    // link number k in proportion to 1/(k+1)
	Missing Access = "missing" // codes of the right shape that no link has, uniformly
)

// Hits reports whether links are visited.
func (a Access) Hits() bool { return a == Uniform || a == Zipfian }

// Visits returns the codes of count visits to links 0 to links-1, one behind the other.
func Visits(random *rand.Rand, access Access, links uint64, count int) ([]byte, error) {
	var next func() uint64
	switch access {
	case Uniform:
		next = func() uint64 { return random.Uint64N(links) }
	case Zipfian:
		next = NewZipf(random, links).Next
	case Missing:
		next = func() uint64 { return links + random.Uint64N(codeSpace-links) }
	default:
		return nil, fmt.Errorf("unknown order of visits %q", access)
	}
	codes := make([]byte, 0, count*CodeLength)
	for range count {
		codes = AppendCode(codes, next())
	}
	return codes, nil
}

// Headers are the lines of a request that its client sends.
type Headers string

// The kinds of headers.
const (
	Bare    Headers = "bare"    // Host alone, as wrk sends it
	Browser Headers = "browser" // as Firefox sends them when a link in a page is followed
)

const browserHeaders = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
	"Accept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Referer: https://news.example.org/2026/11/a-list-of-links\r\n" +
	"Connection: keep-alive\r\n" +
	"Upgrade-Insecure-Requests: 1\r\n" +
	"Sec-Fetch-Dest: document\r\n" +
	"Sec-Fetch-Mode: navigate\r\n" +
	"Sec-Fetch-Site: cross-site\r\n" +
	"Sec-Fetch-User: ?1\r\n" +
	"Priority: u=0, i\r\n"

// Head begins every request; the code follows.
const Head = "GET /"

// Tail returns the part of a request behind the code.
func (h Headers) Tail() (string, error) {
	const always = " HTTP/1.1\r\nHost: wayp.example\r\n"
	switch h {
	case Bare:
		return always + "\r\n", nil
	case Browser:
		return always + browserHeaders + "\r\n", nil
	default:
		return "", fmt.Errorf("unknown headers %q", string(h))
	}
}

// Lines counts the header lines of a kind.
func (h Headers) Lines() int {
	tail, err := h.Tail()
	if err != nil {
		return 0
	}
	return strings.Count(tail, "\r\n") - 2
}
