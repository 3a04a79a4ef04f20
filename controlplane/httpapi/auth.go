package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"waypost"
	"waypost/controlplane"
)

// maxKey bounds a key in bytes before anybody looks at it.
const maxKey = 512

// asker is who asks.
type asker struct {
	actor      controlplane.Actor // of an operation that is not public
	credential string             // that the request is counted by; "" without one
	client     netip.Addr
}

type askerKey struct{}

func askerFrom(ctx context.Context) *asker {
	if who, ok := ctx.Value(askerKey{}).(*asker); ok {
		return who
	}
	return &asker{}
}

// actorFrom gives who asks. It is set on every operation that needs a scope.
func actorFrom(ctx context.Context) controlplane.Actor { return askerFrom(ctx).actor }

// clientFrom gives the address of who asks.
func clientFrom(ctx context.Context) netip.Addr { return askerFrom(ctx).client }

// authenticate lets a request through to an operation when it is admitted.
func (s *server) authenticate(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	who, err := s.admit(ctx.Context(), w, r, ctx.Operation())
	if err != nil {
		s.refuse(ctx, w, err)
		return
	}
	next(huma.WithValue(ctx, askerKey{}, who))
}

// admit finds out who sent a request. An operation that is not public is only for actors
// that have one of the scopes that it needs, if it needs any. Where several would do, the
// first is the one to ask for.
func (s *server) admit(ctx context.Context, w http.ResponseWriter, r *http.Request, op *huma.Operation) (*asker, error) {
	who := &asker{client: s.limits.Client(r)}
	if len(op.Security) == 0 {
		return who, nil
	}
	scopes := scopesOf(op)
	changes := len(scopes) > 0 && scopes[0] == controlplane.ScopeLinksWrite
	if changes && r.Method == http.MethodHead { // ServeMux takes it for a GET, whose answer would be lost
		p := newProblem(codeMethodNotAllowed, "HEAD would have an effect here, and no answer")
		p.header.Set("Allow", op.Method)
		return nil, p
	}
	if _, bounded := ctx.Deadline(); !bounded { // an export, which as a whole is not
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	var err error
	if who.actor, err = s.actor(ctx, r, changes); err != nil {
		return nil, err
	}
	who.credential = credentialOf(r)
	if err := s.limit(w.Header(), who.credential); err != nil {
		return nil, err
	}
	switch {
	case len(scopes) == 0 || slices.ContainsFunc(scopes, who.actor.Can):
		return who, nil
	case who.actor.Workspace == 0:
		return nil, waypost.Errorf(waypost.EForbidden, "you are in several workspaces: say which one in the header %s", headerWorkspace)
	default:
		return nil, challenge(waypost.Errorf(waypost.EForbidden, "this needs the scope %s", scopes[0]),
			`error="insufficient_scope", scope="`+string(scopes[0])+`"`)
	}
}

// actor finds out who sent r. Changes tells that it has an effect, whatever its method.
func (s *server) actor(ctx context.Context, r *http.Request, changes bool) (controlplane.Actor, error) {
	key, given, ok := keyOf(r.Header)
	fromCookie := false
	if !given && s.access != nil {
		key, given, ok = cookieOf(r)
		fromCookie = given
	}
	switch {
	case !given && s.anonymous != nil && !s.local(r.Host):
		// A page whose name was made to point at this machine is no page of ours,
		// whatever its origin says (DNS rebinding).
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized,
			"without an API key this must be asked as localhost, by a loopback address or by the base URL's host"), "")
	case !given && s.anonymous != nil:
		// Without a key, a page in somebody's browser could ask in their stead.
		if err := s.sameOrigin(ctx, r, changes); err != nil {
			return controlplane.Actor{}, err
		}
		return inWorkspace(*s.anonymous, r.Header)
	case !given:
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized, "send an API key as Authorization: Bearer or as X-Api-Key"), "")
	case !ok:
		spoilt := waypost.Errorf(waypost.EUnauthorized, "no key")
		if err := s.judge(ctx, presented{kind: "key", from: s.limits.Client(r)}, func(context.Context) error { return spoilt }); waypost.CodeOf(err) != waypost.EUnauthorized {
			return controlplane.Actor{}, err
		}
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized, "send exactly one API key, as Authorization: Bearer or as X-Api-Key"), `error="invalid_token"`)
	case fromCookie:
		if err := s.sameOrigin(ctx, r, changes); err != nil {
			return controlplane.Actor{}, err
		}
	}
	actor, err := s.holder(ctx, r, key)
	if waypost.CodeOf(err) == waypost.EUnauthorized {
		return controlplane.Actor{}, challenge(err, `error="invalid_token"`)
	}
	return actor, err
}

