package server

import (
	"bytes"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/internal/patterns"
	"waypost/rules"
)

// answer is a response before it is written. Both writers, [answer.appendTo] of the fast
// path and [answer.set] of the handler, start from it, so that they cannot differ. Its
// bytes are good until the connection's next request.
type answer struct {
	status       int
	contentType  string // "": none
	body         []byte
	location     []byte // nil: none
	cacheControl string
	maxAge       int64 // seconds, above 0: in place of cacheControl
	vary         bool  // by Accept
	stale        int64 // seconds; below 0: the replica is fresh
	variant      uint8 // that a cookie is to keep; 0: none
	cookie       cookie
}

// Header lines, with the byte slices from which fasthttp copies without allocating.
const (
	contentTypeLine  = "Content-Type: "
	lengthLine       = "Content-Length: "
	locationLine     = "Location: "
	cacheControlLine = "Cache-Control: "
	staleLine        = "Waypost-Stale: "
	varyLine         = "Vary: Accept\r\n"
	cookieLine       = "Set-Cookie: "
	noSniffLine      = "X-Content-Type-Options: nosniff\r\n"
	policyLine       = "Content-Security-Policy: " + pagePolicy + "\r\n"
	strictLine       = "Strict-Transport-Security: " + waypost.StrictTransport + "\r\n"

	noStore        = "no-store"
	privateNoStore = "private, no-store"
	privateMaxAge  = "private, max-age="
)

var (
	headerLocation     = []byte("Location")
	headerCacheControl = []byte("Cache-Control")
	headerVary         = []byte("Vary")
	headerStale        = []byte("Waypost-Stale")
	headerSetCookie    = []byte("Set-Cookie")
	accept             = []byte("Accept")

	headerNoSniff = []byte("X-Content-Type-Options")
	headerPolicy  = []byte("Content-Security-Policy")
	headerStrict  = []byte("Strict-Transport-Security")
	noSniff       = []byte("nosniff")
	policy        = []byte(pagePolicy)
	strict        = []byte(waypost.StrictTransport)
)

// redirect returns the answer of a resolution that redirects. It fails for a record that
// has gone bad.
func (s *Server) redirect(res *waypost.Resolution, of cookie) (answer, error) {
	switch res.Status {
	case 301, 302, 303, 307, 308:
	default:
		return answer{}, errBadStatus
	}
	if !fitsHeader(res.Location) {
		return answer{}, errBadLocation
	}
	a := answer{status: res.Status, location: res.Location, cacheControl: privateNoStore, maxAge: res.MaxAge, stale: -1}
	if res.Keep {
		a.variant, a.cookie = res.Variant, of
	}
	if s.cfg.MaxStaleness > 0 {
		if age := s.cfg.Staleness(); age > s.cfg.MaxStaleness {
			a.stale = int64(age.Seconds())
		}
	}
	return a, nil
}

var (
	errBadStatus    = errors.New("a record has a status that is not a redirect")
	errBadLocation  = errors.New("a record has a location that no header can hold")
	errBadProgramme = errors.New("a record has rules that cannot be read")
)

// fitsHeader reports whether a location can stand in a header unchanged. The control
// plane has checked it long ago; this guards against records that have gone bad.
func fitsHeader(location []byte) bool {
	return len(location) > 0 && bytes.IndexByte(location, '\r') < 0 &&
		bytes.IndexByte(location, '\n') < 0 && bytes.IndexByte(location, 0) < 0
}

// problem returns the answer of an error: a page, or a problem document.
func problem(status int, page bool) answer {
	contentType, body := errorBody(status, page)
	return answer{status: status, contentType: contentType, body: body, cacheControl: noStore, vary: true, stale: -1}
}

// appendTo appends the whole response to dst, with the line of a Date header. Secure
// means that it goes over TLS.
func (a *answer) appendTo(dst, date []byte, secure bool) []byte {
	dst = append(dst, statusLines[statusIndex[a.status]]...)
	dst = append(dst, date...)
	if a.contentType != "" {
		dst = append(append(append(dst, contentTypeLine...), a.contentType...), "\r\n"...)
		dst = append(dst, noSniffLine...)
	}
	if a.contentType == pageType {
		dst = append(dst, policyLine...)
	}
	if secure {
		dst = append(dst, strictLine...)
	}
	dst = append(strconv.AppendInt(append(dst, lengthLine...), int64(len(a.body)), 10), "\r\n"...)
	if a.location != nil {
		dst = append(append(append(dst, locationLine...), a.location...), "\r\n"...)
	}
	dst = append(a.appendCacheControl(append(dst, cacheControlLine...)), "\r\n"...)
	if a.stale >= 0 {
		dst = append(strconv.AppendInt(append(dst, staleLine...), a.stale, 10), "\r\n"...)
	}
	if a.vary {
		dst = append(dst, varyLine...)
	}
	if a.variant != 0 {
		dst = append(a.appendCookie(append(dst, cookieLine...), secure), "\r\n"...)
	}
	return append(append(dst, "\r\n"...), a.body...)
}

