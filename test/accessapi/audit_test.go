package accessapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane"
)

// acts returns the entries of the audit log that a credential sees, of one action, newest
// first.
func (p *plane) acts(credential, action string) (found []map[string]any) {
	p.t.Helper()
	for _, e := range p.want(200, call{path: "/api/admin/audit?limit=1000", credential: credential}).json()["entries"].([]any) {
		if entry := e.(map[string]any); entry["action"] == action {
			found = append(found, entry)
		}
	}
	return found
}

func TestAudit_HasFailedSignInsOfKnownAccounts(t *testing.T) {
	p := start(t)
	root := p.firstAdmin()
	_, blue := p.tenant(root, "blue")
	p.addUser(blue, "ann@blue.example", "member")
	f := p.turnOn(root)
	for _, email := range []string{"ann@blue.example", "ann@blue.example", "nobody@blue.example"} {
		p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": email, "password": "wrong horse battery"}})
	}
	p.want(401, withCode(""))
	p.want(401, withCode("12345"))
	p.tendOnce()

	failed := p.acts(blue, "users.sign-in-failed")
	require.Len(t, failed, 1, "the workspace that manages the account sees it")
	require.Equal(t, "unknown", failed[0]["actor"])
	require.Equal(t, map[string]any{
		"email": "ann@blue.example", "wrong_passwords": 2.0, "wrong_codes": 0.0, "last_address": "127.0.0.1",
	}, failed[0]["detail"])
	failed = p.acts(root, "users.sign-in-failed")
	require.Len(t, failed, 1)
	require.Equal(t, map[string]any{
		"email": "root@example.com", "wrong_passwords": 0.0, "wrong_codes": 1.0, "last_address": "127.0.0.1",
	}, failed[0]["detail"])
	p.later(time.Minute)
	p.want(201, withCode(f.code(0)))
	p.tendOnce()
	require.Len(t, p.acts(root, "users.sign-in-failed"), 1)
}

func TestAudit_HasChangesOfPasswordsAndSignInsFromNewBrowsers(t *testing.T) {
	p := start(t)
	root := p.firstAdmin()
	id := p.addUser(root, "ann@example.com", "member")
	signIn := func(program string) string {
		t.Helper()
		return p.want(201, call{
			path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": password},
			header: map[string]string{"User-Agent": program},
		}).json()["token"].(string)
	}
	signIn("browser")
	signIn("browser")
	ann := signIn("another")
	var programs []any
	for _, e := range p.acts(root, "users.sign-in") {
		if e["subject"] == "user "+id {
			programs = append(programs, e["detail"].(map[string]any)["program"])
			require.Equal(t, "ann@example.com (user "+id+")", e["actor"])
		}
	}
	require.Equal(t, []any{"another", "browser"}, programs)

	accepted := p.acts(root, "users.accept")
	require.Len(t, accepted, 1)
	require.Equal(t, "user "+id, accepted[0]["subject"])
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/me", credential: ann, body: map[string]any{"name": "Ann"}})
	require.Empty(t, p.acts(root, "users.password"))
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/me", credential: ann, body: map[string]any{
		"password": "another horse battery", "current_password": password,
	}})
	changed := p.acts(root, "users.password")
	require.Len(t, changed, 1)
	require.Equal(t, "Ann (user "+id+")", changed[0]["actor"])
}

func TestAudit_HasRequestsThatAreRefusedAgainAndAgain(t *testing.T) {
	p := start(t)
	_, blue := p.tenant(p.firstAdmin(), "blue")
	_, key := p.addKey(blue, "links:read")
	create := call{method: http.MethodPost, path: "/api/v1/urls", credential: key, body: map[string]any{"original_url": "https://example.com/"}}
	for range 99 {
		p.want(403, create)
	}
	require.Empty(t, p.acts(blue, "requests.refused"))
	for range 101 {
		p.want(403, create)
	}
	found := p.acts(blue, "requests.refused")
	require.Len(t, found, 1)
	require.Equal(t, "POST /api/v1/urls", found[0]["subject"])
	require.Equal(t, map[string]any{
		"status": 403.0, "at_least": 100.0, "credential": key[:controlplane.KeyDisplay], "network": "127.0.0.0/24",
	}, found[0]["detail"])
}
