package accessapi_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorkspacesAreMadeListedAndChangedByOperators(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id, admin := p.tenant(operator, "blue")
	for _, c := range []call{
		{path: "/api/admin/workspaces"},
		{path: "/api/admin/workspaces", body: map[string]any{"slug": "mine"}},
		{method: http.MethodPatch, path: "/api/admin/workspaces/1", body: map[string]any{"name": "Mine"}},
		{method: http.MethodDelete, path: "/api/admin/workspaces/" + id},
		{path: "/api/admin/workspaces/1/users", body: map[string]any{"email": "a@b", "role": "admin"}},
		{path: "/api/admin/audit?all=true"},
	} {
		c.credential = admin
		p.want(403, c)
	}
	for _, slug := range []string{"", "-a", "A", "a_b", "a b", fmt.Sprintf("%064d", 0)} {
		p.want(422, call{path: "/api/admin/workspaces", credential: operator, body: map[string]any{"slug": slug}})
	}
	p.want(409, call{path: "/api/admin/workspaces", credential: operator, body: map[string]any{"slug": "blue"}})
	p.want(200, call{method: http.MethodPatch, path: "/api/admin/workspaces/" + id, credential: operator, body: map[string]any{"name": "Bluer"}})
	p.want(404, call{method: http.MethodPatch, path: "/api/admin/workspaces/999", credential: operator, body: map[string]any{"name": "x"}})
	p.want(404, call{path: "/api/admin/workspaces/999/users", credential: operator, body: map[string]any{"email": "a@b", "role": "admin"}})
	page := p.want(200, call{path: "/api/admin/workspaces?limit=1", credential: operator}).json()
	require.Equal(t, "default", page["workspaces"].([]any)[0].(map[string]any)["slug"])
	page = p.want(200, call{path: "/api/admin/workspaces?cursor=" + page["next_cursor"].(string), credential: operator}).json()
	require.Equal(t, "Bluer", page["workspaces"].([]any)[0].(map[string]any)["name"])
	require.Empty(t, page["next_cursor"])
	p.want(409, call{method: http.MethodDelete, path: "/api/admin/workspaces/1", credential: operator})
	p.want(404, call{method: http.MethodDelete, path: "/api/admin/workspaces/999", credential: operator})

	made := p.want(201, call{path: "/api/v1/users", credential: operator, body: map[string]any{"email": "ann@example.com", "role": "viewer"}})
	p.accept(200, invitationOf(made))
	p.signIn("ann@example.com")
}

func TestWorkspaces_HaveAtMost1000Users(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id, admin := p.tenant(operator, "blue")
	_, err := p.hand().Exec(t.Context(), `
		WITH made AS (INSERT INTO app_user (home_id, email, name)
			SELECT $1, n || '@blue.example', 'n' FROM generate_series(1, 998) n RETURNING id)
		INSERT INTO membership (workspace_id, user_id, role) SELECT $1, id, 'viewer' FROM made`, id)
	require.NoError(t, err)
	add := func(email string) call {
		return call{path: "/api/v1/users", credential: admin, body: map[string]any{"email": email, "role": "viewer"}}
	}
	last := p.want(201, add("last@blue.example")).id()
	require.Contains(t, p.want(409, add("another@blue.example")).text, "at most 1000 users")
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + last, credential: admin})
	p.want(201, add("another@blue.example"))
}