// cookie identifies the link of a cookie: by its path, or by a number in the name, so
// that the cookie is good for all addresses of the link on a host.
type cookie struct {
	code []byte
	link uint32 // 0: none
}

func (k *cookie) appendPath(dst []byte) []byte {
	dst = append(dst, "; Path=/"...)
	if k.link != 0 {
		return dst
	}
	return waypost.AppendEncoded(dst, patterns.Prefix(k.code))
}

// appendCookie appends the cookie that keeps a variant: on this link alone, and without
// anything about the visitor.
func (a *answer) appendCookie(dst []byte, secure bool) []byte {
	dst = strconv.AppendUint(rules.AppendCookieName(dst, rules.VariantCookie, a.cookie.link, secure), uint64(a.variant), 10)
	dst = append(a.cookie.appendPath(dst), "; Max-Age=15552000; HttpOnly; SameSite=Lax"...)
	if secure {
		dst = append(dst, "; Secure"...)
	}
	return dst
}

func (a *answer) appendCacheControl(dst []byte) []byte {
	if a.maxAge > 0 {
		return strconv.AppendInt(append(dst, privateMaxAge...), a.maxAge, 10)
	}
	return append(dst, a.cacheControl...)
}

// harden adds the headers that are the same for all answers with a body.
func harden(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.SetCanonical(headerNoSniff, noSniff)
	if connOf(ctx).secure {
		ctx.Response.Header.SetCanonical(headerStrict, strict)
	}
}

// set makes a the response of ctx. text is scratch, and comes back grown.
func (a *answer) set(ctx *fasthttp.RequestCtx, text []byte) []byte {
	header := &ctx.Response.Header
	ctx.Response.SetStatusCode(a.status)
	if a.contentType != "" {
		header.SetContentType(a.contentType)
		header.SetCanonical(headerNoSniff, noSniff)
	}
	if a.contentType == pageType {
		header.SetCanonical(headerPolicy, policy)
	}
	if connOf(ctx).secure {
		header.SetCanonical(headerStrict, strict)
	}
	if a.location != nil {
		header.SetCanonical(headerLocation, a.location)
	}
	text = a.appendCacheControl(text[:0])
	header.SetCanonical(headerCacheControl, text)
	if a.stale >= 0 {
		text = strconv.AppendInt(text[:0], a.stale, 10)
		header.SetCanonical(headerStale, text)
	}
	if a.vary {
		header.SetCanonical(headerVary, accept)
	}
	if a.variant != 0 {
		text = a.appendCookie(text[:0], overTLS(ctx, connOf(ctx)))
		header.SetCanonical(headerSetCookie, text)
	}
	if a.body != nil {
		ctx.Response.SetBodyRaw(a.body)
	} else if ctx.IsHead() {
		header.SetContentLength(0) // fasthttp adds it only for GET
	}
	return text
}

// statusLines are in the order of countedStatuses.
var statusLines = func() (lines [len(countedStatuses)]string) {
	for i, status := range countedStatuses {
		lines[i] = "HTTP/1.1 " + strconv.Itoa(status) + " " + fasthttp.StatusMessage(status) + "\r\n"
	}
	return lines
}()

// date is a Date header with its line end, for one second.
type date struct {
	second int64
	line   []byte
}

// dateHeader holds the Date header of the present second for all answers of a server.
type dateHeader struct{ last atomic.Pointer[date] }

// line returns the Date header with its line end. It is made once a second.
func (h *dateHeader) line(now time.Time) []byte {
	d := h.last.Load()
	if d == nil || d.second != now.Unix() {
		line := append(fasthttp.AppendHTTPDate([]byte("Date: "), now), "\r\n"...)
		d = &date{second: now.Unix(), line: line}
		h.last.Store(d)
	}
	return d.line
}
