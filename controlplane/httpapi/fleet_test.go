package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/controlplane/httpapi"
	"waypost/internal/condition"
)

// fixedFleet is one that is always the same.
type fixedFleet []api.Edge

func (f fixedFleet) Edges() (all []fleet.EdgeStatus) {
	for _, e := range f {
		all = append(all, fleet.EdgeStatus{Edge: e})
	}
	return all
}

// ControlPlanes returns this control plane, which sees a twin, and one that is down.
func (f fixedFleet) ControlPlanes() []fleet.ControlStatus {
	at := time.Date(2031, 5, 6, 6, 8, 9, 0, time.UTC)
	own := fleet.ControlPlane{Node: "control-1", Region: "eu-west-1", StartedAt: at}
	own.Version, own.Addr, own.AdminAddr = "1.2.3", "10.0.0.1:8080", "10.0.0.1:9080"
	own.Conditions = []condition.Condition{
		{Name: "EdgeTwins", Severity: "critical", Of: "edge-z", Since: at, What: "has a twin"},
		{Name: "KGSPoolLow", Severity: "warning", Of: "eu-west-1", Since: at, What: "has few keys"},
	}
	return []fleet.ControlStatus{
		{ControlPlane: own, State: fleet.ControlAlive, LastSeen: at, Answers: true},
		{ControlPlane: fleet.ControlPlane{
			Node: "control-2", Region: "us-east-1", StartedAt: at, ControlReport: own.ControlReport,
		}, State: fleet.ControlSilent, LastSeen: at},
	}
}

// operator asks without a key, where none is needed.
var operator = &controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}

func startWithFleet(t *testing.T, anonymous *controlplane.Actor, f fixedFleet) *testAPI {
	return start(t, func(_ *links, c *httpapi.Config) { c.Fleet, c.Anonymous = f, anonymous })
}

