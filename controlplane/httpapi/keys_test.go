package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

func TestAServiceReservesKeysAndGivesThemBack(t *testing.T) {
	f := &fakeKeys{}
	a := startWithKeys(t, f)
	one := a.get("/api/v1/kgs/key?service=mailer")
	require.Equal(t, http.StatusOK, one.StatusCode, one.text)
	require.JSONEq(t, `{"key": "k000000", "service": "mailer"}`, one.text)
	require.JSONEq(t, `{"key": "k000001", "service": "mailer"}`, a.get("/api/v1/kgs/key?service=mailer").text, "every request returns another key")
	many := a.post("/api/v1/kgs/keys/bulk", `{"count": 3, "service": "mailer"}`)
	require.Equal(t, http.StatusOK, many.StatusCode, many.text)
	require.JSONEq(t, `{"keys": ["k000002", "k000003", "k000004"], "service": "mailer"}`, many.text)

	back := a.post("/api/v1/kgs/keys/return", `{"keys": ["k000003", "k000003", "linked0", "k000000"], "service": "mailer"}`)
	require.Equal(t, http.StatusOK, back.StatusCode, back.text)
	require.JSONEq(t, `{"returned": 2, "refused": [
		{"key": "k000003", "code": "not-found", "detail": "mailer does not hold this key"},
		{"key": "linked0", "code": "conflict", "detail": "a link has this key"}]}`, back.text)
	require.Equal(t, []waypost.Code{"k000001", "k000002", "k000004"}, f.held["mailer"])

	all := a.post("/api/v1/kgs/keys/return", `{"keys": ["k000001"], "service": "mailer"}`)
	require.JSONEq(t, `{"returned": 1, "refused": []}`, all.text)
	for _, res := range []answer{one, many, back, a.get("/api/v1/kgs/stats")} {
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	}
}

func TestAKeyThatIsNotTakenBackForAFaultOfOursShowsNoSecret(t *testing.T) {
	back := startWithKeys(t, &fakeKeys{}).post("/api/v1/kgs/keys/return", `{"keys": ["broken0"]}`)
	require.JSONEq(t, `{"returned": 0, "refused": [{"key": "broken0", "code": "internal", "detail": "internal error"}]}`, back.text)
}

