package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

func (a *testAPI) patch(path, body string, header ...string) answer {
	a.t.Helper()
	c := call{method: http.MethodPatch, path: path, body: body, header: map[string]string{}}
	for i := 0; i < len(header); i += 2 {
		c.header[header[i]] = header[i+1]
	}
	return a.do(c)
}

func TestAChangeSaysWhatItNames(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	at := func(d time.Duration) *time.Time { x := now.Add(d); return &x }
	never := &time.Time{}
	text := func(s string) *string { return &s }
	yes, no, zero, status := true, false, 0, 307
	was := waypost.Details{Title: "was", Description: "was", Tags: []string{"was"}, Metadata: json.RawMessage(`{"was":1}`)}
	for body, want := range map[string]struct {
		controlplane.LinkChange
		details waypost.Details
	}{
		`{}`: {details: was},
		`{"original_url": "https://example.com/b", "active": false}`: {controlplane.LinkChange{OriginalURL: text("https://example.com/b"), Active: &no}, was},
		`{"title": "T", "description": "D", "tags": ["a"], "metadata": {"a": 1}}`: {
			details: waypost.Details{Title: "T", Description: "D", Tags: []string{"a"}, Metadata: json.RawMessage(`{"a":1}`)},
		},
		`{"title": null, "description": "", "tags": [], "redirect_status": null, "forward_query": null, "forward_path": true}`: {
			controlplane.LinkChange{RedirectStatus: &zero, ForwardQuery: &no, ForwardPath: &yes},
			waypost.Details{Tags: []string{}, Metadata: was.Metadata},
		},
		// Null, which takes all away, is not the same as leaving it out.
		`{"tags": null, "metadata": null}`:                   {details: waypost.Details{Title: "was", Description: "was"}},
		`{"redirect_status": 307, "expires_in_seconds": 90}`: {controlplane.LinkChange{RedirectStatus: &status, ExpiresAt: at(90 * time.Second)}, was},
		`{"expires_in_hours": 2}`:                            {controlplane.LinkChange{ExpiresAt: at(2 * time.Hour)}, was},
		`{"expires_at": "2027-01-01T00:00:00Z"}`:             {controlplane.LinkChange{ExpiresAt: new(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))}, was},
		`{"expires_at": null}`:                               {controlplane.LinkChange{ExpiresAt: never}, was},
		`{"expires_in_seconds": null}`:                       {controlplane.LinkChange{ExpiresAt: never}, was},
	} {
		a := start(t, func(f *links, c *httpapi.Config) { f.now = func() time.Time { return now }; c.Now = f.now })
		a.create(`{"original_url": "https://example.com/", "custom_code": "mine"}`)
		res := a.patch("/api/v1/urls/mine", body)
		require.Equal(t, 200, res.StatusCode, res.text)
		require.Len(t, a.links.changed, 1)
		change, details := a.links.changed[0], was
		change.Details(&details)
		change.Details = nil
		require.Equal(t, want.LinkChange, change, body)
		require.Equal(t, want.details, details, body)
		require.NotEmpty(t, res.Header.Get("Waypost-Position"))
	}
}

