package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/httpapi"
)

func TestBulkGivesEveryLinkItsOwnOutcomeInOrder(t *testing.T) {
	const good = `{"original_url": "https://example.com/"}`
	items := []struct {
		body   string
		status int
		says   string
	}{
		{good, 201, ""},
		{`{"original_url": "https://example.com/", "custom_code": "mine"}`, 201, ""},
		{`{"original_url": "https://example.com/", "custom_code": "mine"}`, 409, "taken"},
		{`{"original_url": 5}`, 422, "body.links[3].original_url: expected string"},
		{`{"original_url": "https://example.com/", "colour": 1}`, 422, "body.links[4].colour: unknown field"},
		{`{}`, 422, "original_url"},
		{`"https://example.com/"`, 422, "body.links[6]: expected object"},
		{`null`, 422, "body.links[7]: expected object"},
		{`[[[]]]`, 422, "expected object"},
		{`{"original_url": "nothing"}`, 400, "not a URL"},
		{`{"original_url": "https://example.com/\ud800"}`, 400, "surrogate"},
		{`{"original_url": "https://example.com/` + "\xff" + `"}`, 400, "UTF-8"},
		{`{"original_url": "https://a.example/", "original_url": "https://b.example/"}`, 400, "twice"},
		{`{"original_url": "https://example.com/", "title": "\u0000"}`, 422, "NUL"},
		{`{"original_url": "https://example.com/", "expires_in_hours": 1, "expires_in_seconds": 1}`, 422, "body.links[14]: give at most one"},
		{good, 201, ""},
	}
	var bodies []string
	for _, item := range items {
		bodies = append(bodies, item.body)
	}
	a := start(t)
	res := a.post("/api/v1/urls/bulk", `{"links": [`+strings.Join(bodies, " ,\n")+`]}`)
	require.Equal(t, http.StatusOK, res.StatusCode, res.text)
	require.Equal(t, "1-07000000000000000000000000000000-3-000000000000002a", res.Header.Get("Waypost-Position"))

	var got struct {
		Results []struct {
			Status int            `json:"status"`
			Link   map[string]any `json:"link"`
			Error  map[string]any `json:"error"`
		} `json:"results"`
	}
	require.NoError(t, json.Unmarshal([]byte(res.text), &got))
	require.Len(t, got.Results, len(items))
	for i, item := range items {
		r := got.Results[i]
		require.Equal(t, item.status, r.Status, "%d: %v", i, r)
		if item.status == 201 {
			require.Nil(t, r.Error)
			require.NotEmpty(t, r.Link["short_code"])
			continue
		}
		require.Nil(t, r.Link)
		require.EqualValues(t, item.status, r.Error["status"])
		require.Contains(t, r.Error["detail"], item.says, i)
	}
	require.Len(t, a.links.all, 3)
}

func TestBulkWithoutOneGoodLinkHasNoPosition(t *testing.T) {
	a := start(t)
	for _, body := range []string{`{"links": [1]}`, `{"links": [{"original_url": "nothing"}]}`} {
		res := a.post("/api/v1/urls/bulk", body)
		require.Equal(t, http.StatusOK, res.StatusCode, res.text)
		require.NotContains(t, res.Header, "Waypost-Position")
	}
}

