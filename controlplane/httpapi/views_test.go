package httpapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
)

func (f *statistics) Views(context.Context, controlplane.Actor) ([]controlplane.View, error) {
	return f.views, nil
}

func (f *statistics) SaveView(_ context.Context, _ controlplane.Actor, name, query string) (controlplane.View, error) {
	if name == "taken" {
		return controlplane.View{}, waypost.Errorf(waypost.EConflict, "another view has this name")
	}
	f.views = append(f.views, controlplane.View{ID: 3, Name: name, Query: query})
	return f.views[0], nil
}

func (f *statistics) PublishView(_ context.Context, _ controlplane.Actor, name, host, code, _ string, days int,
	zone *time.Location,
) (controlplane.View, string, error) {
	if code == "unknown" {
		return controlplane.View{}, "", waypost.ErrNoLink
	}
	v := controlplane.View{ID: 4, Name: name, Query: fmt.Sprint(days, zone), Link: 7, Host: host, Code: waypost.Code(code)}
	return v, "s3cret", nil
}

func (f *statistics) RenameView(_ context.Context, _ controlplane.Actor, id int64, name string) error {
	return f.DeleteView(context.Background(), controlplane.Actor{Name: name}, id)
}

func (f *statistics) DeleteView(_ context.Context, _ controlplane.Actor, id int64) error {
	if id != 3 {
		return controlplane.ErrNoView
	}
	return nil
}

func (f *statistics) PublicStats(_ context.Context, secret string) (controlplane.View, controlplane.Stats, error) {
	if secret != "s3cret" {
		return controlplane.View{}, controlplane.Stats{}, controlplane.ErrNoView
	}
	stats, err := f.answer(controlplane.StatsQuery{From: f.now.AddDate(0, 0, -2)})
	return controlplane.View{Name: "Spring <b>"}, stats, err
}

func TestViews_AreSavedPublishedAndDeleted(t *testing.T) {
	a := clicked(t, &statistics{})
	post := func(body string) answer {
		return a.do(call{method: "POST", path: "/api/v1/stats/views", key: fullKey, body: body})
	}
	res := post(`{"name": "Germany", "query": "span=7d&by=countries&name=DE"}`)
	require.Equal(t, 201, res.StatusCode, res.text)
	want := `{"id": 3, "name": "Germany", "query": "span=7d&by=countries&name=DE", "public": false, "domain": "", "short_code": "", "tag": "",
		"created_at": "0001-01-01T00:00:00Z"}`
	require.JSONEq(t, want, res.text)
	require.JSONEq(t, `{"views": [`+want+`]}`, a.do(call{path: "/api/v1/stats/views", key: statsKey}).text)
	res = post(`{"name": "Press", "public": true, "domain": "go.example.com", "short_code": "spring", "tz": "Europe/Berlin"}`)
	require.JSONEq(t, `{"id": 4, "name": "Press", "query": "30 Europe/Berlin", "public": true, "domain": "go.example.com",
		"short_code": "spring", "tag": "", "path": "/api/v1/public/s3cret", "created_at": "0001-01-01T00:00:00Z"}`, res.text)

	requireProblem(t, post(`{"name": "taken"}`), 409, "conflict")
	requireProblem(t, post(`{"name": "Press", "public": true, "short_code": "unknown"}`), 404, "not-found")
	for _, bad := range []string{
		`{"name": ""}`, `{"name": "x", "days": 3}`, `{"name": "x", "public": true, "query": "a=b", "short_code": "spring"}`,
		`{"name": "x", "public": true, "short_code": "spring", "days": 367}`,
		`{"name": "x", "public": true, "short_code": "spring", "tz": "Mars"}`,
	} {
		requireProblem(t, post(bad), 422, "invalid")
	}
	one := func(method, id, body string) answer {
		return a.do(call{method: method, path: "/api/v1/stats/views/" + id, key: fullKey, body: body})
	}
	require.Equal(t, 204, one("PATCH", "3", `{"name": "France"}`).StatusCode)
	requireProblem(t, one("PATCH", "5", `{"name": "France"}`), 404, "not-found")
	require.Equal(t, 204, one("DELETE", "3", "").StatusCode)
	requireProblem(t, one("DELETE", "5", ""), 404, "not-found")
	require.Equal(t, 403, a.do(call{method: "DELETE", path: "/api/v1/stats/views/3", key: statsKey}).StatusCode)
}

