package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

func TestCreateAnswersTheWholeLink(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.FixedZone("", 3600))
	a := start(t, func(f *links, c *httpapi.Config) {
		f.now = func() time.Time { return now }
		c.Now = f.now
		c.BaseURL = "https://wp.example/"
	})
	res := a.post("/api/v1/urls", `{
		"original_url": "https://example.com/?a=1&b=<2>#\u00e9", "custom_code": "My-Code", "expires_in_hours": 2,
		"redirect_status": 308, "forward_query": true, "title": "T", "description": "D", "tags": ["x", "y"],
		"metadata": {"k": [1, {"n": null}], "big": 12345678901234567890}, "created_by": "me"
	}`)
	require.Equal(t, http.StatusCreated, res.StatusCode, res.text)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Equal(t, "/api/v1/urls/My-Code", res.Header.Get("Location"))
	require.Equal(t, "1-07000000000000000000000000000000-1-000000000000002a", res.Header.Get("Waypost-Position"))
	require.JSONEq(t, `{
		"id": "1", "short_code": "My-Code", "short_url": "https://wp.example/My-Code",
		"original_url": "https://example.com/?a=1&b=<2>#é", "redirect_status": 308, "forward_query": true, "forward_path": false, "title": "T", "description": "D", "notes": "",
		"tags": ["x", "y"], "metadata": {"k": [1, {"n": null}], "big": 12345678901234567890}, "created_by": "me",
		"active": true, "domain": "wp.example", "click_count": 0, "last_accessed_at": null, "created_at": "2026-03-04T04:06:07.000008Z",
		"updated_at": "2026-03-04T04:06:07.000008Z", "expires_at": "2026-03-04T06:06:07.000008Z"
	}`, res.text)
	require.Contains(t, res.text, `12345678901234567890`, "numbers keep their digits")
	require.Contains(t, res.text, `?a=1&b=<2>#é`, "URLs stay readable")
	require.Equal(t, object(t, res.text), object(t, a.get("/api/v1/urls/My-Code").text), "get shows the same")
}

func TestCreateFillsInWhatIsLeftOut(t *testing.T) {
	a := start(t)
	for name, body := range map[string]string{
		"left out": `{"original_url": "https://example.com/"}`,
		"null": `{"original_url": "https://example.com/", "custom_code": null, "expires_in_seconds": null, "expires_at": null,
			"redirect_status": null, "title": null, "tags": null, "metadata": null}`,
		"empty": `{"original_url": "https://example.com/", "custom_code": "", "title": "", "tags": []}`,
	} {
		l := a.create(body)
		require.EqualValues(t, 302, l["redirect_status"], name)
		require.Equal(t, []any{}, l["tags"], name)
		require.Nil(t, l["metadata"], name)
		require.Contains(t, l, "metadata", name)
		require.Nil(t, l["expires_at"], name)
		require.Contains(t, l, "expires_at", name)
	}
}

func TestCreateGivesTheTargetBackByteForByte(t *testing.T) {
	a := start(t)
	for _, target := range []string{
		"https://example.com/?q=a&b=<c>\"'\\",
		"https://example.com/%7Euser/%2f/../x",
		"https://müller.example/straße?ü=\u2028\u2029",
		"https://example.com/\U0001F600?x=\u007f\ufffd",
		"HTTP://EXAMPLE.com:80/" + strings.Repeat("é", 4000),
	} {
		quoted, err := json.Marshal(target)
		require.NoError(t, err)
		l := a.create(`{"original_url": ` + string(quoted) + `}`)
		require.Equal(t, target, l["original_url"])
	}
	escaped := a.create(`{"original_url": "https:\/\/example.com\/\ud83d\ude00"}`)
	require.Equal(t, "https://example.com/\U0001F600", escaped["original_url"])
}

