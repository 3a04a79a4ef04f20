package server

import "github.com/valyala/fasthttp"

var (
	// prefetchValues are what the headers begin with, in lower case: "preview" is what a browser asks with that wants no more than
	// a small picture of the page.
	prefetchValues = []string{"prefetch", "preview"}

	// prefetchHeaders are what browsers say it with: Sec-Purpose by the Fetch
	// standard, the others before there was one.
	prefetchHeaders = [][]byte{[]byte("Sec-Purpose"), []byte("Purpose"), []byte("X-Purpose"), []byte("X-Moz")}
)

// isPrefetch reports whether a browser asks in case its user follows the link. That
// is no visit: if there is one, the browser asks again.
func isPrefetch(header *fasthttp.RequestHeader) bool {
	for _, name := range prefetchHeaders {
		value := header.PeekCanonical(name)
		for _, v := range prefetchValues {
			if len(value) >= len(v) && foldsTo(value[:len(v)], v) {
				return true
			}
		}
	}
	return false
}
