package httpapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/requestid"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/keys"
	"waypost/internal/logtest"
)

func TestRootNamesTheService(t *testing.T) {
	a := start(t)
	res := a.do(call{path: "/", key: "none"})
	require.Equal(t, 200, res.StatusCode)
	require.JSONEq(t, `{"service": "waypost", "version": "1.2.3"}`, res.text)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
}

func TestAnswersOverTLSAskForTLS(t *testing.T) {
	api := httpapi.New(services(newLinks()))
	for _, over := range []*tls.ConnectionState{nil, {}} {
		for _, path := range []string{"/", "/health", "/nothing", "/api/v1/urls"} {
			r, w := httptest.NewRequest(http.MethodGet, path, http.NoBody), httptest.NewRecorder()
			r.TLS = over
			api.ServeHTTP(w, r)
			require.Equal(t, over != nil, w.Header().Get("Strict-Transport-Security") == "max-age=31536000", path)
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
		}
	}
}

func TestHealthFollowsTheDatabase(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := start(t, func(_ *links, c *httpapi.Config) { c.Now = func() time.Time { return now } })
	res := a.do(call{path: "/health", key: "none"})
	require.Equal(t, 200, res.StatusCode)
	require.JSONEq(t, `{"status": "healthy", "timestamp": "2026-01-02T03:04:05Z", "version": "1.2.3", "kgs_pool_size": 916, "database": "connected"}`, res.text)

	a.links.health = keys.Health{}
	res = a.do(call{path: "/health", key: "none"})
	require.Equal(t, 503, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.JSONEq(t, `{"status": "unhealthy", "timestamp": "2026-01-02T03:04:05Z", "version": "1.2.3", "kgs_pool_size": 0, "database": "disconnected"}`, res.text)
}

func TestErrorsBecomeProblems(t *testing.T) {
	secret := errors.New("password=hunter2")
	cases := []struct {
		name   string
		err    error
		status int
		code   string
		detail string
		logged bool
	}{
		{"a code is told", waypost.Errorf(waypost.EConflict, "taken"), 409, "conflict", "taken", false},
		{"a wrapped code is told", fmt.Errorf("creating: %w", waypost.WrapError(waypost.EInvalid, "no", secret)), 422, "invalid", "no", false},
		{"too large is told", waypost.Errorf(waypost.ETooLarge, "long"), 413, "too-large", "long", false},
		{"unavailable asks for patience", waypost.WrapError(waypost.EUnavailable, "away", secret), 503, "unavailable", "away", true},
		{"exhausted asks for patience", waypost.Errorf(waypost.EExhausted, "none left"), 503, "keys-exhausted", "none left", false},
		{"a deadline of the database is no fault of ours", fmt.Errorf("query: %w", context.DeadlineExceeded), 503, "unavailable", "", false},
		{"an error without a code is hidden", secret, 500, "internal", "internal error", true},
		{"an internal error is hidden", waypost.WrapError(waypost.EInternal, "oops", secret), 500, "internal", "internal error", true},
		{"a code that nobody knows is hidden", waypost.WrapError("strange", "oops", secret), 500, "internal", "internal error", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var log logtest.Buffer
			a := start(t, func(f *links, cfg *httpapi.Config) {
				f.onCreate = func(context.Context) error { return c.err }
				cfg.Logger = log.Logger()
			})
			res := a.post("/api/v1/urls", create)
			p := requireProblem(t, res, c.status, c.code)
			if c.detail != "" {
				require.Equal(t, c.detail, p["detail"])
			}
			require.NotContains(t, res.text, "hunter2")
			require.Equal(t, c.status == 503, res.Header.Get("Retry-After") != "")
			require.Equal(t, c.logged, strings.Contains(log.String(), "hunter2"), log.String())
		})
	}
}

func TestProblems_ShowTheIdThatTheLogHas(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{errors.New("broken"), 500},
		{waypost.Errorf(waypost.EUnavailable, "away"), 503},
		{waypost.Errorf(waypost.EConflict, "taken"), 409},
	} {
		var log logtest.Buffer
		f := newLinks()
		f.onCreate = func(context.Context) error { return c.err }
		cfg := services(f)
		cfg.Logger = slog.New(requestid.Log(slog.NewTextHandler(&log, nil)))
		server := httptest.NewServer(requestid.Handler(httpapi.New(cfg)))
		t.Cleanup(server.Close)
		a := &testAPI{t: t, links: f, url: server.URL, client: server.Client()}
		res := a.post("/api/v1/urls", create)
		id := res.Header.Get(requestid.Header)
		require.Regexp(t, "^[0-9a-f]{32}$", id)
		p := object(t, res.text)
		require.EqualValues(t, c.status, p["status"])
		if c.status < 500 {
			require.NotContains(t, p, "request_id")
			continue
		}
		require.Equal(t, id, p["request_id"])
		require.Contains(t, log.String(), "request_id="+id)
	}
}

func TestARequestIsAnsweredWithinItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 5 * time.Second
		stuck := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		f := newLinks()
		f.onCreate, f.onBulk = stuck, stuck
		f.onResolve = func(ctx context.Context, _ string) (waypost.Resolution, error) {
			return waypost.Resolution{}, stuck(ctx)
		}
		cfg := services(f)
		cfg.RequestTimeout = timeout
		server := httpapi.New(cfg)
		for _, c := range []call{
			{method: http.MethodPost, path: "/api/v1/urls", body: create},
			{method: http.MethodPost, path: "/api/v1/urls/bulk", body: `{"links": [` + create + `]}`},
			{method: http.MethodGet, path: "/code000"},
		} {
			began := time.Now()
			req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
			req.Header.Set("X-Api-Key", fullKey)
			req.Header.Set("Content-Type", "application/json")
			res := httptest.NewRecorder()
			server.ServeHTTP(res, req)
			requireProblem(t, answer{res.Result(), res.Body.String()}, 503, "unavailable")
			require.NotEmpty(t, res.Header().Get("Retry-After"))
			require.Equal(t, timeout*9/10, time.Since(began), "some of the time is kept for the answer")
		}
	})
}

