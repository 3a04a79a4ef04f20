package accessapi_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
)

func TestNothingIsOpenBeforeTheFirstAdministrator(t *testing.T) {
	p := start(t)
	key := controlplane.NewKey()
	session := strings.Replace(key, "wp_live_", "wp_sess_", 1)
	closed := 0
	for name, operation := range p.operations {
		if security, _ := operation["security"].([]any); len(security) == 0 {
			continue
		}
		closed++
		method, path, _ := strings.Cut(name, " ")
		path = strings.NewReplacer("{id}", "1", "{code}", "abcdefg").Replace(path)
		for _, credential := range []string{"", key, session, "wp_sess_", "x"} {
			p.want(401, call{method: method, path: path, credential: credential, body: "{}"})
		}
		p.want(401, call{method: method, path: path, body: "{}", header: map[string]string{"Cookie": "__Host-waypost_session=" + session}})
	}
	require.Greater(t, closed, 30)
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": password}})
}

func TestWhoCannotSignInIsNotToldWhy(t *testing.T) {
	p := start(t)
	admin := p.firstAdmin()
	p.addUser(admin, "ann@example.com", "member")
	disabled := p.addUser(admin, "off@example.com", "member")
	gone := p.addUser(admin, "gone@example.com", "member")
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + disabled, credential: admin, body: map[string]any{"disabled": true}})
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + gone, credential: admin})
	try := func(email, word string) string {
		a := p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": email, "password": word}})
		require.Empty(t, a.Header.Get("Set-Cookie"))
		return a.text
	}
	same := try("nobody@example.com", password)
	for _, c := range [][2]string{
		{"ann@example.com", "wrong horse battery"},
		{"ann@example.com", strings.Repeat("x", 256)},
		{"off@example.com", password},
		{"gone@example.com", password},
		{"no address", password},
	} {
		require.Equal(t, same, try(c[0], c[1]), c[0])
	}
	require.NotEmpty(t, p.signIn(" Ann@EXAMPLE.com"), "addresses are compared in small letters")
}

func TestASessionEndsByItselfUnlessItIsUsed(t *testing.T) {
	p := start(t)
	token := p.firstAdmin()
	me := call{path: "/api/v1/me", credential: token}
	p.later(11 * time.Hour)
	p.want(200, me)
	p.tendOnce()
	p.later(11 * time.Hour)
	p.want(200, me)
	p.later(13 * time.Hour)
	p.want(401, me)
}

// tendOnce lets a control plane do what it does in the background, until it has.
func (p *plane) tendOnce() {
	p.t.Helper()
	ctx, cancel := contextWithCancel(p.t)
	cancel()
	p.services.Run(ctx) // writes uses down at its end
}

func TestSigningOutEndsOneSession(t *testing.T) {
	p := start(t)
	first, second := p.firstAdmin(), p.signIn("root@example.com")
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/session", credential: first})
	p.want(401, call{path: "/api/v1/me", credential: first})
	p.want(200, call{path: "/api/v1/me", credential: second})
	_, key := p.addKey(second, "admin")
	p.want(422, call{method: http.MethodDelete, path: "/api/v1/session", credential: key})
}

