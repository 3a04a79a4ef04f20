package accessapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestAnIdOfAnotherWorkspaceIsNotFound(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	_, blue := p.tenant(operator, "blue")
	_, green := p.tenant(operator, "green")
	user := p.addUser(green, "ann@example.com", "member")
	key, _ := p.addKey(green, "admin")
	for _, credential := range []string{blue, operator} { // who looks after the installation is not in every workspace
		for _, c := range []call{
			{path: "/api/v1/users/" + user},
			{method: http.MethodPatch, path: "/api/v1/users/" + user, body: map[string]any{"role": "admin"}},
			{method: http.MethodPatch, path: "/api/v1/users/" + user, body: map[string]any{"disabled": true}},
			{method: http.MethodPost, path: "/api/v1/users/" + user + "/invitation"},
			{method: http.MethodDelete, path: "/api/v1/users/" + user},
			{method: http.MethodPost, path: "/api/v1/keys/" + key + "/rotate"},
			{method: http.MethodDelete, path: "/api/v1/keys/" + key},
		} {
			c.credential = credential
			there := p.want(404, c)
			c.path = strings.NewReplacer("/"+user, "/987654", "/"+key, "/987654").Replace(c.path)
			require.Equal(t, p.want(404, c).text, there.text, "as if there were no such id at all")
		}
	}
	p.want(200, call{path: "/api/v1/users/" + user, credential: green})
	p.signIn("ann@example.com")
	for _, path := range []string{"/api/v1/users", "/api/v1/keys"} {
		listed := p.want(200, call{path: path, credential: blue}).text
		require.NotContains(t, listed, "ann@example.com")
		require.NotContains(t, listed, "admin@green.example")
	}
}

func TestNobodyBecomesSomebodyElsewhereThroughAnAccount(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	blueID, blue := p.tenant(operator, "blue")
	_, green := p.tenant(operator, "green")
	ann := p.addUser(green, "ann@example.com", "member")
	p.want(409, call{path: "/api/v1/users", credential: blue, body: map[string]any{"email": "ann@example.com", "role": "member"}})
	add := func(status int, body map[string]any) {
		p.t.Helper()
		p.want(status, call{path: "/api/admin/workspaces/" + blueID + "/users", credential: operator, body: body})
	}
	add(409, map[string]any{"email": "ann@example.com", "role": "admin", "password": "another horse battery"})
	invited := p.want(201, call{path: "/api/admin/workspaces/" + blueID + "/users", credential: operator, body: map[string]any{"email": "ann@example.com", "role": "admin"}})
	p.want(401, call{path: "/api/v1/session", body: map[string]any{
		"email":    "ann@example.com",
		"password": password,
	}}) // which green's administrator may know
	p.accept(200, invitationOf(invited))
	add(409, map[string]any{"email": "ann@example.com", "role": "admin"})
	account := []map[string]any{{"password": "another horse battery"}, {"disabled": true}, {"name": "Mine"}}
	for _, body := range account {
		for _, admin := range []string{blue, green} {
			p.want(403, call{method: http.MethodPatch, path: "/api/v1/users/" + ann, credential: admin, body: body})
		}
	}
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + ann, credential: blue, body: map[string]any{"role": "viewer"}})
	p.signIn("ann@example.com")
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + ann, credential: green})
	p.signIn("ann@example.com") // still in blue

	// An operator looks after accounts of several workspaces, wherever the operator is.
	p.want(201, call{path: "/api/admin/workspaces/1/users", credential: operator, body: map[string]any{"email": "ann@example.com", "role": "viewer"}})
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + ann, credential: operator, body: map[string]any{"password": "another horse battery"}})
	p.want(401, call{path: "/api/v1/session", body: map[string]any{"email": "ann@example.com", "password": password}})
}

