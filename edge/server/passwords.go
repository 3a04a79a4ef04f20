package server

import (
	"bytes"
	"context"
	"crypto/subtle"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/internal/patterns"
	"waypost/internal/semaphore"
	"waypost/rules"
)

// passFor is the time for which a visitor who gave the password of a link passes.
const passFor = 12 * time.Hour

// Bounds on the passwords that are hashed or wait for their turn: of all links, of one
// link, and of visitors from neighbouring addresses. The server hashes one password at a
// time, so that hashing takes at most one processor and the memory of one hash. An
// imported hash with lanes takes more processors, and as much less time.
const (
	maxHashing           = 256
	maxLinkHashing       = 16
	maxNeighboursHashing = 2
	maxHashingWait       = 2 * time.Second
)

// hashing lets passwords be hashed one at a time, in turns by link, so that visitors of
// one link hold up a visitor of another link by one hash.
type hashing struct {
	neighbours *semaphore.Keyed[*leaky] // places, by the buckets of neighbours
	links      *semaphore.Keyed[*leaky] // places, by the buckets of links
	turn       *semaphore.Keyed[*leaky] // by the buckets of links
}

func newHashing() *hashing {
	return &hashing{
		neighbours: semaphore.NewKeyed[*leaky](maxHashing, maxNeighboursHashing),
		links:      semaphore.NewKeyed[*leaky](maxHashing, maxLinkHashing),
		turn:       semaphore.NewKeyed[*leaky](1, 1),
	}
}

// compare compares a password with a verifier. It reports busy when too many passwords
// wait, or when the turn of this one does not come in time.
func (h *hashing) compare(v *rules.Password, password []byte, by attempt) (same, busy bool) {
	if !h.neighbours.TryAcquire(by.neighbours, 1) {
		return false, true
	}
	defer h.neighbours.Release(by.neighbours, 1)
	if !h.links.TryAcquire(by.link, 1) {
		return false, true
	}
	defer h.links.Release(by.link, 1)
	ctx, cancel := context.WithTimeout(context.Background(), maxHashingWait)
	defer cancel()
	if !h.turn.Acquire(ctx, by.link) {
		return false, true
	}
	defer h.turn.Release(by.link, 1)
	if hash := v.Bcrypt(); hash != nil {
		return bcrypt.CompareHashAndPassword(hash, password) == nil, false
	}
	hash := argon2.IDKey(password, v.Salt[:], uint32(v.Passes), v.Memory, v.Lanes, uint32(len(v.Hash)))
	return subtle.ConstantTimeCompare(hash, v.Hash[:]) == 1, false
}

// workOf returns how many hashes of passwords that were set here take the time of a hash:
// 1 to 8, because hashes that were imported may take more.
func workOf(v *rules.Password) float32 {
	if v.Memory == 0 {
		return max(1, float32(int(1)<<v.Passes)/(1<<9)) // bcrypt of cost 9 takes as long
	}
	return max(1, float32(v.Memory)*float32(v.Passes)/(2*19<<10))
}

// The results of the metric waypost_redirect_passwords_total.
const (
	passwordRight = iota
	passwordWrong
	passwordLimited
	passwordBusy
)

var passwordResults = [...]string{passwordRight: "right", passwordWrong: "wrong", passwordLimited: "limited", passwordBusy: "busy"}

// takeForm answers the form of a link that asks for its password, or whether it is to be
// followed. A right password leads to the same address with a cookie, and that visit is
// redirected and counted; if the link is to be confirmed, the password does that as
// well. The password's form changes nothing but that cookie, and only for one who knows
// the password: a page that makes its visitors send the form gains nothing, so it has no
// token.
func (s *Server) takeForm(ctx *fasthttp.RequestCtx, c *conn, host []byte, visit *waypost.Visit) {
	by := asked{http: ctx}
	domain, traits, ok := s.domainOf(host)
	if !ok || isOwnPath(visit.Path) {
		s.refusePost(ctx, c)
		return
	}
	found, err := c.finder.Find(s.cfg.Links, s.cfg.Blocks, domain, traits, host, visit)
	switch {
	case err != nil:
		s.fail(ctx, c, err)
		return
	case found.Policy != 0:
		res := waypost.Blocked(found.Policy)
		s.sendBlocked(ctx, c, &res)
		return
	case found.Record == nil:
		s.refusePost(ctx, c)
		return
	}
	record := found.Record
	verifier, protected := rules.PasswordOf(record.Programme)
	if visit.Preview || !protected && !rules.Confirms(record.Programme) || !fitsHeader(visit.Path) {
		s.refusePost(ctx, c)
		return
	}
	now := nowFor(record, s.cfg.Clock)
	res := s.resolveRecord(c, record, now, visit, by)
	switch {
	case !res.Asks() || traits&waypost.Maintained != 0: // a GET finds the answer
		s.sendBack(ctx, c, visit)
	case res.Password:
		if s.takePassword(ctx, c, &verifier, by) {
			s.passOn(ctx, c, domain, record, now, visit, by)
			ctx.Response.Header.SetBytesV("Set-Cookie", s.passCookie(&verifier, c.finder.cookie(visit), overTLS(ctx, c)))
		}
	case !fromOwnPage(&ctx.Request.Header, host):
		s.sendError(ctx, c, fasthttp.StatusForbidden)
	default:
		s.passOn(ctx, c, domain, record, now, visit, by)
	}
}

