package accessapi_test

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
	"waypost/internal/hotp"
)

const factorPath = "/api/v1/me/second-factor"

// factor is a second factor in the hands of its user.
type factor struct {
	p        *plane
	secret   string
	recovery []string
}

// code returns the code of a moment, from the control plane's present.
func (f *factor) code(after time.Duration) string {
	f.p.t.Helper()
	code, err := hotp.Code(f.secret, uint64(time.Now().Add(time.Duration(f.p.ahead.Load())).Add(after).Unix()/30))
	require.NoError(f.p.t, err)
	return code
}

// turnOn turns the second factor of a session's user on.
func (p *plane) turnOn(session string) *factor {
	p.t.Helper()
	made := p.want(201, call{path: factorPath, credential: session, body: map[string]any{"current_password": password}}).json()
	f := &factor{p: p, secret: made["secret"].(string)}
	require.Contains(p.t, made["otpauth_url"], "otpauth://totp/Waypost:")
	require.Contains(p.t, made["otpauth_url"], "secret="+f.secret)
	require.True(p.t, strings.HasPrefix(made["qr_svg"].(string), "<svg "))
	f.confirm(session)
	return f
}

func (f *factor) confirm(session string) {
	f.p.t.Helper()
	a := f.p.want(200, call{method: http.MethodPut, path: factorPath, credential: session, body: map[string]any{"code": f.code(0)}})
	f.keep(a)
}

func (f *factor) keep(a answer) {
	f.p.t.Helper()
	f.recovery = nil
	for _, c := range a.json()["recovery_codes"].([]any) {
		f.recovery = append(f.recovery, c.(string))
	}
	require.Len(f.p.t, f.recovery, 10)
}

func withCode(code string) call {
	return call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": password, "code": code}}
}

func TestSecondFactor_IsAskedForOnceItIsConfirmed(t *testing.T) {
	p := start(t)
	session := p.firstAdmin()
	begin := func(status int, word string) answer {
		t.Helper()
		return p.want(status, call{path: factorPath, credential: session, body: map[string]any{"current_password": word}})
	}
	confirm := func(status int, code string) {
		t.Helper()
		p.want(status, call{method: http.MethodPut, path: factorPath, credential: session, body: map[string]any{"code": code}})
	}
	confirm(409, "123456")
	begin(403, "wrong horse battery")
	begin(201, password)
	p.signIn("root@example.com") // it is only proposed
	f := &factor{p: p, secret: begin(201, password).json()["secret"].(string)}
	confirm(403, "12345")
	confirm(403, f.code(-time.Hour))
	f.confirm(session)
	confirm(409, f.code(30*time.Second))
	begin(409, password)

	me := p.want(200, call{path: "/api/v1/me", credential: session}).json()
	require.Equal(t, map[string]any{"on": true, "recovery_codes_left": 10.0}, me["second_factor"])
	require.Equal(t, true, me["has_password"])

	// A wrong password is answered as before, and a right one asks for the code.
	wrong := p.want(401, call{path: "/api/v1/session", body: map[string]any{
		"email": "root@example.com", "password": "wrong horse battery", "code": "123456",
	}})
	require.Equal(t, "urn:waypost:problem:unauthorized", wrong.json()["type"])
	for _, code := range []string{"", "12345", "abcdef", f.code(-time.Hour), f.code(time.Hour), f.code(0), "AAAA-AAAA-AAAA-AAAA"} {
		a := p.want(401, withCode(code))
		require.Equal(t, "urn:waypost:problem:second-factor-required", a.json()["type"], code)
		require.NotEmpty(t, a.Header.Get("WWW-Authenticate"))
	}
	p.later(time.Minute)
	p.want(201, withCode(f.code(0)))
	p.want(401, withCode(f.code(0)))
	p.want(201, withCode(f.code(30*time.Second)))
	p.want(401, withCode(f.code(0)))

	p.want(201, withCode(f.recovery[3]))
	p.want(401, withCode(f.recovery[3]))
	p.want(201, withCode(strings.ToLower(strings.ReplaceAll(f.recovery[4], "-", ""))))
	me = p.want(200, call{path: "/api/v1/me", credential: session}).json()
	require.Equal(t, 8.0, me["second_factor"].(map[string]any)["recovery_codes_left"])

	_, key := p.addKey(session, "admin")
	for _, c := range []call{
		{path: factorPath, body: map[string]any{}},
		{method: http.MethodPut, path: factorPath, body: map[string]any{"code": "123456"}},
		{method: http.MethodDelete, path: factorPath, body: map[string]any{"code": "123456"}},
		{path: factorPath + "/recovery-codes", body: map[string]any{"code": "123456"}},
	} {
		c.credential = key
		p.want(403, c)
	}
	require.NotContains(t, p.want(200, call{path: "/api/v1/me", credential: key}).text, "second_factor")

	// Nothing of it is stored as it is, or logged.
	var sealed []byte
	require.NoError(t, p.hand().QueryRow(t.Context(), `SELECT secret FROM second_factor`).Scan(&sealed))
	require.NotContains(t, string(sealed), f.secret)
	var hashes [][]byte
	require.NoError(t, p.hand().QueryRow(t.Context(), `SELECT recovery_codes FROM second_factor`).Scan(&hashes))
	require.NotEmpty(t, hashes)
	for _, code := range f.recovery {
		quick := sha256.Sum256([]byte(strings.ReplaceAll(code, "-", "")))
		require.NotContains(t, hashes, quick[:], "a hash that is quick to compute, and the same for all users")
	}
	log := p.want(200, call{path: "/api/admin/audit", credential: session}).text + p.log.String()
	for _, secret := range append([]string{f.secret}, f.recovery...) {
		require.NotContains(t, log, secret)
	}
	require.Contains(t, log, "users.second-factor-on")
	require.Contains(t, log, "users.recovery-code")
}