func TestTheLastAdministratorStays(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	id, admin := p.tenant(operator, "blue")
	me := p.want(200, call{path: "/api/v1/users", credential: admin}).json()["users"].([]any)[0].(map[string]any)
	path := "/api/v1/users/" + idOf(me)
	try := func(status int) {
		p.t.Helper()
		p.want(status, call{method: http.MethodPatch, path: path, credential: admin, body: map[string]any{"role": "member"}})
	}
	try(409)
	p.want(409, call{method: http.MethodPatch, path: path, credential: admin, body: map[string]any{"disabled": true}})
	p.want(409, call{method: http.MethodDelete, path: path, credential: admin})
	p.want(200, call{method: http.MethodPatch, path: path, credential: admin, body: map[string]any{"name": "Still here", "disabled": false}})
	second := p.addUser(admin, "second@blue.example", "admin")
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + second, credential: admin, body: map[string]any{"disabled": true}})
	try(409) // one who cannot sign in does not count
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + second, credential: admin, body: map[string]any{"disabled": false}})
	third := p.want(201, call{path: "/api/v1/users", credential: admin, body: map[string]any{"email": "third@blue.example", "role": "admin"}}).id()
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + second, credential: admin, body: map[string]any{"role": "member"}})
	_, err := p.hand().Exec(t.Context(), `UPDATE app_user SET invited_until = now() WHERE invitation IS NOT NULL`)
	require.NoError(t, err)
	try(409) // nor one whose invitation is over
	p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + third, credential: admin})
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + second, credential: admin, body: map[string]any{"role": "admin"}})
	try(200)

	// An operator who disables an account is held to all workspaces that it is in.
	p.want(201, call{path: "/api/admin/workspaces/1/users", credential: operator, body: map[string]any{"email": "second@blue.example", "role": "viewer"}})
	p.want(409, call{method: http.MethodPatch, path: "/api/v1/users/" + second, credential: operator, body: map[string]any{"disabled": true}})
	p.want(200, call{method: http.MethodDelete, path: "/api/admin/workspaces/" + id, credential: operator})
	p.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + second, credential: operator, body: map[string]any{"disabled": true}})
}

func TestTwoAdministratorsCannotRemoveEachOther(t *testing.T) {
	p := start(t)
	other := p.another()
	operator := p.firstAdmin()
	_, admin := p.tenant(operator, "blue")
	first := idOf(p.want(200, call{path: "/api/v1/users", credential: admin}).json()["users"].([]any)[0].(map[string]any))
	_, key := p.addKey(operator, "admin")
	require.NotEmpty(t, key)
	for range 5 {
		second := p.addUser(admin, "second@blue.example", "admin")
		token := p.signIn("second@blue.example")
		statuses := make([]int, 2)
		var group errgroup.Group
		group.Go(func() error {
			statuses[0] = p.do(call{method: http.MethodPatch, path: "/api/v1/users/" + second, credential: admin, body: map[string]any{"role": "member"}}).StatusCode
			return nil
		})
		group.Go(func() error {
			statuses[1] = other.do(call{method: http.MethodPatch, path: "/api/v1/users/" + first, credential: token, body: map[string]any{"role": "member"}}).StatusCode
			return nil
		})
		require.NoError(t, group.Wait())
		var administrators int
		require.NoError(t, p.hand().QueryRow(t.Context(), `SELECT count(*) FROM membership m JOIN workspace w ON w.id = m.workspace_id WHERE w.slug = 'blue' AND role = 'admin'`).Scan(&administrators))
		require.Equal(t, 1, administrators, "%v", statuses)
		if statuses[1] == 200 { // the first one lost: the second one returns it
			other.want(200, call{method: http.MethodPatch, path: "/api/v1/users/" + first, credential: token, body: map[string]any{"role": "admin"}})
		}
		p.later(time.Second)
		p.want(204, call{method: http.MethodDelete, path: "/api/v1/users/" + second, credential: admin})
	}
}

