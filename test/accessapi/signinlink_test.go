package accessapi_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

// link makes a sign-in link at the database, and returns its token.
func (p *plane) link(email string, valid time.Duration) string {
	p.t.Helper()
	token := controlplane.NewSignInToken()
	require.NoError(p.t, p.db.CreateSignInLink(p.t.Context(), postgres.SignInLink{
		Email: email, Hash: controlplane.HashKey(token), For: valid,
	}))
	return token
}

func byLink(token string) call {
	return call{path: "/api/v1/session", body: map[string]any{"sign_in_token": token}}
}

func TestSignInLink_SignsInOnce(t *testing.T) {
	p := start(t)
	root := p.firstAdmin()
	token := p.link("root@example.com", time.Minute)
	a := p.want(201, call{path: "/api/v1/session", body: map[string]any{"sign_in_token": token, "cookie": true}})
	require.Contains(t, a.Header.Get("Set-Cookie"), "__Host-waypost_session=wp_sess_")
	require.Equal(t, "root@example.com", a.json()["user"].(map[string]any)["email"])
	require.Contains(t, p.want(401, byLink(token)).text, "was used")

	log := p.want(200, call{path: "/api/admin/audit", credential: root})
	require.Contains(t, log.text, "users.sign-in-link")
	require.NotContains(t, log.text, token)
	require.NotContains(t, p.log.String(), token)

	for _, body := range []map[string]any{
		{},
		{"email": "root@example.com"},
		{"sign_in_token": "x", "email": "root@example.com"},
		{"sign_in_token": "x", "password": password},
	} {
		p.want(422, call{path: "/api/v1/session", body: body})
	}
	p.want(401, byLink("x"))
	other := controlplane.NewSignInToken()
	p.want(401, byLink(other))
}

func TestSignInLink_IsUsedByOneOfManyAtOnce(t *testing.T) {
	p := start(t)
	p.firstAdminWithoutSession()
	token := p.link("root@example.com", time.Minute)
	var in, out atomic.Int32
	var all sync.WaitGroup
	for range 4 { // as many as one address may have under way
		all.Go(func() {
			if a := p.do(byLink(token)); a.StatusCode == http.StatusCreated {
				in.Add(1)
			} else {
				out.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, in.Load())
	require.EqualValues(t, 3, out.Load())
}

func TestSignInLink_EndsWithItsTimeAndItsAccount(t *testing.T) {
	p := start(t)
	root := p.firstAdmin()
	id := p.addUser(root, "ann@example.com", "member")
	p.want(401, byLink(p.link("ann@example.com", 0)))
	before := p.link("ann@example.com", time.Minute)
	set := func(body map[string]any) {
		t.Helper()
		p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + id, credential: root, body: body})
	}
	set(map[string]any{"password": "another horse battery"})
	p.want(401, byLink(before))
	before = p.link("ann@example.com", time.Minute)
	set(map[string]any{"disabled": true})
	p.want(401, byLink(before))
	err := p.db.CreateSignInLink(t.Context(), postgres.SignInLink{Email: "ann@example.com", Hash: controlplane.HashKey("x"), For: time.Minute})
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	set(map[string]any{"disabled": false})
	p.want(401, byLink(before))
	ann := p.want(201, byLink(p.link("ann@example.com", time.Minute))).json()["token"].(string)

	before, others := p.link("ann@example.com", time.Minute), p.link("root@example.com", time.Minute)
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/me", credential: ann, body: map[string]any{
		"password": "yet another battery", "current_password": "another horse battery",
	}})
	p.want(401, byLink(before))
	p.want(201, byLink(others))
}

func TestSignInLink_OfTheDeveloperNeedsNoPassword(t *testing.T) {
	p := start(t)
	for range 2 {
		require.NoError(t, p.db.EnsureDeveloper(t.Context(), "dev@localhost", "Developer"))
		a := p.want(201, byLink(p.link("dev@localhost", time.Minute)))
		p.want(200, call{path: "/api/admin/users", credential: a.json()["token"].(string)})
	}
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "dev@localhost", "password": password}})
	p.firstAdmin() // the developer's account is not the first administrator
}
