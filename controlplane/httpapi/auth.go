package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/limit"
)

// Limits bound the requests of credentials and workspaces, and the attempts to guess.
// Nil fields limit nothing.
type Limits struct {
	Requests   *limit.Requests // of a credential
	Workspaces *limit.Requests // of all credentials of a workspace together
	Guesses    *limit.Guesses

	// Client returns the address of the sender of a request; default: the address of the
	// connection.
	Client func(*http.Request) netip.Addr
}

const (
	// maxKey bounds a credential in bytes before it is looked up.
	maxKey = 512

	// itemsPerRequest is the number of links or keys in a request that count as a further
	// one.
	itemsPerRequest = 100
)

// authenticator finds out who sends a request, and bounds guesses and requests.
type authenticator struct {
	access    Access
	anonymous *controlplane.Actor // nil: requests without a credential are refused
	baseHost  string
	limits    Limits
	signIns   *signIns
	origins   *http.CrossOriginProtection
	metrics   metrics
}

// sender is the sender of a request.
type sender struct {
	actor      controlplane.Actor // of an operation that is not public
	credential string             // that the request is counted by; "" without one
	client     netip.Addr
}

func (op *operation) needsCredential() bool { return op.signed || len(op.scopes) > 0 }

// admit finds out who sent a request, and refuses actors without the scopes that an
// operation needs.
func (a *authenticator) admit(ctx context.Context, w http.ResponseWriter, r *http.Request, op *operation) (s sender, err error) {
	s.client = a.limits.Client(r)
	if !op.needsCredential() {
		return s, nil
	}
	changes := len(op.scopes) > 0 && op.scopes[0] == controlplane.ScopeLinksWrite
	if changes && r.Method == http.MethodHead { // ServeMux takes it for a GET, whose answer would be lost
		p := newProblem(codeMethodNotAllowed, "HEAD would have an effect here, and no answer")
		p.header.Set("Allow", op.method)
		return s, p
	}
	if s.actor, err = a.actor(ctx, r, changes); err != nil {
		return s, err
	}
	s.credential = credentialOf(r)
	if !op.uncounted {
		if err := a.limit(w.Header(), &s); err != nil {
			return s, err
		}
	}
	switch {
	case len(op.scopes) == 0 || slices.ContainsFunc(op.scopes, s.actor.Can):
		return s, nil
	case s.actor.Workspace == 0:
		return s, waypost.Errorf(waypost.EForbidden, "you are in several workspaces: choose one with the header %s", api.HeaderWorkspace)
	default:
		return s, challenge(waypost.Errorf(waypost.EForbidden, "this needs the scope %s", op.scopes[0]),
			`error="insufficient_scope", scope="`+string(op.scopes[0])+`"`)
	}
}

// actor finds out who sent r. Changes means that r has an effect, whatever its method.
func (a *authenticator) actor(ctx context.Context, r *http.Request, changes bool) (controlplane.Actor, error) {
	key, given, ok := keyOf(r.Header)
	fromCookie := false
	if !given {
		key, given, ok = cookieOf(r)
		fromCookie = given
	}
	switch {
	case !given && a.anonymous == nil:
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized, "send an API key as Authorization: Bearer or as X-Api-Key"), "")
	case !given && (!a.local(sentHost(r)) || !a.local(r.Host)):
		// A page under a name that was made to point at this machine is a foreign page,
		// whatever its origin says (DNS rebinding).
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized,
			"without an API key, send this to localhost, a loopback address or the base URL's host"), "")
	case !given:
		// Without a key, a foreign page could use the browser of a user here.
		if err := a.sameOrigin(r, changes); err != nil {
			return controlplane.Actor{}, err
		}
		return inWorkspace(*a.anonymous, r.Header)
	case !ok:
		spoilt := waypost.Errorf(waypost.EUnauthorized, "no key")
		p := presented{kind: "key", from: a.limits.Client(r)}
		if err := a.checkCredential(ctx, p, func(context.Context) error { return spoilt }); waypost.CodeOf(err) != waypost.EUnauthorized {
			return controlplane.Actor{}, err
		}
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized,
			"send exactly one API key, as Authorization: Bearer or as X-Api-Key"), `error="invalid_token"`)
	case fromCookie:
		if err := a.sameOrigin(r, changes); err != nil {
			return controlplane.Actor{}, err
		}
	}
	actor, err := a.holder(ctx, r, key)
	if waypost.CodeOf(err) == waypost.EUnauthorized {
		return controlplane.Actor{}, challenge(err, `error="invalid_token"`)
	}
	return actor, err
}

