package accessapi_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
)

func TestOnlyTheOwnerOfAnAccountKnowsItsPassword(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	_, blue := p.tenant(operator, "blue")
	p.want(403, call{path: "/api/v1/users", credential: blue, body: map[string]any{"email": "ann@example.com", "role": "member", "password": password}})
	made := p.want(201, call{path: "/api/v1/users", credential: blue, body: map[string]any{"email": "ann@example.com", "role": "member"}})
	user, token := "/api/v1/users/"+made.id(), invitationOf(made)
	p.want(403, call{method: http.MethodPatch, path: user, credential: blue, body: map[string]any{"password": password}})
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": password}})

	p.want(422, call{path: "/api/v1/invitation", body: map[string]any{"token": token, "password": "short"}})
	p.want(422, call{path: "/api/v1/invitation", body: map[string]any{"token": token, "password": "aaaaaaaaaaaaaaaa"}})
	require.Equal(t, "ann@example.com", p.accept(200, token).json()["email"])
	p.accept(401, token)
	session := p.signIn("ann@example.com")

	// A password that is forgotten, or was found out, is replaced in the same way.
	first := invitationOf(p.want(201, call{method: http.MethodPost, path: user + "/invitation", credential: blue}))
	p.want(401, call{path: "/api/v1/me", credential: session})
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": password}})
	second := invitationOf(p.want(201, call{method: http.MethodPost, path: user + "/invitation", credential: blue}))
	p.accept(401, first)
	p.want(200, call{method: http.MethodPatch, path: user, credential: blue, body: map[string]any{"disabled": true}})
	p.accept(401, second)
	p.want(200, call{method: http.MethodPatch, path: user, credential: blue, body: map[string]any{"disabled": false}})
	_, err := p.hand().Exec(t.Context(), `UPDATE app_user SET invited_until = now() - interval '1 second' WHERE invitation IS NOT NULL`)
	require.NoError(t, err)
	p.accept(401, second)
	third := invitationOf(p.want(201, call{method: http.MethodPost, path: user + "/invitation", credential: blue}))
	p.want(204, call{method: http.MethodDelete, path: user, credential: blue})
	p.accept(401, third)
	for _, token := range []string{"", "wp_invt_", session, third[:len(third)-1] + "!"} {
		require.Contains(t, []int{401, 422}, p.do(call{path: "/api/v1/invitation", body: map[string]any{
			"token":    token,
			"password": password,
		}}).StatusCode)
	}
}

func TestAnInvitationIsAcceptedOnce(t *testing.T) {
	p := start(t)
	token := invitationOf(p.want(201, call{path: "/api/v1/users", credential: p.firstAdmin(), body: map[string]any{"email": "ann@example.com", "role": "member"}}))
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if p.do(call{path: "/api/v1/invitation", body: map[string]any{"token": token, "password": password}}).StatusCode == http.StatusOK {
				accepted.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(1), accepted.Load())
	p.signIn("ann@example.com")
}

func TestInvitationsAreGuessedNoFasterThanPasswords(t *testing.T) {
	p := start(t, func(c *httpapi.Config) { c.Limits.Guesses = limit.NewGuesses(2, frozen) })
	p.accept(401, "wp_invt_a")
	p.accept(401, "wp_invt_b")
	require.NotEmpty(t, p.accept(429, "wp_invt_c").Header.Get("Retry-After"))
}