func TestLinksOfADeletedWorkspaceAnswer410WhateverStopsOnTheWay(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id, admin := p.tenant(operator, "blue")
	var codes []string
	for range 5 {
		a := p.want(201, call{path: "/api/v1/urls", credential: admin, body: map[string]any{"original_url": "https://example.com/"}})
		codes = append(codes, a.json()["short_code"].(string))
	}
	kept := p.want(201, call{path: "/api/v1/urls", credential: operator, body: map[string]any{"original_url": "https://example.com/"}}).json()["short_code"].(string)
	hand := p.hand()
	_, err := hand.Exec(t.Context(), `INSERT INTO domain (host, workspace_id, root_url) VALUES ('blue.example', $1, 'https://example.com/')`, id)
	require.NoError(t, err)

	state := p.want(200, call{method: http.MethodDelete, path: "/api/admin/workspaces/" + id, credential: operator}).json()["state"]
	require.Equal(t, "closing", state)
	p.want(200, call{method: http.MethodDelete, path: "/api/admin/workspaces/" + id, credential: operator})
	before, err := p.db.Head(t.Context())
	require.NoError(t, err)
	n, err := p.db.CloseWorkspaces(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 3, n, "two links and a domain: it is stopped here, and another goes on")

	other := p.another()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { other.services.Run(ctx); close(ended) }()
	require.Eventually(t, func() bool {
		n, err := p.db.CloseWorkspaces(t.Context(), 1000)
		return err == nil && n == 0
	}, 60*time.Second, 10*time.Millisecond)
	cancel()
	<-ended
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	status := func(code string) int {
		res, err := client.Get(p.url + "/" + code)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	for _, code := range codes {
		require.Equal(t, http.StatusGone, status(code))
	}
	require.Equal(t, http.StatusFound, status(kept))
	var root *string
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT root_url FROM domain WHERE host = 'blue.example'`).Scan(&root))
	require.Nil(t, root)
	after, err := p.db.Head(t.Context())
	require.NoError(t, err)
	require.Greater(t, after.Position.Seq, before.Position.Seq, "edges hear of it through the changelog")

	listed := func() any {
		all := p.want(200, call{path: "/api/admin/workspaces", credential: operator}).json()["workspaces"].([]any)
		return all[1].(map[string]any)["state"]
	}
	require.Equal(t, "closing", listed(), "somebody who was let in before may still commit")
	_, err = hand.Exec(t.Context(), `UPDATE workspace SET deleted_at = now() - interval '2 minutes' WHERE id = $1`, id)
	require.NoError(t, err)
	_, err = p.db.CloseWorkspaces(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, "closed", listed())
	p.want(409, call{path: "/api/admin/workspaces", credential: operator, body: map[string]any{"slug": "blue"}})
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "admin@blue.example", "password": password}})
	p.addUser(operator, "admin@blue.example", "viewer") // the address is free again
}

func TestTheAuditLogTellsWhoDidWhatAndToWhom(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id, admin := p.tenant(operator, "blue")
	user := p.addUser(admin, "ann@example.com", "member")
	key, text := p.addKey(admin, "admin")
	p.want(201, call{method: http.MethodPost, path: "/api/v1/keys/" + key + "/rotate?grace=60", credential: text})
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/keys/" + key, credential: admin})
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + user, credential: admin, body: map[string]any{"name": "Ann", "role": "viewer"}})
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + user, credential: admin})
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/workspace", credential: admin, body: map[string]any{"settings": map[string]any{"dedupe": true}}})

	acts := func(credential, query string) (all []string) {
		p.t.Helper()
		for _, entry := range p.want(200, call{path: "/api/admin/audit" + query, credential: credential}).json()["entries"].([]any) {
			e := entry.(map[string]any)
			all = append(all, fmt.Sprintf("%s: %s %s %s", e["workspace"], e["actor"], e["action"], e["subject"]))
		}
		return all
	}
	ours := acts(admin, "")
	require.Equal(t, []string{
		"blue: admin@blue.example (user 2) workspaces.change workspace blue",
		"blue: admin@blue.example (user 2) users.remove user " + user,
		"blue: admin@blue.example (user 2) users.change user " + user,
		"blue: admin@blue.example (user 2) keys.revoke key " + key,
		"blue: k (key " + key + " of user 2) keys.rotate key " + key,
		"blue: admin@blue.example (user 2) keys.create key " + key,
		"blue: ann@example.com (user " + user + ") users.accept user " + user,
		"blue: admin@blue.example (user 2) users.add user " + user,
		"blue: admin@blue.example (user 2) users.sign-in user 2",
		"blue: Root (user 1) users.add user 2",
		"blue: Root (user 1) workspaces.create workspace blue",
	}, ours)
	theirs := acts(operator, "")
	require.Equal(t, []string{
		"default: Root (user 1) users.add user 2",
		"default: Root (user 1) workspaces.create workspace blue",
		"default: Root (user 1) users.sign-in user 1",
		"default: command line users.admin user 1",
	}, theirs)
	require.Len(t, acts(operator, "?all=true"), len(ours)+len(theirs))
	p.want(200, call{method: http.MethodDelete, path: "/api/admin/workspaces/" + id, credential: operator})
	require.Equal(t, "default: Root (user 1) workspaces.delete workspace blue", acts(operator, "?limit=1")[0])
}
