package accesstest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAKeyIsShownOnceAndKnownByItsPrefix(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	made := p.want(201, call{path: "/api/v1/keys", credential: operator, body: map[string]any{
		"name": "ci", "description": "of the build", "scopes": []string{"links:write", "links:read"}, "expires_in_seconds": 3600,
	}})
	key := made.json()["key"].(string)
	require.True(t, strings.HasPrefix(key, "wp_live_"))
	listed := p.want(200, call{path: "/api/v1/keys", credential: operator})
	require.NotContains(t, listed.text, key)
	k := listed.json()["keys"].([]any)[0].(map[string]any)
	require.Equal(t, key[:12], k["prefix"])
	require.Equal(t, []any{"links:read", "links:write"}, k["scopes"])
	require.Equal(t, "root@example.com", k["owner_email"])
	require.Nil(t, k["last_used_at"])
	p.want(200, call{path: "/api/v1/urls", credential: key})
	p.tendOnce()
	k = p.want(200, call{path: "/api/v1/keys", credential: operator}).json()["keys"].([]any)[0].(map[string]any)
	require.NotNil(t, k["last_used_at"])
	p.later(time.Hour)
	require.Contains(t, p.want(401, call{path: "/api/v1/urls", credential: key}).text, "expired")
}

func TestTheLastUseIsWrittenOnceAMinute(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id, key := p.addKey(operator, "links:read")
	hand := p.hand()
	_, err := hand.Exec(t.Context(), `
		CREATE TABLE written (at timestamptz); GRANT INSERT ON written TO PUBLIC;
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO written VALUES (NEW.last_used_at); RETURN NULL; END $$;
		CREATE TRIGGER note AFTER UPDATE OF last_used_at ON api_key FOR EACH ROW EXECUTE FUNCTION note()`)
	require.NoError(t, err)
	for range 4 { // used at 0, 20, 40, 60 s
		p.want(200, call{path: "/api/v1/urls", credential: key})
		p.tendOnce()
		p.later(20 * time.Second)
	}
	var writes int
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(*) FROM written`).Scan(&writes))
	require.Equal(t, 2, writes)
	require.NotEmpty(t, id)
}

func TestNoKeyGoesBeyondItsMaker(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	p.addUser(operator, "member@example.com", "member")
	p.addUser(operator, "viewer@example.com", "viewer")
	make := func(credential string, scopes ...string) call {
		return call{path: "/api/v1/keys", credential: credential, body: map[string]any{"name": "k", "scopes": scopes}}
	}
	member, viewer := p.signIn("member@example.com"), p.signIn("viewer@example.com")
	p.want(403, make(member, "links:read", "admin"))
	p.want(403, make(viewer, "links:write"))
	p.want(403, make(viewer, "admin"))
	p.want(201, make(viewer, "links:read", "analytics:read"))
	p.want(422, make(operator))
	p.want(422, make(operator, "everything"))
	p.want(422, make(operator, "admin", "admin"))

	_, writes := p.addKey(member, "links:write")
	p.want(403, make(writes, "links:write"))
	p.want(403, call{path: "/api/v1/keys", credential: writes})
	_, admin := p.addKey(operator, "admin")
	p.want(201, make(admin, "admin"))
}

func TestWhoIsNoAdministratorManagesTheOwnKeysOnly(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	p.addUser(operator, "member@example.com", "member")
	member := p.signIn("member@example.com")
	theirs, _ := p.addKey(operator, "links:read")
	own, key := p.addKey(member, "links:read")
	listed := p.want(200, call{path: "/api/v1/keys", credential: member}).json()["keys"].([]any)
	require.Len(t, listed, 1)
	require.Len(t, p.want(200, call{path: "/api/v1/keys", credential: operator}).json()["keys"], 2)
	p.want(404, call{method: http.MethodDelete, path: "/api/v1/keys/" + theirs, credential: member})
	p.want(404, call{method: http.MethodPost, path: "/api/v1/keys/" + theirs + "/rotate", credential: member})
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/keys/" + own, credential: member})
	p.want(401, call{path: "/api/v1/me", credential: key})
	p.want(404, call{method: http.MethodDelete, path: "/api/v1/keys/" + own, credential: member})
}

func TestARotatedKeyGoesOnForItsGrace(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	made := p.want(201, call{path: "/api/v1/keys", credential: operator, body: map[string]any{
		"name": "ci", "scopes": []string{"links:read"}, "expires_in_seconds": 1000,
	}})
	old := made.json()["key"].(string)
	rotate := func(status int, id, grace string) answer {
		p.t.Helper()
		return p.want(status, call{method: http.MethodPost, path: "/api/v1/keys/" + id + "/rotate?grace=" + grace, credential: operator})
	}
	rotate(422, made.id(), "604801")
	rotate(422, made.id(), "-1")
	again := rotate(201, made.id(), "60")
	fresh := again.json()["key"].(string)
	require.Equal(t, made.json()["id"], again.json()["rotated_from"])
	require.Equal(t, "ci", again.json()["name"])
	expires, err := time.Parse(time.RFC3339, again.json()["expires_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(1000*time.Second), expires, 30*time.Second, "it lives as long as the old one was meant to")
	rotate(409, made.id(), "0")
	for _, key := range []string{old, fresh} {
		p.want(200, call{path: "/api/v1/urls", credential: key})
	}
	p.later(61 * time.Second)
	p.want(401, call{path: "/api/v1/urls", credential: old})
	p.want(200, call{path: "/api/v1/urls", credential: fresh})
	rotate(201, again.id(), "0")
	p.want(401, call{path: "/api/v1/urls", credential: fresh})
	rotate(404, again.id(), "0")
}
