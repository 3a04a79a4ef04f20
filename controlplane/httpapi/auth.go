package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"waypost"
	"waypost/controlplane"
)

// maxKey bounds a key in bytes before anybody looks at it.
const maxKey = 512

type actorKey struct{}

// actorFrom gives who asks. It is set on every operation that needs a scope.
func actorFrom(ctx context.Context) controlplane.Actor {
	actor, _ := ctx.Value(actorKey{}).(controlplane.Actor)
	return actor
}

// authenticate lets a request through to an operation that needs a scope only
// when its actor has it. Where several would do, the first is the one to ask for.
func (s *server) authenticate(ctx huma.Context, next func(huma.Context)) {
	scopes := scopesOf(ctx.Operation())
	if len(scopes) == 0 {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	changes := scopes[0] == controlplane.ScopeLinksWrite
	if changes && r.Method == http.MethodHead { // ServeMux takes it for a GET, whose answer would be lost
		p := newProblem(codeMethodNotAllowed, "HEAD would have an effect here, and no answer")
		p.header.Set("Allow", ctx.Operation().Method)
		s.refuse(ctx, w, p)
		return
	}
	actor, err := s.actor(ctx.Context(), r, changes)
	if err == nil && !slices.ContainsFunc(scopes, actor.Can) {
		err = challenge(waypost.Errorf(waypost.EForbidden, "this needs the scope %s", scopes[0]),
			`error="insufficient_scope", scope="`+string(scopes[0])+`"`)
	}
	if err != nil {
		s.refuse(ctx, w, err)
		return
	}
	next(huma.WithValue(ctx, actorKey{}, actor))
}

// actor finds out who sent r. Changes tells that it has an effect, whatever its method.
func (s *server) actor(ctx context.Context, r *http.Request, changes bool) (controlplane.Actor, error) {
	key, given, ok := keyOf(r.Header)
	switch {
	case !given && s.anonymous != nil && !s.local(r.Host):
		// A page whose name was made to point at this machine is no page of ours,
		// whatever its origin says (DNS rebinding).
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized,
			"without an API key this must be asked as localhost, by a loopback address or by the base URL's host"), "")
	case !given && s.anonymous != nil:
		// Without a key, a page in somebody's browser could ask in their stead.
		asked := r.WithContext(ctx)
		if changes {
			asked.Method = http.MethodPost
		}
		if err := s.origins.Check(asked); err != nil {
			return controlplane.Actor{}, waypost.Errorf(waypost.EForbidden, "a page of another origin must send an API key")
		}
		return *s.anonymous, nil
	case !given:
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized, "send an API key as Authorization: Bearer or as X-Api-Key"), "")
	case !ok:
		return controlplane.Actor{}, challenge(waypost.Errorf(waypost.EUnauthorized, "send exactly one API key, as Authorization: Bearer or as X-Api-Key"), `error="invalid_token"`)
	}
	actor, err := s.links.Authenticate(ctx, key)
	if waypost.CodeOf(err) == waypost.EUnauthorized {
		return controlplane.Actor{}, challenge(err, `error="invalid_token"`)
	}
	return actor, err
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