func TestSecondFactor_NoCodeIsUsedTwiceAtOnce(t *testing.T) {
	p := start(t)
	session := p.firstAdmin()
	f := p.turnOn(session)
	p.later(time.Minute)
	for _, code := range []string{f.code(0), f.recovery[0]} {
		var in atomic.Int32
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if p.do(withCode(code)).StatusCode == http.StatusCreated {
					in.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, in.Load())
	}
}

func TestSecondFactor_IsAskedForWithLinksAndAfterInvitations(t *testing.T) {
	p := start(t)
	session := p.firstAdmin()
	p.addUser(session, "ann@example.com", "admin")
	f := p.turnOn(session)
	p.later(time.Minute)
	token := p.link("root@example.com", time.Hour)
	require.Contains(t, p.want(401, byLink(token)).text, "second-factor-required")
	by := func(code string) call {
		return call{path: "/api/v1/session", body: map[string]any{"sign_in_token": token, "code": code}}
	}
	p.want(401, by("12345"))
	p.want(201, by(f.code(0)))
	p.want(401, by(f.code(30*time.Second)))

	ann := p.signIn("ann@example.com")
	me := p.want(200, call{path: "/api/v1/me", credential: session}).json()
	id := idOf(me["user"].(map[string]any))
	invitation := p.want(201, call{method: http.MethodPost, path: "/api/v1/users/" + id + "/invitation", credential: ann})
	p.accept(200, invitationOf(invitation))
	p.want(401, withCode(""))
	p.want(201, withCode(f.code(30*time.Second)))
}

func TestSecondFactor_IsTurnedOffByItsUserOrAnOperator(t *testing.T) {
	p := start(t)
	session := p.firstAdmin()
	f := p.turnOn(session)
	p.later(time.Minute)
	off := func(status int, word, code string) {
		t.Helper()
		p.want(status, call{method: http.MethodDelete, path: factorPath, credential: session, body: map[string]any{
			"current_password": word, "code": code,
		}})
	}
	off(403, "wrong horse battery", f.code(0))
	off(403, password, "123")
	renew := call{path: factorPath + "/recovery-codes", credential: session, body: map[string]any{"code": f.code(0)}}
	old := f.recovery[0]
	f.keep(p.want(200, renew))
	p.want(403, renew)
	p.want(401, withCode(old))
	off(204, password, f.recovery[0])
	off(409, password, f.recovery[1])
	p.signIn("root@example.com")

	p.turnOn(session)
	id := idOf(p.want(200, call{path: "/api/v1/me", credential: session}).json()["user"].(map[string]any))
	_, tenant := p.tenant(session, "blue")
	reset := call{method: http.MethodDelete, path: "/api/admin/users/" + id + "/second-factor", credential: tenant}
	p.want(403, reset)
	reset.credential = session
	accounts := call{path: "/api/admin/users?email=root@example.com", credential: session}
	require.Contains(t, p.want(200, accounts).text, `"second_factor":true`)
	require.Equal(t, false, p.want(200, reset).json()["second_factor"])
	p.want(404, reset)
	p.signIn("root@example.com")
	require.Contains(t, p.want(200, call{path: "/api/admin/audit", credential: session}).text, "users.second-factor-reset")
}

func TestSecondFactor_WrongCodesAreLimitedEvenWhereTheOwnerWas(t *testing.T) {
	var from atomic.Uint32
	p := start(t, func(c *httpapi.Config) {
		c.Limits.Guesses = limit.NewGuesses(3, frozen)
		c.Limits.Client = func(*http.Request) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(from.Load())}) }
	})
	session := p.firstAdmin()
	f := p.turnOn(session)
	p.later(time.Minute)
	for range 5 { // does not count
		p.want(401, withCode(""))
	}
	// The owner's network is exempt from the limit on passwords, not from that on codes.
	for range 2 {
		p.want(401, withCode("123"))
	}
	p.want(403, call{method: http.MethodDelete, path: factorPath, credential: session, body: map[string]any{
		"current_password": password, "code": "1",
	}})
	from.Store(9)
	require.NotEmpty(t, p.want(429, withCode(f.code(0))).Header.Get("Retry-After"))
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": "wrong horse battery"}})
}