func TestACookieIsForOurOwnPagesOnly(t *testing.T) {
	p := start(t)
	p.firstAdmin()
	in := map[string]any{"email": "root@example.com", "password": password, "cookie": true}
	p.want(403, call{path: "/api/v1/session", body: in, header: map[string]string{"Sec-Fetch-Site": "cross-site"}})
	a := p.want(201, call{path: "/api/v1/session", body: in, header: map[string]string{"Sec-Fetch-Site": "same-origin"}})
	require.NotContains(t, a.json(), "token", "scripts cannot read it")
	set := a.Header.Get("Set-Cookie")
	for _, attribute := range []string{"; Path=/", "; HttpOnly", "; Secure", "; SameSite=Lax"} {
		require.Contains(t, set, attribute)
	}
	require.NotContains(t, set, "Domain")
	cookie, _, _ := strings.Cut(set, ";")
	require.True(t, strings.HasPrefix(cookie, "__Host-waypost_session=wp_sess_"), cookie)

	link := map[string]any{"original_url": "https://example.com/"}
	from := func(site string) map[string]string {
		return map[string]string{"Cookie": cookie, "Sec-Fetch-Site": site}
	}
	p.want(201, call{path: "/api/v1/urls", body: link, header: from("same-origin")})
	for _, site := range []string{"cross-site", "same-site"} {
		p.want(403, call{path: "/api/v1/urls", body: link, header: from(site)})
		p.want(403, call{path: "/api/v1/kgs/key", header: from(site)})
	}
	p.want(403, call{path: "/api/v1/urls", body: link, header: map[string]string{"Cookie": cookie, "Origin": "https://evil.example"}})
	p.want(401, call{path: "/api/v1/me", header: map[string]string{"Cookie": cookie + "; " + cookie}})

	out := p.want(204, call{method: http.MethodDelete, path: "/api/v1/session", header: from("same-origin")})
	require.Contains(t, out.Header.Get("Set-Cookie"), "Max-Age=0")
	p.want(401, call{path: "/api/v1/me", header: from("same-origin")})
}

func TestWhoIsInSeveralWorkspacesSaysWhichOneIsMeant(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id, admin := p.tenant(operator, "blue")
	p.tenant(operator, "green")
	require.Equal(t, "blue", p.want(200, call{path: "/api/v1/workspace", credential: admin}).json()["slug"])
	p.want(201, call{path: "/api/admin/workspaces/" + id + "/users", credential: operator, body: map[string]any{"email": "root@example.com", "role": "viewer"}})

	p.later(time.Second)
	p.want(403, call{path: "/api/v1/workspace", credential: operator})
	me := p.want(200, call{path: "/api/v1/me", credential: operator}).json()
	require.Nil(t, me["workspace"])
	require.Len(t, me["workspaces"], 2)
	in := func(slug string) map[string]string { return map[string]string{"Waypost-Workspace": slug} }
	require.Equal(t, "blue", p.want(200, call{path: "/api/v1/workspace", credential: operator, header: in("blue")}).json()["slug"])
	p.want(403, call{path: "/api/v1/users", credential: operator, header: in("blue")})
	p.want(200, call{path: "/api/v1/users", credential: operator, header: in("default")})
	for _, slug := range []string{"green", "nowhere", strings.Repeat("x", 1000)} {
		p.want(403, call{path: "/api/v1/workspace", credential: operator, header: in(slug)})
	}
	_, key := p.addKey(admin, "admin")
	p.want(200, call{path: "/api/v1/users", credential: key, header: in("blue")})
	p.want(403, call{path: "/api/v1/users", credential: key, header: in("green")})
}