func TestABodyThatNeverEndsIsGivenUp(t *testing.T) {
	a := start(t, func(_ *links, c *httpapi.Config) { c.RequestTimeout = 100 * time.Millisecond })
	require.Equal(t, 408, a.raw("POST /api/v1/urls HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+fullKey+
		"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
}

func TestABrokenBodyIsTheClientsFault(t *testing.T) {
	a := start(t)
	require.Equal(t, 400, a.raw("POST /api/v1/urls HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+fullKey+
		"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"))
}

func TestAPanicIsAnsweredAndTheNextRequestServed(t *testing.T) {
	var log logtest.Buffer
	first := true
	a := start(t, func(f *links, c *httpapi.Config) {
		c.Logger = log.Logger()
		f.onCreate = func(context.Context) error {
			if first {
				first = false
				panic("hunter2")
			}
			return nil
		}
	})
	res := a.post("/api/v1/urls", create)
	requireProblem(t, res, 500, "internal")
	require.NotContains(t, res.text, "hunter2")
	require.Contains(t, log.String(), "hunter2")
	require.Contains(t, log.String(), "serve_test.go", "the log has the stack")
	require.Equal(t, 201, a.post("/api/v1/urls", create).StatusCode)
}

func TestOtherMethodsAreRefusedWithThoseAllowed(t *testing.T) {
	a := start(t)
	for _, c := range []struct{ method, path, allow string }{
		{"PUT", "/api/v1/urls", "GET, HEAD, POST"},
		{"POST", "/api/v1/urls/code000", "DELETE, GET, HEAD, PATCH"},
		{"OPTIONS", "/api/v1/urls/bulk", "DELETE, GET, HEAD, PATCH, POST"},
		{"POST", "/", "GET, HEAD"},
		{"DELETE", "/code000", "GET, HEAD"},
	} {
		res := a.do(call{method: c.method, path: c.path})
		require.Equal(t, "allowed here: "+c.allow, requireProblem(t, res, 405, "method-not-allowed")["detail"])
		require.Equal(t, c.allow, res.Header.Get("Allow"), c.path)
	}
}

func TestMetricsCountRoutesAndNeverWhatAClientChose(t *testing.T) {
	registry := prometheus.NewRegistry()
	a := start(t, func(_ *links, c *httpapi.Config) { c.Metrics = registry })
	a.create(create)
	for _, path := range []string{"/code000", "/code999", "/x", "/api/v1/urls/code000", "/no/such/route", "/"} {
		a.get(path)
	}
	a.do(call{method: http.MethodHead, path: "/code000"})
	a.do(call{method: "BREW", path: "/coffee"})
	a.post("/api/v1/urls", "{")

	counts, histograms := map[string]float64{}, 0
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetHistogram() != nil {
				histograms++
				continue
			}
			var labels []string // sorted by name: method, route, status
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			counts[family.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	require.Equal(t, map[string]float64{
		"waypost_http_requests_total GET /api/v1/urls/{code} 200": 1,
		"waypost_http_requests_total GET /{$} 200":                1,
		"waypost_http_requests_total GET /{code} 302":             1,
		"waypost_http_requests_total GET /{code} 404":             3,
		"waypost_http_requests_total HEAD /{code} 302":            1,
		"waypost_http_requests_total POST /api/v1/urls 201":       1,
		"waypost_http_requests_total POST /api/v1/urls 400":       1,
		"waypost_http_requests_total other none 405":              1,
		"waypost_authentications_total key accepted":              3,
	}, counts)
	require.Equal(t, 6, histograms, "one for each route and method")
}

func TestAPathThatTheAPIDoesNotHaveIsNoMissingLink(t *testing.T) {
	a := start(t)
	for _, path := range []string{"/api/v1/links", "/api/v1/urls/", "/api/v2"} {
		p := requireProblem(t, a.get(path), 404, "not-found")
		require.Contains(t, p["detail"], "the API has no such path", path)
	}
	require.Contains(t, requireProblem(t, a.get("/no/link"), 404, "not-found")["detail"], "there is no such link")
	require.Contains(t, requireProblem(t, a.get("/nolink"), 404, "not-found")["detail"], "there is no such link")
}

func TestAMissingLink_IsNamed(t *testing.T) {
	a := start(t)
	long := strings.Repeat("c", 100)
	for _, c := range []call{
		{method: "GET", path: "?"},
		{method: "PATCH", path: "?", body: "{}"},
		{method: "DELETE", path: "?"},
		{method: "GET", path: "/history?"},
		{method: "GET", path: "/qr?"},
		{method: "GET", path: "/stats?"},
	} {
		for code, name := range map[string]string{"nosuch": "nosuch", "a%22%0Ab": `a\"\nb`, long: long[:64] + "…"} {
			c := c
			c.path = "/api/v1/urls/" + code + c.path
			require.Equal(t, `there is no such link: "`+name+`"`, requireProblem(t, a.do(c), 404, "not-found")["detail"], c.path)
		}
	}
	require.Equal(t, `there is no such link: "go.example/no/such"`,
		requireProblem(t, a.get("/api/v1/urls/no%2Fsuch?domain=go.example"), 404, "not-found")["detail"])
}