// holder finds the actor of a credential that came with r.
func (s *server) holder(ctx context.Context, r *http.Request, credential string) (actor controlplane.Actor, err error) {
	p := presented{kind: "key", credential: credential, from: s.limits.Client(r)}
	if s.access != nil && controlplane.IsSession(credential) {
		p.kind = "session"
		return actor, s.judge(ctx, p, func(ctx context.Context) (err error) {
			slug := r.Header.Get(headerWorkspace)
			if len(slug) > 63 {
				return waypost.Errorf(waypost.EForbidden, "there is no such workspace that you are in")
			}
			actor, err = s.access.AuthenticateSession(ctx, credential, slug)
			return err
		})
	}
	return actor, s.judge(ctx, p, func(ctx context.Context) (err error) {
		if actor, err = s.links.Authenticate(ctx, credential); err == nil {
			actor, err = inWorkspace(actor, r.Header)
		}
		return err
	})
}

// presented is a credential that is to be judged.
type presented struct {
	kind       string     // key, session or password
	credential string     // "" for a password
	from       netip.Addr // who presents it
}

// judge is what every authentication passes, by whatever credential. Whoever has failed
// too often is refused before check looks the credential up.
func (s *server) judge(ctx context.Context, p presented, check func(context.Context) error) error {
	if by, retry := s.limits.Guesses.Check(p.from, p.credential); by != "" {
		s.metrics.limited.WithLabelValues(by).Inc()
		return tooMany("too many attempts to authenticate have failed", retry)
	}
	if p.kind == "password" { // whose check takes memory and time
		leave, ok := s.signIns.Enter(p.from)
		if !ok {
			s.metrics.limited.WithLabelValues("sign-ins").Inc()
			return tooMany("too many are signing in at once from this network", time.Second)
		}
		defer leave()
	}
	err := check(ctx)
	s.metrics.authenticated(p.kind, err)
	switch {
	case waypost.CodeOf(err) == waypost.EUnauthorized:
		s.limits.Guesses.Failed(p.from, p.credential)
	case err == nil && p.credential != "":
		s.limits.Guesses.Succeeded(p.credential)
	}
	return err
}

// headerWorkspace names the workspace that a request is for.
const headerWorkspace = "Waypost-Workspace"

// inWorkspace refuses to act in another workspace than the one that was asked for.
func inWorkspace(actor controlplane.Actor, h http.Header) (controlplane.Actor, error) {
	if asked := h.Get(headerWorkspace); asked != "" && asked != actor.Slug {
		return controlplane.Actor{}, waypost.Errorf(waypost.EForbidden, "the API key is of another workspace than the header %s asks for", headerWorkspace)
	}
	return actor, nil
}

// sameOrigin keeps pages of other origins from acting in the stead of who looks at
// them: their browser would send the cookie along.
func (s *server) sameOrigin(ctx context.Context, r *http.Request, changes bool) error {
	asked := r.WithContext(ctx)
	if changes {
		asked.Method = http.MethodPost
	}
	if err := s.origins.Check(asked); err != nil {
		return waypost.Errorf(waypost.EForbidden, "a page of another origin must send an API key")
	}
	return nil
}

// sessionCookie holds a session's token. The prefix makes browsers see that it came
// over TLS, from this host, for all of it.
const sessionCookie = "__Host-waypost_session"

// cookieOf gives the session's token in a request's cookies; it is ok when there is
// exactly one.
func cookieOf(r *http.Request) (token string, given, ok bool) {
	cookies := r.CookiesNamed(sessionCookie)
	if len(cookies) == 0 {
		return "", false, false
	}
	token = cookies[0].Value
	return token, true, len(cookies) == 1 && controlplane.IsSession(token) && len(token) <= maxKey
}

// credentialOf gives the credential that a request is counted by; "" for one without.
func credentialOf(r *http.Request) string {
	if key, given, _ := keyOf(r.Header); given {
		return key
	}
	token, _, _ := cookieOf(r)
	return token
}

// local reports whether a request was sent to a name of this machine itself, or
// to the base URL's.
func (s *server) local(host string) bool {
	name := waypost.HostName(host)
	if name == "localhost" || name == s.baseHost {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && addr.IsLoopback()
}

// keyOf gives the key that a request carries. Anything in the two headers counts
// as given, so that a spoilt key never turns a request into an anonymous one; it
// is ok when all that is given is one and the same key.
func keyOf(h http.Header) (key string, given, ok bool) {
	keys := h.Values("X-Api-Key")
	for _, v := range h.Values("Authorization") {
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

// challenge is a refusal that says how to authenticate (RFC 6750, section 3).
func challenge(err error, params string) *problem {
	p := newProblem(waypost.CodeOf(err), waypost.MessageOf(err))
	value := `Bearer realm="waypost"`
	if params != "" {
		value += ", " + params
	}
	p.header.Set("WWW-Authenticate", value)
	return p
}
