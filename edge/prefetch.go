package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

var (
	prefetchMark  = []byte("refetch")
	prefetchValue = []byte("prefetch")

	// prefetchHeaders are what browsers say it with: Sec-Purpose by the Fetch
	// standard, the others before there was one.
	prefetchHeaders = [][]byte{[]byte("Sec-Purpose"), []byte("Purpose"), []byte("X-Purpose"), []byte("X-Moz")}
)

// isPrefetch reports whether a browser asks in case its user follows the link. That
// is no visit: if there is one, the browser asks again. Hardly any request has the
// word in it, so that is looked for first.
func isPrefetch(header *fasthttp.RequestHeader) bool {
	if !bytes.Contains(header.RawHeaders(), prefetchMark) {
		return false
	}
	for _, name := range prefetchHeaders {
		if bytes.HasPrefix(header.PeekCanonical(name), prefetchValue) {
			return true
		}
	}
	return false
}
