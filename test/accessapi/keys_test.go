package accessapi_test

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

func TestAKeyThatWasReplacedIsToldFromItsSuccessor(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	long := strings.Repeat("ü", 100)
	for _, name := range []string{"ci", long} {
		made := p.want(201, call{path: "/api/v1/keys", credential: operator, body: map[string]any{"name": name, "scopes": []string{"links:read"}}})
		again := p.want(201, call{method: http.MethodPost, path: "/api/v1/keys/" + made.id() + "/rotate?grace=60", credential: operator})
		require.Equal(t, name, again.json()["name"])
		listed := p.want(200, call{path: "/api/v1/keys", credential: operator}).json()["keys"].([]any)
		old := listed[1].(map[string]any)
		require.Equal(t, made.id(), idOf(old))
		require.True(t, strings.HasSuffix(old["name"].(string), " (replaced by "+again.id()+")"), old["name"])
		require.LessOrEqual(t, len([]rune(old["name"].(string))), 100)
		require.Equal(t, name[:2], old["name"].(string)[:2])
	}
}

func TestARequestForAKeyThatIsSentAgainMakesNoSecondKey(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	once := map[string]string{"Idempotency-Key": "deploy-7"}
	wish := call{path: "/api/v1/keys", credential: operator, header: once, body: map[string]any{"name": "ci", "scopes": []string{"links:read"}}}
	first := p.want(201, wish)
	require.Empty(t, first.Header.Get("Idempotency-Replayed"))
	key := first.json()["key"].(string)
	again := p.want(201, wish)
	require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
	require.Equal(t, first.id(), again.id())
	require.NotContains(t, again.json(), "key", "it is told once")
	other := wish
	other.body = map[string]any{"name": "cd", "scopes": []string{"links:read"}}
	require.Equal(t, "urn:waypost:problem:key-reused", p.want(422, other).json()["type"])

	rotate := call{method: http.MethodPost, path: "/api/v1/keys/" + first.id() + "/rotate", credential: operator, header: once}
	fresh := p.want(201, rotate)
	require.Equal(t, fresh.id(), p.want(201, rotate).id())
	require.Len(t, p.want(200, call{path: "/api/v1/keys", credential: operator}).json()["keys"], 1)

	p.addUser(operator, "ann@example.com", "member")
	wish.credential = p.signIn("ann@example.com")
	p.want(422, wish) // who is somebody else learns nothing of the key

	var dump string
	require.NoError(t, p.hand().QueryRow(t.Context(), `SELECT string_agg(t::text, ' ') FROM idempotency t`).Scan(&dump))
	require.NotContains(t, dump, key)
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/keys/" + fresh.id(), credential: operator})
	p.want(404, rotate)
}

func TestThereAreOnlySoManyKeys(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	p.addUser(operator, "ann@example.com", "member")
	ann := p.signIn("ann@example.com")
	hand := p.hand()
	fill := func(owner any, n int, expired string) {
		p.t.Helper()
		_, err := hand.Exec(t.Context(), `
			INSERT INTO api_key (workspace_id, name, prefix, hash, scopes, created_by, expires_at)
			SELECT 1, 'k', 'wp_live_0000', sha256(random()::text::bytea), '{links:read}', $1, `+expired+` FROM generate_series(1, $2)`, owner, n)
		require.NoError(t, err)
	}
	make := func(credential string) call {
		return call{path: "/api/v1/keys", credential: credential, body: map[string]any{"name": "k", "scopes": []string{"links:read"}}}
	}
	fill(2, 99, "NULL")
	fill(2, 50, "now() - interval '1 hour'") // which no longer count
	last := p.want(201, make(ann)).id()
	require.Contains(t, p.want(409, make(ann)).text, "at most 100 API keys")
	p.want(201, call{method: http.MethodPost, path: "/api/v1/keys/" + last + "/rotate", credential: ann})
	fill(nil, 900, "NULL")
	require.Contains(t, p.want(409, make(operator)).text, "at most 1000 API keys")
}
