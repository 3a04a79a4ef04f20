package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

func TestGetTellsUnknownDeletedAndExpiredLinksApart(t *testing.T) {
	now := time.Now()
	a := start(t, func(f *links, c *httpapi.Config) {
		f.now = func() time.Time { return now }
		c.Now = f.now
	})
	a.create(`{"original_url": "https://example.com/", "custom_code": "lives"}`)
	a.create(`{"original_url": "https://example.com/", "custom_code": "expires", "expires_in_seconds": 60}`)
	a.create(`{"original_url": "https://example.com/", "custom_code": "dies"}`)
	gone := a.do(call{method: http.MethodDelete, path: "/api/v1/urls/dies"})
	require.Equal(t, http.StatusNoContent, gone.StatusCode)
	require.Empty(t, gone.text)
	require.NotEmpty(t, gone.Header.Get("Waypost-Position"))

	require.Equal(t, 200, a.get("/api/v1/urls/lives").StatusCode)
	require.Equal(t, 200, a.get("/api/v1/urls/expires").StatusCode)
	requireProblem(t, a.get("/api/v1/urls/dies"), 404, "not-found")
	requireProblem(t, a.get("/api/v1/urls/unknown"), 404, "not-found")
	requireProblem(t, a.do(call{method: http.MethodDelete, path: "/api/v1/urls/dies"}), 404, "not-found")

	now = now.Add(time.Minute)
	requireProblem(t, a.get("/api/v1/urls/expires"), 410, "gone")
	require.Equal(t, 200, a.get("/api/v1/urls/expires?expired=true").StatusCode, "its owner still sees it")
}

func TestATextThatCanBeNoCodeIsUnknownWithoutAskingAnybody(t *testing.T) {
	a := start(t)
	for _, code := range []string{
		"with%20space", "a'%20OR%20'1'='1", "..%2f..%2fetc%2fpasswd", "%00%00%00%00", "%ff%fe%fd%fc", "%E2%80%AEcode",
		"code;html", strings.Repeat("0", 129),
	} {
		requireProblem(t, a.get("/api/v1/urls/"+code), 404, "not-found")
		requireProblem(t, a.do(call{method: http.MethodDelete, path: "/api/v1/urls/" + code}), 404, "not-found")
		requireProblem(t, a.get("/"+code), 404, "not-found")
	}
	require.Zero(t, a.links.askedAbout())
}

func TestListGoesThroughAllLinksNewestFirst(t *testing.T) {
	a := start(t)
	for i := range 120 {
		a.create(fmt.Sprintf(`{"original_url": "https://example.com/%d"}`, i))
	}
	var seen []string
	cursor, pages := "", 0
	for ok := true; ok; ok = cursor != "" {
		page := object(t, a.get("/api/v1/urls?cursor="+cursor).text)
		for _, l := range page["urls"].([]any) {
			seen = append(seen, l.(map[string]any)["short_code"].(string))
		}
		cursor = page["next_cursor"].(string)
		pages++
	}
	require.Equal(t, 3, pages, "a page holds 50 links unless told otherwise")
	require.Len(t, seen, 120)
	require.Equal(t, "code119", seen[0])
	require.Equal(t, "code000", seen[119])

	require.Len(t, object(t, a.get("/api/v1/urls?limit=7").text)["urls"], 7)
	require.Len(t, object(t, a.get("/api/v1/urls?limit=1000").text)["urls"], 120)
}

func TestListRefusesBadParameters(t *testing.T) {
	a := start(t)
	for query, says := range map[string]string{
		"limit=0":                    "query.limit",
		"limit=1001":                 "query.limit",
		"limit=-1":                   "query.limit",
		"limit=s3cret":               "query.limit: invalid integer",
		"limit=1e2":                  "query.limit",
		"limit=99999999999999999999": "query.limit",
	} {
		p := requireProblem(t, a.get("/api/v1/urls?"+query), 422, "invalid")
		require.Contains(t, p["detail"], says)
		require.NotContains(t, fmt.Sprint(p), "s3cret", "values are not echoed")
	}
	requireProblem(t, a.get("/api/v1/urls?cursor=nonsense"), 400, "malformed")
}