func TestAChangedPasswordEndsTheOtherSessions(t *testing.T) {
	p := start(t)
	here, elsewhere := p.firstAdmin(), p.signIn("root@example.com")
	change := func(status int, current, word string) {
		p.t.Helper()
		p.want(status, call{method: http.MethodPatch, path: "/api/v1/me", credential: here, body: map[string]any{"password": word, "current_password": current}})
	}
	change(403, "wrong horse battery", "another horse battery")
	change(422, password, "short")
	change(422, password, strings.Repeat("a", 20))
	change(200, password, "another horse battery")
	p.want(200, call{path: "/api/v1/me", credential: here})
	p.want(401, call{path: "/api/v1/me", credential: elsewhere})
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": password}})
	p.want(201, call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": "another horse battery"}})
	_, key := p.addKey(here, "admin")
	p.want(403, call{method: http.MethodPatch, path: "/api/v1/me", credential: key, body: map[string]any{"name": "X"}})
}

func TestTheDocumentTellsHowToSayWhoOneIs(t *testing.T) {
	p := start(t)
	for name, operation := range p.operations {
		security, _ := operation["security"].([]any)
		if len(security) == 0 {
			continue
		}
		schemes := map[string]bool{}
		for _, alternative := range security {
			for scheme := range alternative.(map[string]any) {
				schemes[scheme] = true
			}
		}
		require.Equal(t, map[string]bool{"bearer": true, "apiKey": true, "session": true}, schemes, name)
		var header bool
		for _, parameter := range operation["parameters"].([]any) {
			header = header || parameter.(map[string]any)["name"] == "Waypost-Workspace"
		}
		require.True(t, header, name)
	}
	require.Empty(t, p.operations["POST /api/v1/session"]["security"])
	for _, schema := range []string{"SignIn", "NewMember"} {
		word := p.schemas[schema].(map[string]any)["properties"].(map[string]any)["password"].(map[string]any)
		require.Equal(t, "password", word["format"], schema)
		require.Equal(t, true, word["writeOnly"], schema)
	}
}

// Somebody who knows the old password signs in while it is changed: the password is
// compared before the change, and the session begins after.
func TestAPasswordThatIsChangedMeanwhileBeginsNoSession(t *testing.T) {
	p := start(t)
	admin := p.firstAdmin()
	for name, end := range map[string]func(id string){
		"changed": func(id string) {
			p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + id, credential: admin, body: map[string]any{"password": "another horse battery"}})
		},
		"disabled": func(id string) {
			p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + id, credential: admin, body: map[string]any{"disabled": true}})
		},
		"gone": func(id string) {
			p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + id, credential: admin})
		},
	} {
		email := name + "@example.com"
		id := p.addUser(admin, email, "member")
		compared, found, err := p.db.Account(t.Context(), email)
		require.NoError(t, err)
		require.True(t, found)
		hash := controlplane.HashKey(name)
		require.NoError(t, p.db.StartSession(t.Context(), controlplane.NewSession{
			Account: compared, Hash: hash, ExpiresAt: time.Now().Add(time.Hour),
		}))
		end(id)
		_, found, err = p.db.Session(t.Context(), hash)
		require.NoError(t, err)
		require.False(t, found, "a session that began before ends")
		err = p.db.StartSession(t.Context(), controlplane.NewSession{
			Account: compared, Hash: controlplane.HashKey("late " + name), ExpiresAt: time.Now().Add(time.Hour),
		})
		require.Equal(t, waypost.EUnauthorized, waypost.CodeOf(err), name)
	}
}

// An operator takes the password away from somebody who changes it at that moment.
func TestAPasswordThatIsTakenAwayMeanwhileIsNotChanged(t *testing.T) {
	p := start(t)
	admin := p.firstAdmin()
	id := p.addUser(admin, "ann@example.com", "member")
	compared, found, err := p.db.Account(t.Context(), "ann@example.com")
	require.NoError(t, err)
	require.True(t, found)
	p.want(201, call{method: http.MethodPost, path: "/api/v1/users/" + id + "/invitation", credential: admin})
	word := "hash of another horse battery"
	err = p.db.ChangeSelf(t.Context(), controlplane.Actor{UserID: compared.UserID}, nil, &word, compared.Password)
	require.ErrorIs(t, err, controlplane.ErrPassword)
	after, _, err := p.db.AccountOf(t.Context(), compared.UserID)
	require.NoError(t, err)
	require.Empty(t, after.Password)
}

func TestWhoHasStolenASessionGuessesThePasswordNoFasterThanAnybodyElse(t *testing.T) {
	p := start(t, func(c *httpapi.Config) { c.Limits.Guesses = limit.NewGuesses(3, frozen) })
	session := p.firstAdmin()
	change := func(current string) call {
		return call{method: http.MethodPatch, path: "/api/v1/me", credential: session, body: map[string]any{"password": "another horse battery", "current_password": current}}
	}
	for range 3 {
		p.want(403, change("wrong horse battery"))
	}
	require.NotEmpty(t, p.want(429, change(password)).Header.Get("Retry-After"))
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/me", credential: session, body: map[string]any{"name": "Ann"}})
	p.want(200, call{path: "/api/v1/users", credential: session})
}

