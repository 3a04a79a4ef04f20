package server

import (
	"encoding/binary"
	"io"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"waypost"
)

// The express lane answers what nearly every request is, a plain GET of a code that
// comes in one piece, where it was read: between the socket and fasthttp, which never
// sees it. One pass over the head does what fasthttp, the line guard and the handler
// take four for, and the answer is put together from parts that are ready.
//
// It decides nothing by itself. Whatever is unusual in a request, or in what is found
// for it, leaves the lane before anything was done, and is read again by fasthttp and
// answered by Server.handle; so there is one place that refuses, and a request is
// answered alike whichever way it takes (FuzzTheExpressLaneAnswersLikeTheHandler).

// expressRequest is what answering needs of the head of a plain GET. The bytes are
// those that were read.
type expressRequest struct {
	target    []byte
	host      []byte
	agent     []byte
	accept    []byte
	referrer  []byte
	forwarded []byte // X-Forwarded-For
	asked     []byte // X-Forwarded-Host
}

// parse reports whether b is the head of one plain GET and nothing else: HTTP/1.1, in
// origin form, in printable ASCII but for the values of headers, with one Host, without a
// body, and without any header that would make its answer another one. What it takes,
// the line guard and fasthttp take too.
func (r *expressRequest) parse(b []byte) bool {
	const begin, version = "GET /", " HTTP/1.1\r\n"
	if len(b) < len(begin)+len(version) || string(b[:len(begin)]) != begin {
		return false
	}
	i := len(begin)
	for i < len(b) && b[i] > ' ' && b[i] < 0x7f {
		i++
	}
	if i > len("GET ")+maxTarget || len(b)-i < len(version) || string(b[i:i+len(version)]) != version {
		return false
	}
	r.target = b[len(begin)-1 : i]
	for i += len(version); ; {
		if len(b)-i == len("\r\n") {
			return b[i] == '\r' && b[i+1] == '\n' && r.host != nil
		}
		name := i
		for i < len(b) && tokenBytes[b[i]] != 0 {
			i++
		}
		if i == name || i == len(b) || b[i] != ':' {
			return false
		}
		value := i + 1
		i = endOfText(b, value)
		if len(b)-i < len("\r\n") || b[i] != '\r' || b[i+1] != '\n' || !r.header(b[name:value-1], trimSpaces(b[value:i])) {
			return false
		}
		i += len("\r\n")
	}
}

// header notes what is needed of one header, and reports whether the request stays
// in the lane with it.
func (r *expressRequest) header(name, value []byte) bool {
	switch len(name) {
	case len("Host"):
		// fasthttp judges what is in brackets.
		return !foldsTo(name, "host") || once(&r.host, value) && value[0] != '['
	case len("X-Moz"):
		return !foldsTo(name, "x-moz")
	case len("Accept"):
		if foldsTo(name, "accept") {
			return once(&r.accept, value)
		}
		return !foldsTo(name, "expect")
	case len("Purpose"):
		if foldsTo(name, "referer") {
			return once(&r.referrer, value)
		}
		return !foldsTo(name, "purpose") && !foldsTo(name, "trailer")
	case len("X-Purpose"):
		return !foldsTo(name, "x-purpose")
	case len("User-Agent"):
		if foldsTo(name, "user-agent") {
			return once(&r.agent, value)
		}
		return !foldsTo(name, "connection") || foldsTo(value, "keep-alive")
	case len("Sec-Purpose"):
		return !foldsTo(name, "sec-purpose")
	case len("Content-Length"):
		return !foldsTo(name, "content-length")
	case len("X-Forwarded-For"):
		return !foldsTo(name, "x-forwarded-for") || once(&r.forwarded, value)
	case len("X-Forwarded-Host"):
		return !foldsTo(name, "x-forwarded-host") || once(&r.asked, value)
	case len(transferEncoding):
		return !foldsTo(name, transferEncoding)
	}
	return true
}

// once notes a value, unless there is one already or it is empty.
func once(field *[]byte, value []byte) bool {
	if *field != nil || len(value) == 0 {
		return false
	}
	*field = value
	return true
}

// foldsTo reports whether s is lower, which is in lower case, in whatever case.
func foldsTo(s []byte, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// endOfText gives the index of the first byte from i on that no header's value has,
// which is a control character; a tab counts as one.
//
// It looks at eight bytes at a time: below 0x80, x-0x20 borrows from the highest bit of
// a byte only if that is below 0x20, or one before it is, which is found first.
func endOfText(b []byte, i int) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		deleted := x ^ 0x7f*low
		if found := ((x-' '*low)&^x | (deleted-low)&^deleted) & high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != 0x7f {
		i++
	}
	return i
}