func TestAChangeThatSaysTooMuchIsRefused(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "custom_code": "mine"}`)
	for _, body := range []string{
		`{"short_code": "other"}`, `{"domain": "own.example"}`, `{"original_url": null}`, `{"original_url": 1}`,
		`{"active": null}`, `{"Title": "x"}`,
		`{"redirect_status": 200}`, `{"redirect_status": "301"}`, `{"expires_in_hours": 0}`, `{"expires_in_hours": 1, "expires_at": null}`, `{"expires_at": "soon"}`,
		`{"expires_at": "0001-01-01T00:00:00Z"}`, `{"title": "` + strings.Repeat("x", 513) + `"}`, `{"tags": [1]}`, `{"tags": "a"}`, `{"metadata": []}`, `[]`, `{"forward_query": 1}`,
	} {
		requireProblem(t, a.patch("/api/v1/urls/mine", body), 422, "invalid")
	}
	requireProblem(t, a.patch("/api/v1/urls/mine", `{"title": "a", "title": "b"}`), 400, "malformed")
	requireProblem(t, a.patch("/api/v1/urls/unknown", `{"title": "a"}`), 404, "not-found")
	require.Empty(t, a.links.changed)
}

func TestOnlyTheStateThatWasSeenIsChanged(t *testing.T) {
	a := start(t)
	created := a.post("/api/v1/urls", `{"original_url": "https://example.com/", "custom_code": "mine"}`)
	tag := created.Header.Get("ETag")
	require.Equal(t, tag, a.get("/api/v1/urls/mine").Header.Get("ETag"))
	a.links.all[0].Clicks = 7 // a click is no reason to refuse a change
	changed := a.patch("/api/v1/urls/mine", `{"title": "a"}`, "If-Match", `"1-2-3.4", `+tag)
	require.Equal(t, 200, changed.StatusCode, changed.text)
	requireProblem(t, a.patch("/api/v1/urls/mine", `{"title": "b"}`, "If-Match", tag), 412, "stale")
	requireProblem(t, a.patch("/api/v1/urls/mine", `{"title": "b"}`, "If-Match", "W/"+changed.Header.Get("ETag")), 412, "stale")
	requireProblem(t, a.patch("/api/v1/urls/mine", `{"title": "b"}`, "If-Match", `"anything"`), 412, "stale")
	requireProblem(t, a.patch("/api/v1/urls/mine", `{"title": "b"}`, "If-Match", `no quotes`), 400, "malformed")
	require.Equal(t, 200, a.patch("/api/v1/urls/mine", `{"title": "b"}`, "If-Match", "*").StatusCode)
	require.Equal(t, 200, a.patch("/api/v1/urls/mine", `{"title": "b"}`).StatusCode, "If-Match is not required")
}

func TestAClientThatHasAStateIsNotSentItAgain(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "custom_code": "mine"}`)
	tag := a.get("/api/v1/urls/mine").Header.Get("ETag")
	ask := func(tags string) answer {
		return a.do(call{path: "/api/v1/urls/mine", header: map[string]string{"If-None-Match": tags}})
	}
	for _, tags := range []string{tag, `"x", W/` + tag, "*"} {
		res := ask(tags)
		require.Equal(t, 304, res.StatusCode, tags)
		require.Equal(t, tag, res.Header.Get("ETag"))
		require.Empty(t, res.text)
	}
	require.Equal(t, 200, ask(`"x"`).StatusCode)
	requireProblem(t, ask(`x`), 400, "malformed")
	a.links.all[0].Clicks = 7
	require.Equal(t, 200, ask(tag).StatusCode, "clicks are shown, so they are part of the state")
}

func TestHistory_IsWrittenWithValuesOfAnyKind(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "custom_code": "mine"}`)
	res := a.get("/api/v1/urls/mine/history")
	require.Equal(t, 200, res.StatusCode, res.text)
	shown := object(t, res.text)
	delete(shown["changes"].([]any)[0].(map[string]any), "at")
	require.Equal(t, object(t, `{"changes": [{"id": "3-12", "what": "changed",
		"by": {"kind": "user", "id": 7, "name": "Ada <ada@example.com>"},
		"fields": [{"name": "tags", "before": [], "after": ["a"]}, {"name": "title", "before": "", "after": "x"}]}],
		"next_cursor": "3-12"}`), shown)
	shown = object(t, a.get("/api/v1/urls/mine/history?cursor=3-12").text)
	require.Nil(t, shown["changes"].([]any)[0].(map[string]any)["by"], "unknown")
}

func TestList_OfDeletedLinksTakesNoFilters(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.all = []waypost.Link{
			{Code: "soon", Workspace: 1, DeletedAt: now, ExpiresAt: now.Add(time.Hour)},
			{Code: "late", Workspace: 1, DeletedAt: now},
			{Code: "live", Workspace: 1},
		}
	})
	res := a.get("/api/v1/urls?deleted=true&limit=7")
	require.Equal(t, 200, res.StatusCode, res.text)
	require.Equal(t, controlplane.NewestDeleted, a.links.listed[0].Order)
	var times []any
	for _, l := range object(t, res.text)["urls"].([]any) {
		times = append(times, l.(map[string]any)["deleted_at"], l.(map[string]any)["restorable_until"])
	}
	require.Equal(t, []any{nil, nil, "2026-03-04T05:06:07Z", "2026-04-03T05:06:07Z", "2026-03-04T05:06:07Z", "2026-03-04T06:06:07Z"}, times)
	requireProblem(t, a.get("/api/v1/urls?deleted=true&sort=clicks"), 422, "invalid")
	a.get("/api/v1/urls?deleted=false")
	require.Equal(t, controlplane.NewestFirst, a.links.listed[1].Order)
}