func TestSignIn_IsLimitedByAccountExceptWhereTheOwnerWasBefore(t *testing.T) {
	var from atomic.Uint32
	p := start(t, func(c *httpapi.Config) {
		c.Limits.Guesses = limit.NewGuesses(3, frozen)
		c.Limits.Client = func(*http.Request) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(from.Load())}) }
	})
	p.firstAdminWithoutSession()
	p.signIn("root@example.com") // from 192.0.2.0, which is free from now on
	try := func(status int, email, word string) answer {
		return p.want(status, call{path: "/api/v1/session", body: map[string]any{"email": email, "password": word}})
	}
	refused := map[string]string{}
	for _, email := range []string{"root@example.com", "unknown@example.com"} {
		for range 3 {
			from.Add(1)
			try(401, email, "wrong horse battery")
		}
		from.Add(1)
		a := try(429, strings.ToUpper(email), password)
		require.Equal(t, "1200", a.Header.Get("Retry-After"))
		refused[email] = a.text
	}
	require.Equal(t, refused["root@example.com"], refused["unknown@example.com"])
	from.Store(0)
	session := p.signIn("root@example.com")
	try(401, "root@example.com", "wrong horse battery")
	p.signIn("root@example.com")
	from.Store(200) // a thief of the session, elsewhere
	p.want(429, call{method: http.MethodPatch, path: "/api/v1/me", credential: session, body: map[string]any{"password": "another horse battery", "current_password": password}})
}

func TestSignIn_SimultaneousAttemptsDoNotExceedTheLimitOfAnAccount(t *testing.T) {
	var from atomic.Uint32
	p := start(t, func(c *httpapi.Config) {
		c.Limits.Guesses = limit.NewGuesses(3, frozen)
		c.Limits.Client = func(*http.Request) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(from.Add(1)), 0, 1}) }
	})
	p.firstAdminWithoutSession()
	var judged atomic.Int32
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			a := p.do(call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": "wrong horse battery"}})
			if a.StatusCode == http.StatusUnauthorized {
				judged.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 3, judged.Load())
}

func TestSessions_AreSeenAndEndedByTheirOwnerAlone(t *testing.T) {
	p := start(t)
	here := p.firstAdmin()
	in := call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": password}, header: map[string]string{"User-Agent": strings.Repeat("ü", 150)}}
	elsewhere := p.want(201, in).json()["token"].(string)
	p.addUser(here, "ann@example.com", "admin")
	ann := p.signIn("ann@example.com")
	list := func(token string) (all []map[string]any) {
		t.Helper()
		a := p.want(200, call{path: "/api/v1/me/sessions", credential: token})
		require.NotContains(t, a.text, "wp_sess_")
		for _, s := range a.json()["sessions"].([]any) {
			all = append(all, s.(map[string]any))
		}
		return all
	}
	all := list(here)
	require.Len(t, all, 2)
	require.Equal(t, []any{false, true}, []any{all[0]["current"], all[1]["current"]})
	require.Equal(t, strings.Repeat("ü", 100), all[0]["user_agent"])
	require.Equal(t, "127.0.0.1", all[0]["address"])

	p.later(2 * time.Hour)
	require.Len(t, list(elsewhere), 2)
	uses := map[int64]time.Time{int64(all[0]["id"].(float64)): time.Now().Add(2 * time.Hour)}
	require.NoError(t, p.db.NoteUses(t.Context(), controlplane.Uses{Sessions: uses}))
	used, err := time.Parse(time.RFC3339, list(here)[0]["last_used_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(2*time.Hour), used, time.Minute)

	end := func(status int, token, id string) {
		t.Helper()
		p.want(status, call{method: http.MethodDelete, path: "/api/v1/me/sessions" + id, credential: token})
	}
	end(404, ann, "/"+idOf(all[0]))
	end(204, here, "/"+idOf(all[0]))
	end(404, here, "/"+idOf(all[0]))
	p.want(401, call{path: "/api/v1/me", credential: elsewhere})

	more := p.signIn("root@example.com")
	end(204, more, "")
	p.want(401, call{path: "/api/v1/me", credential: here})
	require.Len(t, list(more), 1)
	require.Len(t, list(ann), 1)
	_, key := p.addKey(more, "admin")
	p.want(403, call{path: "/api/v1/me/sessions", credential: key})
	end(403, key, "")
	end(403, key, "/1")
}