// Somebody has made an account with another's address before that one comes.
func TestWhoHasTakenAnAddressIsNotLetInElsewhere(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	_, squatter := p.tenant(operator, "blue")
	green, _ := p.tenant(operator, "green")
	p.addUser(squatter, "boss@green.example", "member")
	taken := p.signIn("boss@green.example")
	p.turnOn(taken)
	a := p.want(201, call{path: "/api/admin/workspaces/" + green + "/users", credential: operator, body: map[string]any{"email": "boss@green.example", "role": "admin"}})
	p.want(401, call{path: "/api/v1/me", credential: taken})
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "boss@green.example", "password": password}})
	p.accept(200, invitationOf(a))
	boss := p.signIn("boss@green.example")
	p.want(200, call{path: "/api/v1/users", credential: boss, header: map[string]string{"Waypost-Workspace": "green"}})
	p.want(403, call{method: http.MethodPost, path: "/api/v1/users/" + a.id() + "/invitation", credential: squatter})
	p.want(200, call{path: "/api/v1/me", credential: boss})

	// An account that operators look after is let in as it is.
	p.want(200, call{path: "/api/v1/me", credential: operator})
	a = p.want(201, call{path: "/api/admin/workspaces/" + green + "/users", credential: operator, body: map[string]any{"email": "root@example.com", "role": "viewer"}})
	require.NotContains(t, a.json(), "invitation")
	p.want(200, call{path: "/api/v1/me", credential: operator})
}

func TestOperatorsLookAfterEveryAccount(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	blueID, blue := p.tenant(operator, "blue")
	ann := p.addUser(blue, "ann@example.com", "member")
	_, annsKey := p.addKey(blue, "admin")
	admin := func(method, path string, body any) call {
		return call{method: method, path: "/api/admin/users" + path, credential: operator, body: body}
	}
	for _, c := range []call{admin(http.MethodGet, "", nil), admin(http.MethodPatch, "/"+ann, map[string]any{"disabled": true}), admin(http.MethodPost, "/"+ann+"/invitation", nil)} {
		for _, credential := range []string{blue, annsKey} {
			c.credential = credential
			p.want(403, c)
		}
	}
	page := p.want(200, admin(http.MethodGet, "?limit=2", nil)).json()
	require.Len(t, page["users"], 2)
	require.Len(t, p.want(200, admin(http.MethodGet, "?cursor="+page["next_cursor"].(string), nil)).json()["users"], 1)
	one := p.want(200, admin(http.MethodGet, "?email=ANN@example.com", nil)).json()["users"].([]any)
	require.Len(t, one, 1)
	require.Equal(t, "blue", one[0].(map[string]any)["home"])
	require.Equal(t, "member", one[0].(map[string]any)["workspaces"].([]any)[0].(map[string]any)["role"])
	require.Empty(t, p.want(200, admin(http.MethodGet, "?email=nobody@example.com", nil)).json()["users"])
	p.want(422, admin(http.MethodGet, "?email=x", nil))

	session := p.signIn("ann@example.com")
	p.want(200, admin(http.MethodPatch, "/"+ann, map[string]any{"disabled": true}))
	p.want(401, call{path: "/api/v1/me", credential: session})
	p.want(200, admin(http.MethodPatch, "/"+ann, map[string]any{"disabled": false, "name": "Ann"}))
	session = p.signIn("ann@example.com")
	p.want(200, admin(http.MethodPatch, "/"+ann, map[string]any{"password": "another horse battery"}))
	p.want(401, call{path: "/api/v1/me", credential: session})
	token := invitationOf(p.want(201, admin(http.MethodPost, "/"+ann+"/invitation", nil)))
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": "another horse battery"}})
	p.accept(200, token)
	p.signIn("ann@example.com")

	p.want(404, admin(http.MethodPatch, "/999", map[string]any{"disabled": true}))
	p.want(404, admin(http.MethodPost, "/999/invitation", nil))
	p.want(422, admin(http.MethodPatch, "/"+ann, map[string]any{}))
	p.want(422, admin(http.MethodPatch, "/"+ann, map[string]any{"role": "admin"}))
	only := idOf(p.want(200, admin(http.MethodGet, "?email=admin@blue.example", nil)).json()["users"].([]any)[0].(map[string]any))
	p.want(409, admin(http.MethodPatch, "/"+only, map[string]any{"disabled": true})) // blue would have no one
	p.want(200, call{method: http.MethodDelete, path: "/api/admin/workspaces/" + blueID, credential: operator})
	p.want(404, admin(http.MethodPatch, "/"+only, map[string]any{"disabled": true}))
	p.later(time.Second)
	audit := p.want(200, call{path: "/api/admin/audit", credential: operator}).text
	require.Contains(t, audit, "users.invite")
	require.NotContains(t, audit, token)
}