func TestBulkRefusesABadEnvelope(t *testing.T) {
	a := start(t)
	const item = `{"original_url": "https://example.com/"}`
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"an empty body", "", 400, "empty"},
		{"cut JSON", `{"links": [` + item, 400, "not JSON"},
		{"text after the JSON", `{"links": [` + item + `]}]`, 400, "not JSON"},
		{"a value after the JSON", `{"links": [` + item + `]} {"links": [` + item + `]}`, 400, "not JSON"},
		{"a string after the JSON", `{"links": [` + item + `]}"x"`, 400, "not JSON"},
		{"a value before the JSON", `0{"links": [` + item + `]}`, 400, "not JSON"},
		{"an array", `[` + item + `]`, 422, "expected object"},
		{"no links", `{}`, 422, "at least 1"},
		{"empty links", `{"links": []}`, 422, "at least 1"},
		{"null links", `{"links": null}`, 422, "expected array"},
		{"an object of links", `{"links": {"a": 1}}`, 422, "expected array"},
		{"an unknown field", `{"links": [` + item + `], "mode": "fast"}`, 422, "body.mode: unknown field; known: links"},
		{"capitals", `{"Links": [` + item + `]}`, 422, "body.Links: unknown field"},
		{"links twice", `{"links": [` + item + `], "links": []}`, 400, "twice"},
		{"1,001 links", `{"links": [` + strings.Repeat("1,", 1000) + `1]}`, 422, "at most 1000"},
		{"twelve megabytes and a bit", `{"links": [` + strings.Repeat(" ", 12<<20) + `]}`, 413, "12582912 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := a.post("/api/v1/urls/bulk", c.body)
			require.Equal(t, c.status, res.StatusCode, res.text)
			require.Contains(t, object(t, res.text)["detail"], c.says)
		})
	}
	require.Empty(t, a.links.all)
}

func TestBulkTakesAThousandOfTheLongestURLs(t *testing.T) {
	a := start(t)
	item := `{"original_url": "https://example.com/` + strings.Repeat("x", waypost.MaxURLLength-20) + `"},`
	res := a.post("/api/v1/urls/bulk", `{"links": [`+strings.TrimSuffix(strings.Repeat(item, waypost.MaxBulk), ",")+`]}`)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Len(t, object(t, res.text)["results"], waypost.MaxBulk)
	require.Len(t, a.links.all, waypost.MaxBulk)
}

func TestBulkThatFailsAsAWholeSaysSo(t *testing.T) {
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onBulk = func(context.Context) error { return waypost.Errorf(waypost.EUnavailable, "the database is away") }
	})
	res := a.post("/api/v1/urls/bulk", `{"links": [1, {"original_url": "https://example.com/"}]}`)
	requireProblem(t, res, 503, "unavailable")
	require.NotEmpty(t, res.Header.Get("Retry-After"))
}

func TestAMinimalAnswerHoldsCodesAndReasonsAlone(t *testing.T) {
	a := start(t)
	res := a.do(call{
		method: http.MethodPost, path: "/api/v1/urls/bulk", header: map[string]string{"Prefer": "return=minimal"},
		body: `{"links": [{"original_url": "https://example.com/", "custom_code": "mine"}, {"original_url": "nonsense"}]}`,
	})
	require.Equal(t, "return=minimal", res.Header.Get("Preference-Applied"))
	results := object(t, res.text)["results"].([]any)
	require.Equal(t, map[string]any{"status": 201.0, "short_code": "mine"}, results[0])
	require.Contains(t, results[1], "error")
	require.NotContains(t, results[1], "link")
}

func TestBulk_DryRunAnswersWithoutLinks(t *testing.T) {
	a := start(t)
	res := a.post("/api/v1/urls/bulk?dry_run=true&wait=all", `{"links": [{"original_url": "https://example.com/"}, {"original_url": 1},
		{"original_url": "https://example.com/", "custom_code": "taken"}, {"original_url": "https://example.com/", "dedupe": true}]}`)
	require.Equal(t, 200, res.StatusCode, res.text)
	require.Empty(t, res.Header.Get("Waypost-Position"))
	results := object(t, res.text)["results"].([]any)
	require.Equal(t, map[string]any{"status": 201.0}, results[0])
	require.Equal(t, 422.0, results[1].(map[string]any)["status"])
	require.Equal(t, 409.0, results[2].(map[string]any)["status"])
	require.Equal(t, map[string]any{"status": 200.0}, results[3])
	require.Empty(t, a.links.all)
	requireProblem(t, a.post("/api/v1/urls/bulk?dry_run=yes", `{"links": [{}]}`), 422, "invalid")
}

func TestBulk_TheExampleOfThePageCreatesLinks(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(page), "```json\n{\"links\"")
	example, _, found := strings.Cut(example, "```")
	require.True(t, found)
	res := start(t).post("/api/v1/urls/bulk", `{"links"`+example)
	require.Equal(t, 200, res.StatusCode, res.text)
	require.Equal(t, 2, strings.Count(res.text, `"status":201`), res.text)
}
