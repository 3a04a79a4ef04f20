package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

type unknownTaker struct{ last *controlplane.UnknownReport }

func (u *unknownTaker) CountUnknown(_ context.Context, r *controlplane.UnknownReport) error {
	u.last = r
	return nil
}

func TestEdgeUnknown_TakesOnlyWhatCanBeShown(t *testing.T) {
	const boot = `"node": "eu-1", "boot": "0102030405060708090a0b0c0d0e0f10", "seq": 3`
	post := func(body string) (int, *controlplane.UnknownReport) {
		to := &unknownTaker{}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.PathEdgeUnknown, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		httpapi.EdgeUnknown(to, discard).ServeHTTP(w, req)
		return w.Code, to.last
	}
	const good = `{"domain": 7, "day": "2026-03-31", "path": "caf\u00e9", "people": 2, "bots": 1, "visitors": [18446744073692774400]}`
	status, taken := post(`{` + boot + `, "addresses": [` + good + `]}`)
	require.Equal(t, 204, status)
	day, err := waypost.ParseDay("2026-03-31")
	require.NoError(t, err)
	require.Equal(t, &controlplane.UnknownReport{
		Node: "eu-1", Boot: waypost.BootID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Seq: 3,
		Addresses: []controlplane.UnknownVisits{{Domain: 7, Day: day, Path: "café", People: 2, Bots: 1, Visitors: []uint64{waypost.VisitorBits}}},
	}, taken)
	for name, body := range map[string]string{
		"no node":           `"boot": "0102030405060708090a0b0c0d0e0f10", "seq": 3`,
		"no boot":           `"node": "eu-1", "seq": 3`,
		"no sequence":       `"node": "eu-1", "boot": "0102030405060708090a0b0c0d0e0f10"`,
		"too many":          boot + `, "addresses": [` + strings.Repeat(`{},`, 500) + `{}]`,
		"twice":             boot + `, "addresses": [` + good + `,` + good + `]`,
		"no path":           boot + `, "addresses": [{"domain": 7, "day": "2026-03-31"}]`,
		"a long path":       boot + `, "addresses": [{"domain": 7, "day": "2026-03-31", "path": "` + strings.Repeat("x", 129) + `"}]`,
		"a control":         boot + `, "addresses": [{"domain": 7, "day": "2026-03-31", "path": "a\u0007"}]`,
		"no domain":         boot + `, "addresses": [{"day": "2026-03-31", "path": "a"}]`,
		"no day":            boot + `, "addresses": [{"domain": 7, "day": "31.3.2026", "path": "a"}]`,
		"another kind":      boot + `, "addresses": [{"domain": 7, "day": "2026-03-31", "path": "a", "kind": 2}]`,
		"six visitors":      boot + `, "addresses": [{"domain": 7, "day": "2026-03-31", "path": "a", "visitors": [1, 2, 3, 4, 5, 6]}]`,
		"too many to count": boot + `, "addresses": [{"domain": 7, "day": "2026-03-31", "path": "a", "people": 18446744073709551615}]`,
	} {
		status, taken := post(`{` + body + `}`)
		require.Equal(t, 422, status, name)
		require.Nil(t, taken, name)
	}
}

func TestUnknownAddresses_AreListedByDay(t *testing.T) {
	f := busy()
	f.unknown = []api.UnknownAddress{
		{Path: "hr", Pattern: true, People: 9, Bots: 2, Days: []api.UnknownDay{
			{Day: "2026-03-30", People: 5, Bots: 2}, {Day: "2026-03-31", People: 4},
		}},
		{Path: "vpn", People: 5, Days: []api.UnknownDay{{Day: "2026-03-30", People: 5}}},
	}
	a := clicked(t, f)
	get := func(query string) answer { return a.do(call{path: "/api/v1/stats/unknown?" + query, key: statsKey}) }
	res := get("domain=go.example.com&from=2026-03-30&to=2026-03-31&limit=1")
	require.Equal(t, 200, res.StatusCode, res.text)
	require.JSONEq(t, `{"from": "2026-03-30", "to": "2026-03-31", "addresses": [{"path": "hr", "pattern": true, "people": 9, "bots": 2,
		"days": [{"day": "2026-03-30", "people": 5, "bots": 2}, {"day": "2026-03-31", "people": 4, "bots": 0}]}]}`, res.text)
	require.Equal(t, []string{"go.example.com"}, f.hosts)
	for _, query := range []string{"limit=0", "limit=1001", "from=yesterday", "to=2026-03-31T00:00:00Z"} {
		requireProblem(t, get(query), 422, "invalid")
	}
}