func TestPublicView_ShowsNumbersAloneAndNoSmallOnes(t *testing.T) {
	f := busy()
	f.stats.Clicks, f.stats.Bots = 1234567, 234567
	f.clicks[time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC).Unix()] = controlplane.QuarterClicks{Clicks: 1003}
	a := clicked(t, f)
	get := func(language string) answer {
		return a.do(call{path: "/api/v1/public/s3cret", key: "none", header: map[string]string{"Accept-Language": language}})
	}
	res := get("fr, en;q=0.5, de;q=0.4")
	require.Equal(t, 200, res.StatusCode, res.text)
	require.Equal(t, "text/html; charset=utf-8", res.Header.Get("Content-Type"))
	require.Equal(t, "public, max-age=60", res.Header.Get("Cache-Control"))
	require.Equal(t, "Accept-Language", res.Header.Get("Vary"))
	require.Equal(t, "noindex, nofollow", res.Header.Get("X-Robots-Tag"))
	require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"))
	for _, has := range []string{
		"<title>Spring &lt;b&gt;</title>", "1\u202f234\u202f567",
		"(1\u202f000\u202f000 by people, 234\u202f567 by bots)",
		`<th scope="row">30 Mar 2026</th><td>1` + "\u202f003",
		"complete until 31 Mar 2026, 11:59",
		// Four clicks of unknown countries would show as the difference to the sum.
		`<th scope="row">others</th><td>12`,
	} {
		require.Contains(t, res.text, has)
	}
	for _, secret := range []string{"<script", "www.example.com", "spring", "evil", ">unknown<", ">bot<", ">computer<", ">DE<", "summer"} {
		require.NotContains(t, res.text, secret)
	}
	require.Contains(t, get("de-AT").text, `<th scope="row">30.03.2026</th>`)
	require.Contains(t, get("de-AT").text, "von Menschen")

	f.stats.Breakdowns[controlplane.Countries] = controlplane.Breakdown{
		Named: []controlplane.NamedClicks{{Name: "DE", Clicks: 9}, {Name: "", Clicks: 7}, {Name: "FR", Clicks: 4}, {Name: "IT", Clicks: 2}},
		Other: 1,
	}
	names := get("de").text
	require.Contains(t, names, `<th scope="row">weitere</th><td>7`)
	require.Contains(t, names, `<th scope="row">unbekannt</th><td>7`)
	require.Contains(t, names, `<th scope="row">DE</th><td>9`)
	require.NotContains(t, names, ">FR<")

	unknown := a.do(call{path: "/api/v1/public/withdrawn", key: "none"})
	requireProblem(t, unknown, 404, "not-found")
	require.Equal(t, unknown.text, a.do(call{path: "/api/v1/public/" + strings.Repeat("x", 300), key: "none"}).text)
	require.NotContains(t, unknown.text, "withdrawn")
}

func TestPublicView_IsLimitedByNetwork(t *testing.T) {
	f := busy()
	a := start(t, func(l *links, c *httpapi.Config) {
		f.links, f.now, c.Clicks = l, time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC), f
		c.Limits.Requests = limit.NewRequests(1, 2, func() time.Time { return f.now })
	})
	get := func() int { return a.do(call{path: "/api/v1/public/s3cret", key: "none"}).StatusCode }
	require.Equal(t, [3]int{200, 200, 429}, [3]int{get(), get(), get()})
}
