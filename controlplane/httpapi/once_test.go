package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

func keyed(path, key, body string) call {
	return call{method: http.MethodPost, path: path, body: body, header: map[string]string{"Idempotency-Key": key}}
}

func TestARequestThatIsSentAgainIsAnsweredAgainToTheByte(t *testing.T) {
	for path, body := range map[string]string{
		"/api/v1/urls":      `{"original_url": "https://example.com/<é>&\u2028", "custom_code": "mine", "metadata": {"a": [1.50, "<"]}}`,
		"/api/v1/urls/bulk": `{"links": [{"original_url": "https://example.com/a"}, {"original_url": "no"}, {"bad": 1}, {"original_url": "https://xn--bcher-kva.example/"}]}`,
		"/shorten":          `{"url": "https://example.com/a"}`,
	} {
		a := start(t)
		first := a.do(keyed(path, "my key", body))
		require.Less(t, first.StatusCode, 300, first.text)
		require.Empty(t, first.Header.Get("Idempotency-Replayed"))
		again := a.do(keyed(path, "my key", body))
		require.Equal(t, first.StatusCode, again.StatusCode, path)
		require.Equal(t, first.text, again.text, path)
		require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
		for _, header := range []string{"Location", "Waypost-Position", "ETag", "Content-Type"} {
			require.Equal(t, first.Header.Values(header), again.Header.Values(header), "%s: %s", path, header)
		}
		requireProblem(t, a.do(keyed(path, "my key", body+" ")), 422, "key-reused")
		busy := a.do(keyed(path, "busy", body))
		requireProblem(t, busy, 409, "in-progress")
		require.Equal(t, "1", busy.Header.Get("Retry-After"))
	}
}

func TestAnEmptyNameOfARequestIsRefusedAndNothingIsMade(t *testing.T) {
	a := start(t)
	p := requireProblem(t, a.do(keyed("/api/v1/urls", "", `{"original_url": "https://example.com/", "custom_code": "mine"}`)), 422, "invalid")
	require.Contains(t, p["detail"], "header.Idempotency-Key")
	require.Equal(t, 404, a.get("/api/v1/urls/mine").StatusCode)
}

func TestAKeyOfOneRouteIsNotThatOfAnother(t *testing.T) {
	a := start(t)
	require.Equal(t, 201, a.do(keyed("/shorten", "k", `{"url": "https://example.com/a"}`)).StatusCode)
	require.Equal(t, 201, a.do(keyed("/api/v1/urls", "k", `{"original_url": "https://example.com/a"}`)).StatusCode)
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	a := start(t)
	long := make([]byte, 256)
	for i := range long {
		long[i] = 'k'
	}
	for _, key := range []string{string(long), "ключ", "a\tb"} {
		requireProblem(t, a.do(keyed("/api/v1/urls", key, `{"original_url": "https://example.com/a"}`)), 422, "invalid")
	}
	require.Equal(t, 201, a.do(keyed("/api/v1/urls", string(long[:255]), `{"original_url": "https://example.com/a"}`)).StatusCode)
}

func TestARequestThatMadeNothingIsJudgedAgain(t *testing.T) {
	a := start(t)
	for range 2 {
		requireProblem(t, a.do(keyed("/api/v1/urls", "k", `{"original_url": "no url"}`)), 400, "malformed")
	}
	require.Equal(t, 201, a.do(keyed("/api/v1/urls", "k", `{"original_url": "https://example.com/a"}`)).StatusCode)
}

func TestALinkThatWasThereIsToldApartFromANewOne(t *testing.T) {
	a := start(t)
	const body = `{"original_url": "https://example.com/a", "dedupe": true}`
	require.Equal(t, 201, a.post("/api/v1/urls", body).StatusCode)
	found := a.post("/api/v1/urls", body)
	require.Equal(t, 200, found.StatusCode)
	require.Equal(t, "/api/v1/urls/code000", found.Header.Get("Location"))
	require.NotEmpty(t, found.Header.Get("Waypost-Position"))
	bulk := object(t, a.post("/api/v1/urls/bulk", `{"links": [`+body+`, {"original_url": "https://example.com/b"}]}`).text)
	results := bulk["results"].([]any)
	require.EqualValues(t, 200, results[0].(map[string]any)["status"])
	require.EqualValues(t, 201, results[1].(map[string]any)["status"])
	require.Equal(t, 201, a.post("/shorten", `{"url": "https://example.com/a"}`).StatusCode, "the old form promises a new code")
}

func TestWarningsAreShownWhenALinkIsMade(t *testing.T) {
	a := start(t)
	l := a.create(`{"original_url": "https://xn--bcher-kva.example/", "custom_code": "mine"}`)
	require.Equal(t, []any{map[string]any{"code": "host-looks-like-another", "message": "it looks like another"}}, l["warnings"])
	require.NotContains(t, object(t, a.get("/api/v1/urls/mine").text), "warnings")
}

func TestALinkOfAnotherDomainIsShownUnderItsHost(t *testing.T) {
	for base, want := range map[string]string{
		"https://wp.example":    "https://own.example/mine",
		"http://127.0.0.1:8081": "http://own.example:8081/mine",
	} {
		a := start(t, func(_ *links, c *httpapi.Config) { c.BaseURL = base })
		res := a.post("/api/v1/urls", `{"original_url": "https://example.com/", "custom_code": "mine", "domain": "own.example"}`)
		require.Equal(t, 201, res.StatusCode)
		require.Equal(t, "/api/v1/urls/mine?domain=own.example", res.Header.Get("Location"))
		l := object(t, res.text)
		require.Equal(t, want, l["short_url"])
		require.Equal(t, "own.example", l["domain"])
		require.Equal(t, 404, a.get("/api/v1/urls/mine").StatusCode)
		require.Equal(t, l, object(t, a.get(res.Header.Get("Location")).text))
		require.Equal(t, 404, a.do(call{method: http.MethodDelete, path: "/api/v1/urls/mine"}).StatusCode)
		require.Equal(t, 204, a.do(call{method: http.MethodDelete, path: res.Header.Get("Location")}).StatusCode)
	}
}

func TestWhoWaitsLearnsWhatCameOfIt(t *testing.T) {
	a := start(t)
	const body = `{"original_url": "https://example.com/", "custom_code": "mine"}`
	res := a.do(keyed("/api/v1/urls?wait=region", "k", body))
	require.Equal(t, "region; edges=1", res.Header.Get("Waypost-Applied"))
	again := a.do(keyed("/api/v1/urls?wait=all", "k", body))
	require.Equal(t, "all; edges=3", again.Header.Get("Waypost-Applied"), "also for an answer that was given before")
	late := a.do(call{method: http.MethodPatch, path: "/api/v1/urls/mine?wait=all&wait_timeout=10", body: `{"title": "t"}`})
	require.Equal(t, 200, late.StatusCode, "the change is made either way")
	require.Equal(t, "timeout; behind=edge-1,edge-2; silent=edge-3", late.Header.Get("Waypost-Applied"))
	require.Empty(t, a.post("/api/v1/urls", `{"original_url": "https://example.com/"}`).Header.Get("Waypost-Applied"))
	for _, query := range []string{"wait=some", "wait=all&wait_timeout=11", "wait=all&wait_timeout=0", "wait=all&wait_timeout=x"} {
		requireProblem(t, a.post("/api/v1/urls?"+query, body), 422, "invalid")
	}
	require.Equal(t, 204, a.do(call{method: http.MethodDelete, path: "/api/v1/urls/mine?wait=all"}).StatusCode)
}