func TestSettingsOfAWorkspaceAreJudged(t *testing.T) {
	p := start(t)
	operator := p.firstAdmin()
	p.addUser(operator, "viewer@example.com", "viewer")
	change := func(status int, body any) answer {
		p.t.Helper()
		return p.want(status, call{method: http.MethodPatch, path: "/api/v1/workspace", credential: operator, body: body})
	}
	w := change(200, map[string]any{"name": "Ours", "settings": map[string]any{"dedupe": true, "events": "sampled"}}).json()
	zone := "UTC"
	settings := func(dedupe bool, events string, sample float64) map[string]any {
		return map[string]any{
			"dedupe": dedupe, "events": events, "events_sample": sample, "utm": false, "time_zone": zone, "utm_templates": []any{},
		}
	}
	require.Equal(t, settings(true, "sampled", 100), w["settings"])
	w = change(200, map[string]any{"settings": map[string]any{"events_sample": 7}}).json()
	require.Equal(t, settings(true, "sampled", 7), w["settings"], "the others stay")
	require.Equal(t, "Ours", w["name"])
	w = change(200, map[string]any{"settings": map[string]any{"time_zone": "Europe/Berlin"}}).json()
	zone = "Europe/Berlin"
	require.Equal(t, settings(true, "sampled", 7), w["settings"])
	me := p.want(200, call{path: "/api/v1/me", credential: operator}).json()
	require.Equal(t, "Europe/Berlin", me["workspace"].(map[string]any)["time_zone"])
	for _, body := range []any{
		`{}`, `{"settings": {}}`, `{"name": ""}`, `{"name": " x "}`, `{"settings": {"events": "some"}}`, `{"settings": {"events_sample": 0}}`,
		`{"settings": {"events_sample": 1000001}}`, `{"settings": {"dedupe": "yes"}}`, `{"settings": {"retention": 5}}`, `{"slug": "other"}`,
		`{"settings": {"time_zone": ""}}`, `{"settings": {"time_zone": "Local"}}`, `{"settings": {"time_zone": "Europe/Bonn"}}`,
		`{"settings": {"time_zone": "../etc/passwd"}}`, `{"settings": {"time_zone": 1}}`,
		map[string]any{"name": strings.Repeat("x", 101)},
		map[string]any{"name": "a\nb"},
	} {
		change(422, body)
	}
	change(400, `{`)

	template := func(tag, name string, values ...any) map[string]any {
		parameter := map[string]any{"name": name}
		if len(values) > 0 {
			parameter["values"] = values
		}
		return map[string]any{"tag": tag, "parameters": []any{parameter}}
	}
	templates := []any{template("newsletter", "utm_source", "mail", "Größe L"), template("spring", "utm_campaign")}
	of := func(all any) map[string]any { return map[string]any{"settings": map[string]any{"utm_templates": all}} }
	require.Equal(t, templates, change(200, of(templates)).json()["settings"].(map[string]any)["utm_templates"])
	many, large := make([]any, 51), make([]any, 50)
	for i := range many {
		many[i] = template(fmt.Sprint(i), "utm_source")
	}
	for i := range large {
		values := make([]any, 6)
		for j := range values {
			values[j] = strings.Repeat(string(rune('a'+j)), 64)
		}
		large[i] = template(fmt.Sprint(i), "utm_source", values...)
	}
	twice := template("", "utm_id")
	twice["parameters"] = append(twice["parameters"].([]any), twice["parameters"].([]any)...)
	for name, refused := range map[string][]any{
		"two of one tag":            {template("", "utm_id"), template("", "utm_source")},
		"two that look like one":    {template("e\u0301", "utm_id"), template(" é ", "utm_id")},
		"a parameter twice":         {twice},
		"no parameter":              {map[string]any{"tag": "a", "parameters": []any{}}},
		"another name":              {template("", "source")},
		"a name in capitals":        {template("", "utm_Source")},
		"a name that is too long":   {template("", "utm_"+strings.Repeat("x", 29))},
		"an empty value":            {template("", "utm_id", "")},
		"a value with a comma":      {template("", "utm_id", "a,b")},
		"a value with blanks":       {template("", "utm_id", " a")},
		"a value of two lines":      {template("", "utm_id", "a\nb")},
		"a value that is too long":  {template("", "utm_id", strings.Repeat("é", 33))},
		"more than fifty templates": many,
		"more than 16 KiB":          large,
	} {
		require.Contains(t, change(422, of(refused)).text, "utm_templates", name)
	}
	w = change(200, map[string]any{"settings": map[string]any{"dedupe": false}}).json()
	require.Equal(t, templates, w["settings"].(map[string]any)["utm_templates"], "they stay")
	require.Empty(t, change(200, of([]any{})).json()["settings"].(map[string]any)["utm_templates"])
	for range 2 {
		p.want(201, call{method: http.MethodPost, path: "/api/v1/urls", credential: operator, body: map[string]any{"original_url": "https://example.com/"}})
	}
	require.EqualValues(t, 2, p.want(200, call{path: "/api/v1/workspace", credential: operator}).json()["links"])
	viewer := p.signIn("viewer@example.com")
	require.Equal(t, "Ours", p.want(200, call{path: "/api/v1/workspace", credential: viewer}).json()["name"])
	p.want(403, call{method: http.MethodPatch, path: "/api/v1/workspace", credential: viewer, body: map[string]any{"name": "Mine"}})

	// What was set by hand counts as far as it makes sense.
	_, err := p.hand().Exec(t.Context(), `UPDATE workspace SET settings = '{"dedupe": 1, "events": "all", "events_sample": -4, "time_zone": "x", "utm_templates": [7], "else": []}' WHERE id = 1`)
	require.NoError(t, err)
	w = p.want(200, call{path: "/api/v1/workspace", credential: operator}).json()
	zone = "UTC"
	require.Equal(t, settings(false, "all", 100), w["settings"])
}