func TestAServiceWithoutANameHasThatOfItsAPIKey(t *testing.T) {
	for name, want := range map[string]string{
		"billing":                "billing",
		"":                       "default",
		"Büro":                   "default",
		"two\nlines":             "default",
		strings.Repeat("n", 101): "default",
		strings.Repeat("n", 100): strings.Repeat("n", 100),
	} {
		a := startWithKeys(t, &fakeKeys{}, func(_ *links, c *httpapi.Config) {
			c.Anonymous = &controlplane.Actor{Workspace: 1, Name: name, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
		})
		require.Equal(t, want, object(t, a.do(call{path: "/api/v1/kgs/key", key: "none"}).text)["service"])
		bulk := a.do(call{method: http.MethodPost, path: "/api/v1/kgs/keys/bulk", body: `{"count": 1}`, key: "none"})
		require.Equal(t, want, object(t, bulk.text)["service"])
		back := a.do(call{method: http.MethodPost, path: "/api/v1/kgs/keys/return", body: `{"keys": ["k000000", "k000001"]}`, key: "none"})
		require.JSONEq(t, `{"returned": 2, "refused": []}`, back.text)
	}
}

func TestTenThousandKeysAreReservedAndGivenBackAtOnce(t *testing.T) {
	f := &fakeKeys{}
	a := startWithKeys(t, f)
	got := object(t, a.post("/api/v1/kgs/keys/bulk", `{"count": 10000}`).text)["keys"].([]any)
	require.Len(t, got, 10_000)
	var text []string
	for _, k := range got {
		text = append(text, fmt.Sprintf("%q", k))
	}
	back := a.post("/api/v1/kgs/keys/return", "{\"keys\": [\n  "+strings.Join(text, ",\n  ")+"\n]}")
	require.JSONEq(t, `{"returned": 10000, "refused": []}`, back.text)
	require.Empty(t, f.held["default"])
}

func TestWhatIsNoWishForKeysIsRefused(t *testing.T) {
	f := &fakeKeys{}
	a := startWithKeys(t, f)
	const bulk, back = "/api/v1/kgs/keys/bulk", "/api/v1/kgs/keys/return"
	for name, c := range map[string]struct {
		path, body string
		status     int
		code, says string
	}{
		"no count":             {bulk, `{}`, 422, "invalid", "count"},
		"no keys wanted":       {bulk, `{"count": 0}`, 422, "invalid", "body.count"},
		"one too many":         {bulk, `{"count": 10001}`, 422, "invalid", "body.count"},
		"less than none":       {bulk, `{"count": -1}`, 422, "invalid", "body.count"},
		"half a key":           {bulk, `{"count": 1.5}`, 422, "invalid", "body.count"},
		"a count in words":     {bulk, `{"count": "10"}`, 422, "invalid", "body.count"},
		"a count in capitals":  {bulk, `{"Count": 10}`, 422, "invalid", "body.Count: unknown field"},
		"a count twice":        {bulk, `{"count": 1, "count": 2}`, 400, "malformed", "twice"},
		"an endless count":     {bulk, `{"count": 1e999}`, 422, "invalid", "body.count: expected an integer"},
		"a service too long":   {bulk, `{"count": 1, "service": "` + strings.Repeat("s", 101) + `"}`, 422, "invalid", "body.service"},
		"no JSON":              {bulk, `count=1`, 400, "malformed", "not JSON"},
		"nothing":              {bulk, ``, 400, "malformed", "empty"},
		"a megabyte and a bit": {bulk, strings.Repeat(" ", 1<<20+1), 413, "too-large", "1048576 bytes"},
		"no keys back":         {back, `{"keys": []}`, 422, "invalid", "body.keys"},
		"null back":            {back, `{"keys": null}`, 422, "invalid", "body.keys"},
		"numbers back":         {back, `{"keys": [7]}`, 422, "invalid", "body.keys[0]"},
		"objects back":         {back, `{"keys": [{"key": "k000000"}]}`, 422, "invalid", "body.keys[0]"},
		"a long key back":      {back, `{"keys": ["` + strings.Repeat("k", 33) + `"]}`, 422, "invalid", "body.keys[0]"},
		"too many back":        {back, `{"keys": [` + strings.Repeat(`"k000000",`, 10_000) + `"k000000"]}`, 422, "invalid", "body.keys"},
	} {
		t.Run(name, func(t *testing.T) {
			p := requireProblem(t, a.post(c.path, c.body), c.status, c.code)
			require.Contains(t, p["detail"], c.says)
		})
	}
	requireProblem(t, a.get("/api/v1/kgs/key?service="+strings.Repeat("s", 101)), 422, "invalid")
	require.Zero(t, f.minted)
}

func TestARegionWithoutKeysAnswersWithAProblemOfItsOwn(t *testing.T) {
	f := &fakeKeys{err: waypost.Errorf(waypost.EExhausted, "no prefix is free")}
	a := startWithKeys(t, f)
	for _, res := range []answer{a.get("/api/v1/kgs/key"), a.post("/api/v1/kgs/keys/bulk", `{"count": 1}`)} {
		require.Equal(t, "no prefix is free", requireProblem(t, res, 503, "keys-exhausted")["detail"])
		require.NotEmpty(t, res.Header.Get("Retry-After"))
	}
}

func TestKeyStatsTellHowLongTheRegionLasts(t *testing.T) {
	f := &fakeKeys{stats: api.KeyStats{
		Region: "eu-west-1", PoolSize: 900, Leased: 12, Rate: 7.5, FreePrefixes: 3, MinutesLeft: new(120.0),
		Held: new("no one remembers"), Reserved: map[string]int64{"mailer": 2},
	}}
	a := startWithKeys(t, f)
	require.JSONEq(t, `{"region": "eu-west-1", "pool_size": 900, "leased": 12, "rate_per_minute": 7.5, "minutes_left": 120,
		"free_prefixes": 3, "held": "no one remembers", "reserved": {"mailer": 2}}`, a.get("/api/v1/kgs/stats").text)
	f.stats = api.KeyStats{Region: "eu-west-1", PoolSize: 900, Reserved: map[string]int64{}}
	require.JSONEq(t, `{"region": "eu-west-1", "pool_size": 900, "leased": 0, "rate_per_minute": 0, "minutes_left": null,
		"free_prefixes": 0, "held": null, "reserved": {}}`, a.get("/api/v1/kgs/stats").text)
}

func TestKeysAreReservedByThoseWhoMayWriteAndCountedByThoseWhoMayRead(t *testing.T) {
	a := startWithKeys(t, &fakeKeys{})
	for _, c := range []struct {
		call
		may map[string]int
	}{
		{call{path: "/api/v1/kgs/key"}, map[string]int{writeKey: 200, fullKey: 200, operatorKey: 200, readKey: 403, statsKey: 403, "none": 401}},
		{call{method: "POST", path: "/api/v1/kgs/keys/bulk", body: `{"count": 1}`}, map[string]int{writeKey: 200, readKey: 403, "none": 401}},
		{call{method: "POST", path: "/api/v1/kgs/keys/return", body: `{"keys": ["k000000"]}`}, map[string]int{writeKey: 200, readKey: 403, "none": 401}},
		{call{path: "/api/v1/kgs/stats"}, map[string]int{readKey: 200, operatorKey: 200, writeKey: 403, statsKey: 403, "none": 401}},
	} {
		for key, status := range c.may {
			c.key = key
			require.Equal(t, status, a.do(c.call).StatusCode, "%s %s", c.path, key)
		}
	}
}

// A GET may use up a key, so that a page in somebody's browser must not send it.
func TestAPageOfAnotherOriginReservesNoKeyWithoutAnAPIKey(t *testing.T) {
	f := &fakeKeys{}
	a := startWithKeys(t, f, func(_ *links, c *httpapi.Config) { c.Anonymous = operator })
	foreign := call{path: "/api/v1/kgs/key", key: "none", header: map[string]string{"Sec-Fetch-Site": "cross-site"}}
	requireProblem(t, a.do(foreign), 403, "forbidden")
	require.Zero(t, f.minted)
	foreign.key = writeKey
	require.Equal(t, 200, a.do(foreign).StatusCode)
	require.Equal(t, 200, a.do(call{path: "/api/v1/kgs/stats", key: "none", header: foreign.header}).StatusCode, "reading does no harm")
}

func TestHeadReservesNoKey(t *testing.T) {
	f := &fakeKeys{}
	res := startWithKeys(t, f).do(call{method: http.MethodHead, path: "/api/v1/kgs/key"})
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	require.Equal(t, "GET", res.Header.Get("Allow"))
	require.Zero(t, f.minted)
}

// miscount returns one key less than it was asked for.
type miscount struct{ supply }

func (f miscount) ReserveKeys(ctx context.Context, actor controlplane.Actor, service string, n int) ([]waypost.Code, error) {
	return f.fakeKeys.ReserveKeys(ctx, actor, service, n-1)
}

func TestFewerKeysThanWereAskedForAreAFault(t *testing.T) {
	a := start(t, func(l *links, c *httpapi.Config) { c.Keys = miscount{supply{&fakeKeys{}, l}} })
	requireProblem(t, a.post("/api/v1/kgs/keys/bulk", `{"count": 2}`), 500, "internal")
}
