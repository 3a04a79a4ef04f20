package accessapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every way of ending access ends it at once where it is done, and on every other
// control plane within the second for which that believes what it has seen.
func TestWhateverEndsAccessEndsItWithinASecondEverywhere(t *testing.T) {
	p := start(t)
	other := p.another()
	operator := p.firstAdmin()
	read := func(credential string) call { return call{path: "/api/v1/workspace", credential: credential} }
	patch := func(path string, body map[string]any) call {
		return call{method: http.MethodPatch, path: path, credential: operator, body: body}
	}
	for name, prepare := range map[string]func(email string) (credential string, end func()){
		"a revoked key": func(string) (string, func()) {
			id, key := p.addKey(operator, "links:read")
			return key, func() { p.want(204, call{method: http.MethodDelete, path: "/api/v1/keys/" + id, credential: operator}) }
		},
		"a key that was rotated": func(string) (string, func()) {
			id, key := p.addKey(operator, "links:read")
			return key, func() {
				p.want(201, call{method: http.MethodPost, path: "/api/v1/keys/" + id + "/rotate", credential: operator})
			}
		},
		"the key of who was taken out": func(email string) (string, func()) {
			id := p.addUser(operator, email, "member")
			_, key := p.addKey(p.signIn(email), "links:read")
			return key, func() {
				p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + id, credential: operator})
			}
		},
		"the key of who is disabled": func(email string) (string, func()) {
			id := p.addUser(operator, email, "member")
			_, key := p.addKey(p.signIn(email), "links:read")
			return key, func() { p.want(200, patch("/api/v1/users/"+id, map[string]any{"disabled": true})) }
		},
		"the session of who was taken out": func(email string) (string, func()) {
			id := p.addUser(operator, email, "viewer")
			return p.signIn(email), func() {
				p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + id, credential: operator})
			}
		},
		"the session of who is disabled": func(email string) (string, func()) {
			id := p.addUser(operator, email, "viewer")
			return p.signIn(email), func() { p.want(200, patch("/api/v1/users/"+id, map[string]any{"disabled": true})) }
		},
		"the session of who got another password": func(email string) (string, func()) {
			id := p.addUser(operator, email, "viewer")
			return p.signIn(email), func() {
				p.want(200, patch("/api/v1/users/"+id, map[string]any{"password": "another horse battery"}))
			}
		},
		"a session that was signed out": func(email string) (string, func()) {
			p.addUser(operator, email, "viewer")
			token := p.signIn(email)
			return token, func() { p.want(204, call{method: http.MethodDelete, path: "/api/v1/session", credential: token}) }
		},
		"the session of a deleted workspace": func(string) (string, func()) {
			id, admin := p.tenant(operator, "short-lived")
			return admin, func() {
				p.want(200, call{method: http.MethodDelete, path: "/api/admin/workspaces/" + id, credential: operator})
			}
		},
		"the key of a deleted workspace": func(string) (string, func()) {
			id, admin := p.tenant(operator, "short-lived-too")
			_, key := p.addKey(admin, "admin")
			return key, func() {
				p.want(200, call{method: http.MethodDelete, path: "/api/admin/workspaces/" + id, credential: operator})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			email := "u" + time.Now().Format("150405.000000000") + "@example.com"
			credential, end := prepare(email)
			p.want(200, read(credential))
			other.want(200, read(credential))
			end()
			p.want(401, read(credential))
			other.later(time.Second)
			other.want(401, read(credential))
		})
	}
	entered, _ := p.addKey(operator, "links:read")
	require.NotEmpty(t, entered, "the operator is still there")
}

func TestALesserRoleCountsWithinASecondForSessionsAndKeys(t *testing.T) {
	p := start(t)
	other := p.another()
	operator := p.firstAdmin()
	id := p.addUser(operator, "ann@example.com", "admin")
	session := p.signIn("ann@example.com")
	_, key := p.addKey(session, "links:write", "admin")
	link := func(credential string) call {
		return call{path: "/api/v1/urls", credential: credential, body: map[string]any{"original_url": "https://example.com/"}}
	}
	users := func(credential string) call { return call{path: "/api/v1/users", credential: credential} }
	for _, credential := range []string{session, key} {
		other.want(200, users(credential))
	}
	for _, c := range []struct {
		role                string
		mayUsers, mayCreate int
	}{{"member", 403, 201}, {"viewer", 403, 403}, {"admin", 200, 201}} {
		p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + id, credential: operator, body: map[string]any{"role": c.role}})
		other.later(time.Second)
		for _, credential := range []string{session, key} {
			for _, at := range []*plane{p, other} {
				at.want(c.mayUsers, users(credential))
				at.want(c.mayCreate, link(credential))
			}
		}
	}
}

func TestAnEnabledAccountHasItsKeysAgainAndNotItsSessions(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id := p.addUser(operator, "ann@example.com", "member")
	session := p.signIn("ann@example.com")
	_, key := p.addKey(session, "links:read")
	for _, disabled := range []bool{true, false} {
		p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + id, credential: operator, body: map[string]any{"disabled": disabled}})
	}
	p.want(200, call{path: "/api/v1/me", credential: key})
	p.want(401, call{path: "/api/v1/me", credential: session})
	p.signIn("ann@example.com")
}