// passOn leads a visitor on whose form was right: to the link's target if the form has
// confirmed the visit, and otherwise to the address of the form.
func (s *Server) passOn(
	ctx *fasthttp.RequestCtx, c *conn, domain waypost.DomainID, record *waypost.Record, now int64, visit *waypost.Visit, by asked,
) {
	if !rules.Confirms(record.Programme) {
		s.sendBack(ctx, c, visit)
		return
	}
	by.passed, by.confirmed = true, true
	res := s.resolveRecord(c, record, now, visit, by)
	res, buf := res.Follow(c.finder.at.buf, visit)
	keep(&c.finder.at.buf, buf)
	if !res.Link { // a rule refuses the visitor
		s.sendBack(ctx, c, visit)
		return
	}
	if s.hides(ctx, visit, &res) {
		s.sendError(ctx, c, fasthttp.StatusForbidden)
		return
	}
	s.redirectVisitor(ctx, c, domain, visit, &res, by)
}

// fromOwnPage reports whether a form was sent by a page of the host itself, so that no
// other page can follow a link in the name of its visitors. Browsers say so in either of
// two headers, and older ones in the second alone.
func fromOwnPage(header *fasthttp.RequestHeader, host []byte) bool {
	if site := header.Peek("Sec-Fetch-Site"); len(site) > 0 {
		return string(site) == "same-origin"
	}
	_, authority, found := bytes.Cut(header.Peek(fasthttp.HeaderOrigin), []byte("://"))
	origin, ok := parseHost(nil, authority)
	return found && ok && bytes.Equal(origin, host)
}

// takePassword judges the password of a form, and answers unless it is right.
func (s *Server) takePassword(
	ctx *fasthttp.RequestCtx, c *conn, verifier *rules.Password, by asked,
) (right bool) {
	page := &waypost.Resolution{Password: true}
	work := workOf(verifier)
	attempt, retry := s.guesses.countAttempt(c.finder.at.record.Domain, c.finder.at.record.Name, s.clientOf(c, by), work)
	if retry > 0 {
		s.metrics.passwords[passwordLimited].Add(1)
		s.sendForm(ctx, c, page, fasthttp.StatusTooManyRequests)
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, strconv.FormatInt(int64(retry.Seconds())+1, 10))
		return false
	}
	password, ok := passwordIn(ctx.Request.Body())
	busy := false
	if ok {
		right, busy = s.hashing.compare(verifier, password, attempt)
	}
	switch {
	case busy:
		s.guesses.giveBack(1, attempt.network, attempt.link)
		s.guesses.giveBack(work, attempt.neighbours)
		s.metrics.passwords[passwordBusy].Add(1)
		s.sendForm(ctx, c, page, fasthttp.StatusServiceUnavailable)
		ctx.Response.Header.SetCanonical(headerRetryAfter, retrySeconds)
	case !right:
		s.metrics.passwords[passwordWrong].Add(1)
		s.sendForm(ctx, c, page, fasthttp.StatusForbidden)
	default:
		s.guesses.giveBack(1, attempt.network, attempt.link)
		s.metrics.passwords[passwordRight].Add(1)
	}
	return right && !busy
}

// refusePost answers a POST to a resource without a form.
func (s *Server) refusePost(ctx *fasthttp.RequestCtx, c *conn) {
	s.refuse(ctx, c, fasthttp.StatusMethodNotAllowed)
	ctx.Response.Header.SetCanonical(headerAllow, getAndHead)
}

// sendBack leads a visitor to the address that the form was sent to, in the form for
// which cookies are set.
func (s *Server) sendBack(ctx *fasthttp.RequestCtx, c *conn, visit *waypost.Visit) {
	location := []byte("/")
	if len(visit.Held) > 0 {
		location = patterns.AppendAddress(location, visit)
	} else {
		location = waypost.AppendEncoded(location, visit.Code)
		location = waypost.AppendEncoded(location, visit.Rest)
	}
	if len(visit.Query) > 0 {
		location = waypost.AppendEncoded(append(location, '?'), visit.Query)
	}
	s.send(ctx, c, &answer{status: fasthttp.StatusSeeOther, location: location, cacheControl: privateNoStore, stale: -1})
}

// sentCode returns the code of a visit in the case in which it was sent, if it is the
// beginning of the path, because the paths of cookies regard case.
func sentCode(v *waypost.Visit) []byte {
	if n := len(v.Code); len(v.Path) >= n && bytes.EqualFold(v.Path[:n], v.Code) {
		return v.Path[:n]
	}
	return v.Code
}

// passCookie returns the cookie of a visitor who gave the password.
func (s *Server) passCookie(v *rules.Password, of cookie, secure bool) []byte {
	expires := s.cfg.Clock().Add(passFor).Unix()
	b := v.AppendPass(rules.AppendCookieName(nil, rules.PassCookie, of.link, secure), expires)
	b = strconv.AppendInt(append(of.appendPath(b), "; Max-Age="...), int64(passFor/time.Second), 10)
	b = append(b, "; HttpOnly; SameSite=Lax"...)
	if secure {
		b = append(b, "; Secure"...)
	}
	return b
}

// passwordIn returns the password of a form, in Unicode NFC. It reports false for
// a form without one that can be right.
func passwordIn(form []byte) (password []byte, ok bool) {
	for pair := range bytes.SplitSeq(form, []byte("&")) {
		value, ok := bytes.CutPrefix(pair, []byte("password="))
		if !ok {
			continue
		}
		text, err := url.QueryUnescape(string(value))
		if err != nil || text == "" || !utf8.ValidString(text) {
			return nil, false
		}
		password = norm.NFC.Bytes([]byte(text))
		if len(password) > rules.MaxPassword {
			return nil, false
		}
		return password, true
	}
	return nil, false
}
