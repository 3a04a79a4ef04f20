package accessapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane"
)

func TestNoSecretIsInAProblemALogOrTheAuditLog(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	user := p.addUser(operator, "ann@example.com", "member")
	id, key := p.addKey(operator, "admin")
	const secret = "S3cret-pass-phrase"
	long := strings.Repeat(secret, 30)
	spoilt := controlplane.NewKey()
	problems := []call{
		{path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": secret}},
		{path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": long}},
		{path: "/api/v1/session", body: map[string]any{"email": long, "password": secret, "cookie": secret}},
		{path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": []string{secret}}},
		{path: "/api/v1/session", body: `{"email": "ann@example.com", "password": "` + secret},
		{path: "/api/v1/session", body: `"` + secret + `"`},
		{path: "/api/v1/users", credential: operator, body: map[string]any{"email": "x@example.com", "role": secret, "password": secret}},
		{path: "/api/v1/users", credential: operator, body: map[string]any{"email": "ann@example.com", "role": "admin", "password": secret}},
		{method: http.MethodPatch, path: "/api/v1/users/" + user, credential: operator, body: map[string]any{"password": long}},
		{method: http.MethodPatch, path: "/api/v1/users/" + user, credential: operator, body: map[string]any{"password": secret[:5]}},
		{method: http.MethodPatch, path: "/api/v1/me", credential: operator, body: map[string]any{"password": secret, "current_password": secret}},
		{path: "/api/v1/invitation", body: map[string]any{"token": "wp_invt_" + secret, "password": secret}},
		{path: "/api/v1/invitation", body: map[string]any{"token": long, "password": secret[:5]}},
		{path: "/api/v1/me", credential: secret},
		{path: "/api/v1/me", credential: spoilt},
		{path: "/api/v1/me", credential: "wp_sess_" + secret},
		{path: "/api/v1/me", header: map[string]string{"Cookie": "__Host-waypost_session=" + secret}},
		{path: "/api/v1/keys", credential: operator, body: map[string]any{"name": "k", "scopes": []string{secret}}},
	}
	for i, c := range problems {
		a := p.do(c)
		require.GreaterOrEqual(t, a.StatusCode, 400, "%d: %s", i, a.text)
		for _, hidden := range []string{secret, secret[:5], spoilt, operator, key} {
			require.NotContains(t, a.text, hidden, i)
			require.NotContains(t, fmt.Sprint(a.Header), hidden, i)
		}
	}
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + user, credential: operator, body: map[string]any{"password": secret}})
	rotated := p.want(201, call{method: http.MethodPost, path: "/api/v1/keys/" + id + "/rotate", credential: operator}).json()["key"].(string)
	made := invitationOf(p.want(201, call{path: "/api/v1/users", credential: operator, body: map[string]any{"email": "b@example.com", "role": "admin"}}))

	told := p.want(200, call{path: "/api/admin/audit", credential: operator}).text + p.log.String() +
		p.want(200, call{path: "/api/v1/users", credential: operator}).text + p.want(200, call{path: "/api/v1/keys", credential: operator}).text
	for _, hidden := range []string{secret, password, spoilt, operator, key, rotated, made, "argon2id"} {
		require.NotContains(t, told, hidden)
	}
	hand := p.hand()
	for _, table := range []string{"app_user", "api_key", "user_session", "audit"} {
		var dump string
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT coalesce(string_agg(t::text, ' '), '') FROM `+table+` t`).Scan(&dump))
		for _, hidden := range []string{secret, password, operator, key, rotated, made} {
			require.NotContains(t, dump, hidden, table)
		}
	}
}

// The policies alone keep workspaces apart, whatever is asked.
func TestRowLevelSecurityKeepsAccountsKeysAndSessionsApart(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	_, blue := p.tenant(operator, "blue")
	_, green := p.tenant(operator, "green")
	p.addUser(green, "ann@example.com", "member")
	p.addKey(green, "admin")
	p.addKey(blue, "admin")
	hand := p.hand()
	_, err := hand.Exec(t.Context(), `SET ROLE waypost_tenant`)
	require.NoError(t, err)
	count := func(table string) (n int) {
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	for _, table := range []string{"app_user", "membership", "api_key", "workspace", "audit"} {
		require.Zero(t, count(table), "%s, unset", table)
	}
	_, err = hand.Exec(t.Context(), `SELECT FROM user_session`)
	require.ErrorContains(t, err, "permission denied", "no workspace sees sessions")
	_, err = hand.Exec(t.Context(), `SELECT set_config('waypost.workspaces', '2', false)`)
	require.NoError(t, err)
	require.Equal(t, 1, count("app_user"))
	require.Equal(t, 1, count("membership"))
	require.Equal(t, 1, count("api_key"))
	_, err = hand.Exec(t.Context(), `SELECT FROM user_session`)
	require.ErrorContains(t, err, "permission denied", "no workspace sees sessions")
	tag, err := hand.Exec(t.Context(), `UPDATE app_user SET password = NULL WHERE email <> 'admin@blue.example'`)
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected())
	for _, sql := range []string{
		`INSERT INTO membership (workspace_id, user_id, role) VALUES (3, 2, 'admin')`,
		`INSERT INTO app_user (home_id, email, name) VALUES (3, 'spy@example.com', 'Spy')`,
		`INSERT INTO app_user (home_id, email, name) VALUES (NULL, 'spy@example.com', 'Spy')`,
		`UPDATE app_user SET home_id = 3`,
	} {
		_, err := hand.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "row-level security", sql)
	}
}
