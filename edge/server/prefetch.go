package server

import (
	"github.com/valyala/fasthttp"

	"waypost/edge/fastpath"
)

var (
	// prefetchValues are the values, in lower case, that such a header begins with. A
	// browser sends "preview" for a small picture of the page.
	prefetchValues = []string{"prefetch", "preview"}

	// prefetchHeaders announce a prefetch: Sec-Purpose by the Fetch standard, the others
	// by older browsers.
	prefetchHeaders = [][]byte{[]byte("Sec-Purpose"), []byte("Purpose"), []byte("X-Purpose"), []byte("X-Moz")}
)

// isPrefetch reports whether a browser asks in case its user follows the link. Such a
// request is no click, because the browser asks again for a real visit.
func isPrefetch(header *fasthttp.RequestHeader) bool {
	for _, name := range prefetchHeaders {
		value := header.PeekCanonical(name)
		for _, v := range prefetchValues {
			if len(value) >= len(v) && fastpath.EqualFold(value[:len(v)], v) {
				return true
			}
		}
	}
	return false
}