func TestEdgesAreShownWithWhatIsKnownOfThem(t *testing.T) {
	seen := time.Date(2031, 5, 6, 6, 8, 9, 0, time.UTC)
	a := startWithFleet(t, operator, fixedFleet{
		{
			EdgeState: api.EdgeState{
				Node: "edge-a", Region: "eu-west-1", Role: "edge", Version: "1.2.3", Addr: "10.0.0.2:8081", AdminAddr: "10.0.0.2:9081",
				Replica: "held", Held: "mass-delete", HeldWhy: "too many", Draining: true,
				PlacesBuilt:       new(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)),
				RequestsPerSecond: new(12.5), DiskUsedBytes: new(int64(1 << 40)), DiskFreeBytes: new(int64(0)),
				Conditions: []api.NodeCondition{{Name: "EdgeHeld", Severity: "critical", Since: seen, What: "holds back a change"}},
			},
			Position: &api.Sequence{Epoch: 2, Seq: 40}, AgeSeconds: new(2.5), LagChanges: new(uint64(3)), LagSeconds: new(1.5),
			StartedAt: &seen, ClicksPending: new(int64(7)), ClicksUntil: &seen, Credential: new(fleet.CredentialOwn),
			State: fleet.EdgeSilent, MayServe: true, Twins: []string{"10.0.0.3:8081"},
			Since: seen, LastSeen: seen, Via: fleet.ViaReport,
		},
		{
			EdgeState: api.EdgeState{Node: "edge-z", Region: "us-east-1", Role: "edge"}, Twins: []string{},
			State: fleet.EdgeAlive, Since: seen, LastSeen: seen, Via: fleet.ViaGossip,
		},
	})
	res := a.do(call{path: "/api/admin/edges", key: "none"})
	require.Equal(t, http.StatusOK, res.StatusCode, res.text)
	const at = `"2031-05-06T06:08:09Z"`
	down, lost := condition.Find("EdgeDown"), condition.Find("ControlPlaneDown")
	quoted := func(text string) string {
		b, err := json.Marshal(text)
		require.NoError(t, err)
		return string(b)
	}
	controls := `"control_planes": [
		{"node": "control-1", "region": "eu-west-1", "version": "1.2.3", "addr": "10.0.0.1:8080", "admin_addr": "10.0.0.1:9080",
		 "state": "alive", "answers": true, "started_at": ` + at + `, "last_seen": ` + at + `,
		 "conditions": [{"name": "KGSPoolLow", "severity": "warning", "of": "eu-west-1", "since": ` + at + `,
			"what": "has few keys", "do": "", "page": ""}]},
		{"node": "control-2", "region": "us-east-1", "version": "1.2.3", "addr": "10.0.0.1:8080", "admin_addr": "10.0.0.1:9080",
		 "state": "silent", "answers": false, "started_at": ` + at + `, "last_seen": ` + at + `,
		 "conditions": [{"name": "ControlPlaneDown", "severity": "critical", "of": "", "since": ` + at + `,
			"what": "cannot be reached: it did not stop in order, and PostgreSQL hears nothing of it",
			"do": ` + quoted(lost.Do) + `, "page": "docs/operations/alerts/ControlPlaneDown.md"}]}]`
	require.JSONEq(t, `{"edges": [
		{"node": "edge-a", "region": "eu-west-1", "role": "edge", "state": "silent", "left": false, "may_serve": true, "twins": ["10.0.0.3:8081"],
		 "since": `+at+`, "last_seen": `+at+`, "via": "report",
		 "position": {"epoch": 2, "seq": 40}, "age_seconds": 2.5, "lag_changes": 3, "lag_seconds": 1.5,
		 "started_at": `+at+`,
		 "clicks_pending": 7, "clicks_until": `+at+`, "replica": "held", "held": "mass-delete", "held_why": "too many",
			"draining": true,
			"places_built_at": "2026-11-01T00:00:00Z", "requests_per_second": 12.5, "disk_used_bytes": 1099511627776, "disk_free_bytes": 0,
			"verified": null, "version": "1.2.3", "addr": "10.0.0.2:8081", "admin_addr": "10.0.0.2:9081", "credential": "own", "has_blocks": null,
			"conditions": [{"name": "EdgeDown", "severity": "critical", "of": "", "since": `+at+`, "what": "cannot be reached: it is silent",
				"do": `+quoted(down.Of("edge-a", condition.Statement{}).Do)+`, "page": "docs/operations/alerts/EdgeDown.md"}]},
		{"node": "edge-z", "region": "us-east-1", "role": "edge", "state": "alive", "left": false, "may_serve": false, "twins": [],
		 "since": `+at+`, "last_seen": `+at+`, "via": "gossip",
		 "position": null, "age_seconds": null, "lag_changes": null, "lag_seconds": null, "started_at": null,
		 "clicks_pending": null, "clicks_until": null, "replica": "", "held": "", "held_why": "", "draining": false,
			"places_built_at": null, "requests_per_second": null, "disk_used_bytes": null, "disk_free_bytes": null,
			"verified": null, "version": "", "addr": "", "admin_addr": "", "credential": null, "has_blocks": null,
			"conditions": [{"name": "EdgeTwins", "severity": "critical", "of": "edge-z", "since": `+at+`,
				"what": "has a twin", "do": "", "page": ""}]}],
		`+controls+`}`, res.text)

	empty := startWithFleet(t, operator, fixedFleet{}).do(call{path: "/api/admin/edges", key: "none"})
	require.Contains(t, empty.text, `"edges":[]`)
}

func TestEdgesAreForAdministrators(t *testing.T) {
	a := startWithFleet(t, nil, fixedFleet{})
	requireProblem(t, a.do(call{path: "/api/admin/edges", key: "none"}), 401, "unauthorized")
	requireProblem(t, a.do(call{path: "/api/admin/edges", key: fullKey}), 403, "forbidden")
	requireProblem(t, a.do(call{path: "/api/admin/edges", key: strangerKey}), 403, "forbidden") // administers another workspace
}

func TestEdgesAreDocumented(t *testing.T) {
	a := startWithFleet(t, nil, fixedFleet{{
		EdgeState: api.EdgeState{Node: "edge-a", Role: "edge"}, State: fleet.EdgeAlive, Via: fleet.ViaReport, Twins: []string{},
	}})
	operation := operations(t, object(t, a.get("/openapi.json").text))["GET /api/admin/edges"]
	require.Equal(t, []any{
		map[string]any{"bearer": []any{"admin"}}, map[string]any{"apiKey": []any{"admin"}}, map[string]any{"session": []any{"admin"}},
	}, operation["security"])
	for _, key := range []string{strangerKey, fullKey, "none"} {
		requireDocumented(t, operation, a.do(call{path: "/api/admin/edges", key: key}), key)
	}
}

// reports remembers what was reported.
type reports struct {
	got []fleet.EdgeReport
	err error
}

func (r *reports) Report(_ context.Context, report fleet.EdgeReport) (catchUp waypost.Position, err error) {
	r.got = append(r.got, report)
	return catchUp, r.err
}

