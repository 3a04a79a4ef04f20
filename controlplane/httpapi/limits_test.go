package httpapi_test

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
)

// frozen is a clock that stands still, so that no attempt is refilled while a test runs.
func frozen() time.Time { return time.Unix(1_800_000_000, 0) }

func TestAKeyIsToldHowMuchItMayStillAskAndThenWhenAgain(t *testing.T) {
	metrics := prometheus.NewRegistry()
	a := start(t, func(_ *links, cfg *httpapi.Config) {
		cfg.Limits.Requests, cfg.Metrics = limit.NewRequests(1, 3, frozen), metrics
	})
	list := call{path: "/api/v1/urls"}
	for _, want := range []string{"2", "1", "0"} {
		res := a.do(list)
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, "3", res.Header.Get("RateLimit-Limit"))
		require.Equal(t, want, res.Header.Get("RateLimit-Remaining"))
		require.NotEmpty(t, res.Header.Get("RateLimit-Reset"))
	}
	res := a.do(list)
	requireProblem(t, res, 429, "rate-limited")
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Equal(t, "0", res.Header.Get("RateLimit-Remaining"))

	require.Equal(t, 200, a.do(call{path: "/api/v1/urls", key: readKey}).StatusCode, "another key has its own")
	require.Equal(t, 200, a.do(call{path: "/health"}).StatusCode, "what needs no key is not limited")
	families, err := metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "waypost_http_rate_limited_total" {
			require.InDelta(t, 1, f.GetMetric()[0].GetCounter().GetValue(), 0)
			return
		}
	}
	t.Fatal("the refusal is not counted")
}

func TestLimits_CredentialsOfAWorkspaceShareItsRequests(t *testing.T) {
	a := start(t, func(_ *links, cfg *httpapi.Config) {
		cfg.Limits.Requests, cfg.Limits.Workspaces = limit.NewRequests(1, 3, frozen), limit.NewRequests(1, 4, frozen)
	})
	list := func(key string) answer { return a.do(call{path: "/api/v1/urls", key: key}) }
	for i, key := range []string{fullKey, fullKey, readKey} {
		res := list(key)
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, []string{"2", "1", "1"}[i], res.Header.Get("RateLimit-Remaining"))
		require.Equal(t, []string{"3", "3", "4"}[i], res.Header.Get("RateLimit-Limit"), "the tighter limit is shown")
	}
	require.Equal(t, 200, list(fullKey).StatusCode)
	res := list(readKey)
	requireProblem(t, res, 429, "rate-limited")
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Equal(t, "0", res.Header.Get("RateLimit-Remaining"))
	require.Equal(t, 200, list(strangerKey).StatusCode, "another workspace has its own")
}

func TestABulkRequestCountsAsTheSeveralThatItIs(t *testing.T) {
	a := start(t, func(_ *links, cfg *httpapi.Config) { cfg.Limits.Requests = limit.NewRequests(1, 20, frozen) })
	body := `{"links":[` + strings.TrimSuffix(strings.Repeat(create+",", 500), ",") + `]}`
	require.Equal(t, 200, a.do(call{method: http.MethodPost, path: "/api/v1/urls/bulk", body: body}).StatusCode)
	res := a.do(call{path: "/api/v1/urls"})
	left, err := strconv.Atoi(res.Header.Get("RateLimit-Remaining"))
	require.NoError(t, err)
	require.Equal(t, 20-1-5-1, left, "500 links are five requests more")
}

func TestLimits_KeysForServicesCountAsTheSeveralRequestsThatTheyAre(t *testing.T) {
	a := startWithKeys(t, &fakeKeys{}, func(_ *links, cfg *httpapi.Config) { cfg.Limits.Requests = limit.NewRequests(1, 30, frozen) })
	require.Equal(t, 200, a.do(call{method: http.MethodPost, path: "/api/v1/kgs/keys/bulk", body: `{"count": 700}`}).StatusCode)
	text := `{"keys": [` + strings.TrimSuffix(strings.Repeat(`"k000000",`, 500), ",") + `]}`
	require.Equal(t, 200, a.do(call{method: http.MethodPost, path: "/api/v1/kgs/keys/return", body: text}).StatusCode)
	res := a.do(call{path: "/api/v1/kgs/key"})
	require.Equal(t, strconv.Itoa(30-1-7-1-5-1), res.Header.Get("RateLimit-Remaining"), "700 keys are seven requests more, 500 are five")
}

func TestGuessesAreRefusedBeforeAnybodyLooksThemUp(t *testing.T) {
	looked := 0
	var from netip.Addr
	a := start(t, func(f *links, cfg *httpapi.Config) {
		f.onAuthenticate = func(context.Context) error { looked++; return nil }
		cfg.Limits.Guesses = limit.NewGuesses(3, frozen)
		cfg.Limits.Client = func(*http.Request) netip.Addr { return from }
	})
	from = netip.MustParseAddr("192.0.2.1")
	require.Equal(t, 200, a.do(call{path: "/api/v1/urls", key: fullKey}).StatusCode)
	for range 3 {
		require.Equal(t, 401, a.do(call{path: "/api/v1/urls", key: "wp_live_guess"}).StatusCode)
	}
	require.Equal(t, 4, looked)
	res := a.do(call{path: "/api/v1/urls", key: "wp_live_another"})
	requireProblem(t, res, 429, "rate-limited")
	require.Equal(t, "20", res.Header.Get("Retry-After"))
	requireProblem(t, a.do(call{path: "/api/v1/urls", key: "wp_live_read_"}), 429, "rate-limited")
	require.Equal(t, 4, looked, "nobody was asked")

	require.Equal(t, 200, a.do(call{path: "/api/v1/urls", key: fullKey}).StatusCode, "a key that was good lately is not shut out by its neighbours")
	from = netip.MustParseAddr("192.0.2.2")
	require.Equal(t, 401, a.do(call{path: "/api/v1/urls", key: "wp_live_guess2"}).StatusCode, "another address has attempts of its own")
	require.Equal(t, 401, a.do(call{path: "/api/v1/urls", header: map[string]string{"X-Api-Key": ""}, key: "none"}).StatusCode, "a spoilt key is an attempt, too")
}