// holder finds the actor of a credential that came with r.
func (a *authenticator) holder(ctx context.Context, r *http.Request, credential string) (actor controlplane.Actor, err error) {
	p := presented{kind: "key", credential: credential, from: a.limits.Client(r)}
	if controlplane.IsSession(credential) {
		p.kind = "session"
		return actor, a.checkCredential(ctx, p, func(ctx context.Context) (err error) {
			slug := r.Header.Get(api.HeaderWorkspace)
			if len(slug) > 63 {
				return waypost.Errorf(waypost.EForbidden, "you are in no workspace of that name")
			}
			actor, err = a.access.AuthenticateSession(ctx, credential, slug)
			return err
		})
	}
	return actor, a.checkCredential(ctx, p, func(ctx context.Context) (err error) {
		if actor, err = a.access.Authenticate(ctx, credential); err == nil {
			actor, err = inWorkspace(actor, r.Header)
		}
		return err
	})
}

// presented is a credential to judge.
type presented struct {
	kind       string     // key, session or password
	credential string     // "" for a password
	account    string     // of a password: the address that it is for; "" for none
	codeOf     string     // of a code of a second factor: whose it is; "" without a code
	from       netip.Addr // the sender
}

// checkCredential checks a credential of any kind. A sender that has failed too often is
// refused before check looks the credential up.
func (a *authenticator) checkCredential(ctx context.Context, p presented, check func(context.Context) error) error {
	if by, retry := a.limits.Guesses.Check(p.from, p.credential); by != "" {
		a.metrics.limited.WithLabelValues(by).Inc()
		return tooMany("too many attempts to authenticate have failed", retry)
	}
	if p.kind == "password" { // its check takes memory and time
		leave, err := a.signIns.enter(ctx, p.from)
		if err != nil {
			a.metrics.limited.WithLabelValues("sign-ins").Inc()
			return err
		}
		defer leave()
	}
	giveBack, retry := a.limits.Guesses.Attempt(p.from, p.account)
	if retry > 0 {
		a.metrics.limited.WithLabelValues(limit.ByAccount).Inc()
		return tooMany("too many attempts to sign in to this account have failed", retry)
	}
	giveBackCode, retry := a.limits.Guesses.AttemptCode(p.codeOf)
	if retry > 0 {
		giveBack()
		a.metrics.limited.WithLabelValues(limit.ByAccount).Inc()
		return tooMany("too many codes of this account's second factor were wrong", retry)
	}
	err := check(ctx)
	wrongCode := errors.Is(err, controlplane.ErrCode)
	failed := waypost.CodeOf(err) == waypost.EUnauthorized || wrongCode
	if !failed {
		giveBack()
	}
	if !wrongCode {
		giveBackCode()
	}
	a.metrics.authenticated(p.kind, err)
	switch {
	case failed:
		a.limits.Guesses.Failed(p.from, p.credential)
	case err == nil && p.credential != "":
		a.limits.Guesses.Succeeded(p.credential)
	case err == nil:
		a.limits.Guesses.SignedIn(p.from, p.account)
	}
	return err
}

// workspace names the workspace by which a request is counted; "" without one.
func (s *sender) workspace() string {
	if s.actor.Workspace == 0 {
		return ""
	}
	return "workspace " + strconv.FormatInt(int64(s.actor.Workspace), 10)
}

// limit counts an authenticated request. The headers of its answer, successful or not,
// show how many more the client may send by the tighter of both limits.
func (a *authenticator) limit(answer http.Header, s *sender) error {
	d, limited := a.limits.Requests.Take(s.credential)
	by, refusal := "requests", "this API key has used up its requests"
	if ws := s.workspace(); ws != "" && d.OK {
		if all, bounded := a.limits.Workspaces.Take(ws); bounded && (!limited || !all.OK || all.Remaining < d.Remaining) {
			d, limited = all, true
			by, refusal = "workspace", "the API keys and sessions of this workspace have together used up its requests"
		}
	}
	if !limited {
		return nil
	}
	answer.Set("RateLimit-Limit", strconv.Itoa(d.Limit))
	answer.Set("RateLimit-Remaining", strconv.Itoa(d.Remaining))
	answer.Set("RateLimit-Reset", seconds(d.Reset))
	if d.OK {
		return nil
	}
	a.metrics.limited.WithLabelValues(by).Inc()
	return tooMany(refusal, d.Retry)
}