func goodReport() map[string]any {
	return map[string]any{
		"node": "edge-a", "region": "us-east-1", "role": "edge", "boot": "0102030405060708090a0b0c0d0e0f10", "addr": "10.0.0.2:8081",
		"admin_addr": "10.0.0.2:9081", "version": "1.2.3", "position": "2-01000000000000000000000000000000-40-0000000000000005",
		"started_at": "2031-05-06T06:00:00Z", "clicks_pending": 7,
		"clicks_until": "2031-05-06T06:08:07.5Z", "of_a_later_version": []int{1},
	}
}

func sendReport(t *testing.T, to *reports, method, contentType, body string) answer {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, api.PathEdgeReports, strings.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	httpapi.EdgeReports(to, noOrders{}, nil, slog.New(slog.DiscardHandler)).ServeHTTP(w, req)
	return answer{w.Result(), w.Body.String()}
}

func TestAnEdgesReportIsTaken(t *testing.T) {
	body, err := json.Marshal(goodReport())
	require.NoError(t, err)
	to := &reports{}
	res := sendReport(t, to, http.MethodPost, "application/json", string(body))
	require.Equal(t, http.StatusNoContent, res.StatusCode, res.text)
	var sent api.EdgeReport
	require.NoError(t, json.Unmarshal(body, &sent))
	require.Equal(t, []fleet.EdgeReport{{
		EdgeReport: sent, Boot: waypost.BootID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		Position: waypost.Position{Epoch: waypost.Epoch{Ordinal: 2, ID: waypost.EpochID{1}}, Seq: 40, Stamp: 5},
	}}, to.got)
}

func TestAReportThatBreaksARuleIsRefused(t *testing.T) {
	for name, spoil := range map[string]struct {
		field string
		value any
	}{
		"no node":                     {"node", ""},
		"a long node":                 {"node", strings.Repeat("n", 65)},
		"a node that steers":          {"node", "a\x1b[2J"},
		"no region":                   {"region", ""},
		"a region in capitals":        {"region", "US"},
		"another role":                {"role", "control"},
		"no boot":                     {"boot", ""},
		"a boot that is too long":     {"boot", strings.Repeat("0", 34)},
		"a boot that is no hex":       {"boot", strings.Repeat("x", 32)},
		"an address without a port":   {"addr", "10.0.0.2"},
		"an address that is too long": {"admin_addr", strings.Repeat("a", 130) + ":1"},
		"a version in two lines":      {"version", "1\n2"},
		"a position of one number":    {"position", "40"},
		"a time in the year 10000":    {"started_at", "9999-12-31T23:59:59-10:00"},
		"a time before all":           {"clicks_until", "0000-01-01T00:00:00+10:00"},
		"clicks of the year 10000":    {"clicks_until", "9999-12-31T23:59:59-10:00"},
		"fewer clicks than none":      {"clicks_pending", -2},
		"fewer requests than none":    {"requests_per_second", -0.1},
		"too many requests":           {"requests_per_second", 1e10},
		"less of a disk than nothing": {"disk_used_bytes", -1},
		"more of a disk than exists":  {"disk_free_bytes", 1<<60 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			report := maps.Clone(goodReport())
			report[spoil.field] = spoil.value
			body, err := json.Marshal(report)
			require.NoError(t, err)
			to := &reports{}
			requireProblem(t, sendReport(t, to, http.MethodPost, "application/json", string(body)), 422, "invalid")
			require.Empty(t, to.got)
		})
	}
}

func TestWhatIsNoReportIsRefused(t *testing.T) {
	to := &reports{}
	const good = "application/json"
	requireProblem(t, sendReport(t, to, http.MethodGet, good, "{}"), 405, "method-not-allowed")
	requireProblem(t, sendReport(t, to, http.MethodPost, "text/plain", "{}"), 415, "unsupported-media-type")
	requireProblem(t, sendReport(t, to, http.MethodPost, good, ""), 400, "malformed")
	requireProblem(t, sendReport(t, to, http.MethodPost, good, `{"node": 1}`), 400, "malformed")
	requireProblem(t, sendReport(t, to, http.MethodPost, good, `{"started_at": "yesterday"}`), 400, "malformed")
	requireProblem(t, sendReport(t, to, http.MethodPost, good, strings.Repeat(" ", 70_000)), 413, "too-large")
	require.Empty(t, to.got)

	to.err = waypost.Errorf(waypost.EUnavailable, "too many")
	body, err := json.Marshal(goodReport())
	require.NoError(t, err)
	requireProblem(t, sendReport(t, to, http.MethodPost, good, string(body)), 503, "unavailable")
}