func trimSpaces(s []byte) []byte {
	for len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// express answers what was read from a connection that waits for a request; false
// when that is for fasthttp to do. An error means that the answer could not be
// written.
func (s *Server) express(v *visitor, to io.Writer, b []byte) (answered bool, err error) {
	var r expressRequest
	if s.plain || s.draining.Load() || !r.parse(b) {
		return false, nil
	}
	visit := waypost.ParseVisit(r.target)
	if visit.Rest != nil || visit.Preview || !waypost.ValidCode(visit.Code) || isOwnPath(visit.Code) {
		return false, nil
	}
	host, ok := parseHost(v.host[:0], r.host)
	if ok && v.trusted && r.asked != nil {
		host, ok = v.forwardedHost(r.asked)
	}
	// One that was just told to end is left to fasthttp, whose hooks know what to do.
	if !ok || !v.phase.CompareAndSwap(phaseWaiting, phaseBusy) {
		return false, nil
	}
	defer func() {
		if p := recover(); p != nil { // the handler will come to the same, and tell of it
			answered = false
		}
		if !answered {
			v.phase.Store(phaseWaiting) // for fasthttp's hook, which will find the request begun
		}
	}()
	domain, res, err := s.decide(v, host, &visit)
	if err != nil || !expressible(&res) {
		return false, nil
	}
	now := time.Now()
	if res.Link && s.cfg.Clicks != nil {
		s.record(v, domain, visit.Code, r.agent, r.referrer, s.forwardedClient(v, r.forwarded), s.clickTime(now))
	}
	out := s.appendAnswer(v.out[:0], &r, &res, now)
	v.keepOut(out)
	v.stripe.count(res.Status)
	v.writing.wanted = now.Add(s.cfg.WriteTimeout)
	_, err = to.Write(out)
	v.reading.wanted = now.Add(s.cfg.IdleTimeout)
	v.expressed = true
	v.rest()
	return true, err
}

// expressible reports whether the lane has the answer ready.
func expressible(res *waypost.Resolution) bool {
	switch res.Status {
	case 301, 302, 307, 308:
		return fitsHeader(res.Location)
	case 404, 410:
		return true
	}
	return false
}

// appendAnswer appends the whole answer to dst.
func (s *Server) appendAnswer(dst []byte, r *expressRequest, res *waypost.Resolution, now time.Time) []byte {
	dst = append(dst, expressHeads[statusIndex[res.Status]]...)
	dst = append(dst, dateLine(now)...)
	if !res.Redirects() {
		return append(dst, expressErrors[errorIndex(res.Status, waypost.AcceptsHTML(r.accept))]...)
	}
	dst = append(dst, "Content-Length: 0\r\nLocation: "...)
	dst = append(dst, res.Location...)
	if res.MaxAge > 0 {
		dst = append(dst, "\r\nCache-Control: private, max-age="...)
		dst = strconv.AppendInt(dst, res.MaxAge, 10)
	} else {
		dst = append(dst, "\r\nCache-Control: private, no-store"...)
	}
	if seconds, stale := s.staleSeconds(); stale {
		dst = append(dst, "\r\nWaypost-Stale: "...)
		dst = strconv.AppendInt(dst, seconds, 10)
	}
	return append(dst, "\r\n\r\n"...)
}

// expressHeads are the status lines, in the places of countedStatuses.
var expressHeads = func() (heads [len(countedStatuses)]string) {
	for i, status := range countedStatuses {
		heads[i] = "HTTP/1.1 " + strconv.Itoa(status) + " " + fasthttp.StatusMessage(status) + "\r\n"
	}
	return heads
}()

// expressErrors are the answers that are no redirects, behind their date.
var expressErrors = func() (answers [4][]byte) {
	for _, status := range []int{404, 410} {
		for _, html := range []bool{false, true} {
			contentType, body := waypost.ErrorBody(status, html)
			answers[errorIndex(status, html)] = append([]byte("Content-Type: "+contentType+"\r\nContent-Length: "+strconv.Itoa(len(body))+
				"\r\nCache-Control: no-store\r\nVary: Accept\r\n\r\n"), body...)
		}
	}
	return answers
}()

func errorIndex(status int, html bool) (i int) {
	if status == 410 {
		i = 2
	}
	if html {
		i++
	}
	return i
}

// date is a Date header with its line end, and the second that it is of.
type date struct {
	second int64
	line   []byte
}

var lastDate atomic.Pointer[date]

// dateLine gives the Date header, made once a second.
func dateLine(now time.Time) []byte {
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		line := append(fasthttp.AppendHTTPDate([]byte("Date: "), now), "\r\n"...)
		d = &date{second: now.Unix(), line: line}
		lastDate.Store(d)
	}
	return d.line
}

// keepOut keeps a grown buffer for the next answer, unless it is large.
func (v *visitor) keepOut(grown []byte) {
	const most = 4 << 10
	if cap(grown) <= most {
		v.out = grown
	}
}