// charge counts a request with n items as several requests.
func (a *authenticator) charge(ctx context.Context, n int) {
	s := &callFrom(ctx).sender
	a.limits.Requests.Owe(s.credential, n/itemsPerRequest)
	if ws := s.workspace(); ws != "" {
		a.limits.Workspaces.Owe(ws, n/itemsPerRequest)
	}
}

func tooMany(detail string, retry time.Duration) *problem {
	p := newProblem(codeRateLimited, detail)
	p.header.Set("Retry-After", seconds(max(time.Second, retry)))
	return p
}

func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

// peer returns the address of a request's connection.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}

// inWorkspace refuses to act in another workspace than the requested one.
func inWorkspace(actor controlplane.Actor, h http.Header) (controlplane.Actor, error) {
	if asked := h.Get(api.HeaderWorkspace); asked != "" && asked != actor.Slug {
		return controlplane.Actor{}, waypost.Errorf(waypost.EForbidden,
			"the API key belongs to another workspace than the header %s asks for", api.HeaderWorkspace)
	}
	return actor, nil
}

// sameOrigin keeps pages of other origins from acting for a user who looks at them: the
// user's browser would send the cookie along.
func (a *authenticator) sameOrigin(r *http.Request, changes bool) error {
	if changes && r.Method != http.MethodPost {
		r = r.WithContext(r.Context())
		r.Method = http.MethodPost
	}
	if err := a.origins.Check(r); err != nil {
		return waypost.Errorf(waypost.EForbidden, "a page of another origin must send an API key")
	}
	return nil
}

// sessionCookie holds a session's token. Because of the prefix, browsers accept it over
// TLS only, from this host, for all of its paths.
const sessionCookie = "__Host-waypost_session"

// cookieOf returns the session's token in a request's cookies; ok when there is exactly
// one.
func cookieOf(r *http.Request) (token string, given, ok bool) {
	cookies := r.CookiesNamed(sessionCookie)
	if len(cookies) == 0 {
		return "", false, false
	}
	token = cookies[0].Value
	return token, true, len(cookies) == 1 && controlplane.IsSession(token) && len(token) <= maxKey
}

// credentialOf returns the credential that a request is counted by; "" without one.
func credentialOf(r *http.Request) string {
	if key, given, _ := keyOf(r.Header); given {
		return key
	}
	token, _, _ := cookieOf(r)
	return token
}

type sentHostKey struct{}

// WithHost returns r as a request for the host that a trusted proxy names. A request
// without a credential is still judged by the host that it was sent to: a foreign page
// in a browser can name any other.
func WithHost(r *http.Request, host string) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), sentHostKey{}, r.Host))
	r.Host = host
	return r
}

// sentHost returns the Host header of r.
func sentHost(r *http.Request) string {
	if sent, ok := r.Context().Value(sentHostKey{}).(string); ok {
		return sent
	}
	return r.Host
}

// local reports whether a request was sent to a name of this machine, or to the name of
// the base URL.
func (a *authenticator) local(host string) bool {
	name := waypost.HostName(host)
	if name == "localhost" || name == a.baseHost {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && addr.IsLoopback()
}

// keyOf returns the key of a request. Any content of the two headers counts as given, so
// that a spoilt key never turns a request into an anonymous one; ok when all of it is one
// and the same key.
func keyOf(h http.Header) (key string, given, ok bool) {
	keys := h["X-Api-Key"]
	for _, v := range h["Authorization"] {
		scheme, token, _ := strings.Cut(v, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		keys = append(keys[:len(keys):len(keys)], strings.TrimSpace(token))
	}
	if len(keys) == 0 {
		return "", false, false
	}
	for _, k := range keys {
		if k != keys[0] || k == "" || len(k) > maxKey {
			return "", true, false
		}
	}
	return keys[0], true, true
}

// challenge makes a refusal that explains how to authenticate (RFC 6750, section 3).
func challenge(err error, params string) *problem {
	p := newProblem(waypost.CodeOf(err), waypost.MessageOf(err))
	value := `Bearer realm="waypost"`
	if params != "" {
		value += ", " + params
	}
	p.header.Set("WWW-Authenticate", value)
	return p
}