func TestCreateRefusesBadBodies(t *testing.T) {
	const url = `"original_url": "https://example.com/"`
	cases := []struct {
		name, body string
		status     int
		code       string
		says       string // part of the detail
	}{
		{"an empty body", "", 400, "malformed", "empty"},
		{"white space alone", " \n", 400, "malformed", "empty"},
		{"not JSON", "original_url=x", 400, "malformed", "byte 1"},
		{"cut JSON", `{` + url, 400, "malformed", "not JSON"},
		{"text after the JSON", `{` + url + `} x`, 400, "malformed", "not JSON"},
		{"two values", `{` + url + `} {}`, 400, "malformed", "not JSON"},
		{"a name twice", `{` + url + `, ` + url + `}`, 400, "malformed", "twice"},
		{"a name twice, once escaped", `{` + url + `, "original\u005furl": "x"}`, 400, "malformed", "twice"},
		{"a name twice deep inside", `{` + url + `, "metadata": {"a": [{"b": 1, "b": 2}]}}`, 400, "malformed", "twice"},
		{"invalid UTF-8", "{" + `"original_url": "https://example.com/` + "\xff" + `"}`, 400, "malformed", "UTF-8"},
		{"invalid UTF-8 in a name", "{" + url + `, "` + "\xc0\x80" + `": 1}`, 400, "malformed", "UTF-8"},
		{"a lone high surrogate", `{"original_url": "https://example.com/\ud800"}`, 400, "malformed", "surrogate"},
		{"a lone low surrogate", `{"original_url": "https://example.com/\udc00"}`, 400, "malformed", "surrogate"},
		{"two high surrogates", `{` + url + `, "title": "\ud800\ud800"}`, 400, "malformed", "surrogate"},
		{"a high surrogate before a letter", `{` + url + `, "title": "\ud800x"}`, 400, "malformed", "surrogate"},
		{"a high surrogate before an escape", `{` + url + `, "title": "\ud800\n"}`, 400, "malformed", "surrogate"},
		{"deep nesting", `{` + url + `, "metadata": {"a": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`, 400, "malformed", "nested"},
		{"bottomless nesting", strings.Repeat("[", 500_000), 400, "malformed", "nested"},
		{"a target that is no URL", `{"original_url": "nothing"}`, 400, "malformed", "not a URL"},
		{"an array", `[]`, 422, "invalid", "expected object"},
		{"null", `null`, 422, "invalid", "expected object"},
		{"no target", `{}`, 422, "invalid", "original_url"},
		{"null as the target", `{"original_url": null}`, 422, "invalid", "body.original_url: expected string"},
		{"a number as the target", `{"original_url": 5}`, 422, "invalid", "body.original_url: expected string"},
		{"a forbidden scheme", `{"original_url": "javascript:alert(1)"}`, 422, "invalid", "http"},
		{"an unknown field", `{` + url + `, "colour": "red"}`, 422, "invalid", "body.colour: unknown field"},
		{"a known field in capitals", `{"Original_URL": "https://example.com/"}`, 422, "invalid", "body.Original_URL: unknown field"},
		{"a reserved code", `{` + url + `, "custom_code": "health"}`, 422, "invalid", "reserved"},
		{"a code that is too short", `{` + url + `, "custom_code": "abc"}`, 422, "invalid", "custom_code"},
		{"no time to live", `{` + url + `, "expires_in_seconds": 0}`, 422, "invalid", "body.expires_in_seconds"},
		{"a negative time to live", `{` + url + `, "expires_in_seconds": -1}`, 422, "invalid", "body.expires_in_seconds"},
		{"half a second to live", `{` + url + `, "expires_in_seconds": 0.5}`, 422, "invalid", "body.expires_in_seconds"},
		{"an endless time to live", `{` + url + `, "expires_in_seconds": 9223372036854775807}`, 422, "invalid", "body.expires_in_seconds"},
		{"seconds with an exponent", `{` + url + `, "expires_in_seconds": 1e2}`, 422, "invalid", "body.expires_in_seconds: expected an integer"},
		{"seconds in quotes", `{` + url + `, "expires_in_seconds": "60"}`, 422, "invalid", "body.expires_in_seconds"},
		{"more than a century of hours", `{` + url + `, "expires_in_hours": 876601}`, 422, "invalid", "body.expires_in_hours"},
		{"a date without a time", `{` + url + `, "expires_at": "2999-01-01"}`, 422, "invalid", "body.expires_at: expected an RFC 3339 time, such as 2030-12-31T23:59:59Z"},
		{"a time in the past", `{` + url + `, "expires_at": "2001-01-01T00:00:00Z"}`, 422, "invalid", "future"},
		{"two expiry fields", `{` + url + `, "expires_in_hours": 1, "expires_at": "2999-01-01T00:00:00Z"}`, 422, "invalid", "at most one"},
		{"a status that is no redirect", `{` + url + `, "redirect_status": 200}`, 422, "invalid", "body.redirect_status"},
		{"a status of 303", `{` + url + `, "redirect_status": 303}`, 422, "invalid", "301, 302, 307, 308"},
		{"a long title", `{` + url + `, "title": "` + strings.Repeat("x", 513) + `"}`, 422, "invalid", "body.title"},
		{"many tags", `{` + url + `, "tags": ["` + strings.Repeat(`x", "`, 32) + `x"]}`, 422, "invalid", "body.tags"},
		{"a country by its name", `{` + url + `, "rules": [{"when": [{"country": ["Germany"]}], "status": 404}]}`, 422, "invalid", "country[0]: expected the code of a country in two capital letters, such as DE"},
		{"an empty tag", `{` + url + `, "tags": ["a", ""]}`, 422, "invalid", "body.tags[1]"},
		{"null as a tag", `{` + url + `, "tags": [null]}`, 422, "invalid", "body.tags[0]"},
		{"metadata that is no object", `{` + url + `, "metadata": [1]}`, 422, "invalid", "body.metadata"},
		{"NUL in the target", `{"original_url": "https://example.com/\u0000"}`, 422, "invalid", "NUL"},
		{"NUL in the title", `{` + url + `, "title": "a\u0000b"}`, 422, "invalid", "NUL"},
		{"NUL in a tag", `{` + url + `, "tags": ["\u0000"]}`, 422, "invalid", "NUL"},
		{"NUL in a name of metadata", `{` + url + `, "metadata": {"\u0000": 1}}`, 422, "invalid", "NUL"},
		{"a number beyond all bounds", `{` + url + `, "metadata": {"a": 1e999}}`, 422, "invalid", "out of range"},
		{"a number too close to zero", `{` + url + `, "metadata": {"a": 1e-20000}}`, 422, "invalid", "out of range"},
		{"a megabyte and a bit", `{"original_url": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "too-large", "1048576 bytes"},
	}
	a := start(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			res := a.post("/api/v1/urls", c.body)
			p := requireProblem(t, res, c.status, c.code)
			require.Contains(t, p["detail"], c.says)
		})
	}
	require.Empty(t, a.links.all, "none of these made a link")
}

func TestCreateTakesABodyOfExactlyTheLimit(t *testing.T) {
	a := start(t)
	body := `{"original_url": "https://example.com/"}`
	a.create(body + strings.Repeat(" ", 1<<20-len(body)))
}

func TestCreateNamesEveryFieldAtFaultAndNoValue(t *testing.T) {
	a := start(t)
	p := requireProblem(t, a.post("/api/v1/urls",
		`{"original_url": 5, "title": ["s3cret"], "redirect_status": 418, "max_clicks": 1, "max_clicks_mode": "bounded"}`), 422, "invalid")
	require.Equal(t, []any{
		map[string]any{"location": "body.max_clicks_mode", "message": "expected value to be one of eventual, exact"},
		map[string]any{"location": "body.original_url", "message": "expected string"},
		map[string]any{"location": "body.redirect_status", "message": "expected value to be one of 301, 302, 307, 308"},
		map[string]any{"location": "body.title", "message": "expected string"},
	}, p["errors"])

	many := `{"` + strings.Repeat("long", 100) + `": 1`
	for i := range 100 {
		many += `, "x` + strings.Repeat("y", i) + `": 1`
	}
	p = requireProblem(t, a.post("/api/v1/urls", many+`}`), 422, "invalid")
	require.Len(t, p["errors"], 20)
	require.Equal(t, "body."+strings.Repeat("long", 16)+"…: unknown field", p["detail"], "the first by name, cut")
	require.Less(t, len(p["detail"].(string)), 200)
}

func TestCreateTakesJSONAlone(t *testing.T) {
	a := start(t)
	for contentType, status := range map[string]int{
		"application/json":                  201,
		"application/json; charset=utf-8":   201,
		"Application/JSON ; charset=UTF-8":  201,
		"application/json; charset=latin1":  415,
		"text/plain":                        415,
		"application/x-www-form-urlencoded": 415,
		"application/problem+json":          415,
		"application/":                      415,
		"json":                              415,
	} {
		res := a.do(call{
			method: http.MethodPost, path: "/api/v1/urls", body: `{"original_url": "https://example.com/"}`,
			header: map[string]string{"Content-Type": contentType},
		})
		require.Equal(t, status, res.StatusCode, contentType)
		if status == 415 {
			requireProblem(t, res, 415, "unsupported-media-type")
		}
	}
}

func TestCreateOfATakenCodeIsAConflict(t *testing.T) {
	a := start(t)
	const body = `{"original_url": "https://example.com/", "custom_code": "mine"}`
	a.create(body)
	requireProblem(t, a.post("/api/v1/urls", body), 409, "conflict")
}

func TestShortenAlwaysMakesANewCode(t *testing.T) {
	a := start(t)
	const body = `{"url": "https://example.com/?a=1&b=2"}`
	first, second := a.post("/shorten", body), a.post("/shorten", body)
	require.Equal(t, http.StatusCreated, first.StatusCode, first.text)
	require.Equal(t, "/api/v1/urls/code000", first.Header.Get("Location"))
	require.NotEmpty(t, first.Header.Get("Waypost-Position"))
	l := object(t, first.text)
	require.Len(t, l, 4)
	require.Equal(t, "code000", l["short_code"])
	require.Equal(t, "https://wp.example/code000", l["short_url"])
	require.Equal(t, "https://example.com/?a=1&b=2", l["original_url"])
	require.NotEmpty(t, l["created_at"])
	require.Equal(t, "code001", object(t, second.text)["short_code"])
}

func TestShortenTakes2048BytesAndNoMore(t *testing.T) {
	a := start(t)
	target := "https://example.com/" + strings.Repeat("x", 2048-20)
	require.Equal(t, 201, a.post("/shorten", `{"url": "`+target+`"}`).StatusCode)
	requireProblem(t, a.post("/shorten", `{"url": "`+target+`x"}`), 413, "too-large")
	requireProblem(t, a.post("/shorten", `{"original_url": "https://example.com/"}`), 422, "invalid")
	require.Equal(t, 201, a.post("/api/v1/urls", `{"original_url": "`+target+`x"}`).StatusCode, "links elsewhere may be longer")
}
