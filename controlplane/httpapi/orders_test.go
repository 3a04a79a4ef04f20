package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
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
)

// orders knows the edge eu-1, and remembers what was asked of it.
type orders struct {
	given  []api.EdgeOrder
	answer func(api.EdgeOrder) api.EdgeOutcome // of a question
}

func (o *orders) Give(_ context.Context, actor controlplane.Actor, order api.EdgeOrder) (api.EdgeOrder, error) {
	if err := actor.CheckOperator(); err != nil {
		return order, err
	}
	if order.Node != "eu-1" {
		return order, waypost.Errorf(waypost.ENotFound, "no such edge")
	}
	order.ID, order.OrderedAt, order.Until = int64(len(o.given)+1), time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	o.given = append(o.given, order)
	return order, nil
}

func (o *orders) Ask(ctx context.Context, actor controlplane.Actor, order api.EdgeOrder) (api.EdgeOutcome, error) {
	given, err := o.Give(ctx, actor, order)
	return o.answer(given), err
}

func (o *orders) Find(_ context.Context, actor controlplane.Actor, node string, id int64) (api.EdgeOrder, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.EdgeOrder{}, err
	}
	if node != "eu-1" || id > int64(len(o.given)) {
		return api.EdgeOrder{}, waypost.Errorf(waypost.ENotFound, "no such order")
	}
	return o.given[id-1], nil
}

func (o *orders) Verified(string) (api.EdgeOrder, bool) {
	return api.EdgeOrder{DoneAt: new(time.Unix(3000, 0).UTC()), Outcome: &api.EdgeOutcome{Damage: "a record is cut"}}, true
}

func (o *orders) For(string) []api.EdgeOrder { return o.given }

func (o *orders) Done(_ context.Context, node string, id int64, outcome api.EdgeOutcome) error {
	if node != "eu-1" || id > int64(len(o.given)) {
		return waypost.Errorf(waypost.ENotFound, "no such order")
	}
	o.given[id-1].Outcome, o.given[id-1].DoneAt = &outcome, new(time.Unix(3000, 0).UTC())
	return nil
}

func TestWhatIsAskedOfAnEdgeIsToldToItAndItsAnswerIsShown(t *testing.T) {
	o := &orders{}
	a := start(t, func(_ *links, c *httpapi.Config) {
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
		c.Orders, c.Fleet, c.Anonymous = o, fixedFleet{{
			EdgeState: api.EdgeState{Node: "eu-1", Role: "edge"}, State: fleet.EdgeAlive, Via: fleet.ViaReport, Twins: []string{},
		}}, operator
	})
	all := operations(t, object(t, a.get("/openapi.json").text))
	do := func(status int, name, path, body string) answer {
		t.Helper()
		method, _, _ := strings.Cut(name, " ")
		res := a.do(call{method: method, path: path, body: body, key: "none"})
		require.Equal(t, status, res.StatusCode, res.text)
		requireDocumented(t, all[name], res, name)
		return res
	}
	do(200, "POST /api/admin/edges/{node}/verifications", "/api/admin/edges/eu-1/verifications", "")
	do(200, "POST /api/admin/edges/{node}/acceptances", "/api/admin/edges/eu-1/acceptances", `{"what": "mass-delete"}`)
	do(422, "POST /api/admin/edges/{node}/acceptances", "/api/admin/edges/eu-1/acceptances", `{"what": "everything"}`)
	do(200, "POST /api/admin/edges/{node}/drains", "/api/admin/edges/eu-1/drains", `{}`)
	do(200, "POST /api/admin/edges/{node}/drains", "/api/admin/edges/eu-1/drains", `{"undo": true}`)
	do(422, "POST /api/admin/edges/{node}/drains", "/api/admin/edges/eu-1/drains", `{"undo": 1}`)
	do(404, "POST /api/admin/edges/{node}/verifications", "/api/admin/edges/eu-2/verifications", "")
	do(404, "GET /api/admin/edges/{node}/orders/{id}", "/api/admin/edges/eu-1/orders/5", "")
	requireProblem(t, a.do(call{method: "POST", path: "/api/admin/edges/eu-1/verifications", key: strangerKey}), 403, "forbidden")
	open := object(t, do(200, "GET /api/admin/edges/{node}/orders/{id}", "/api/admin/edges/eu-1/orders/1", "").text)
	require.Nil(t, open["outcome"])

	report := httptest.NewRequest(http.MethodPost, api.PathEdgeReports, strings.NewReader(`{"node": "eu-1", "region": "eu", "role": "edge",
		"boot": "`+strings.Repeat("0a", 16)+`", "clicks_pending": -1, "replica": "held", "held": "mass-delete", "held_why": "too many at once",
		"draining": true, "places_built_at": "2026-11-01T00:00:00Z", "requests_per_second": 0.5,
		"disk_used_bytes": 7, "disk_free_bytes": 8,
		"conditions": [{"name": "ClicksWait", "severity": "warning", "of": "", "since": "2026-11-01T00:00:00Z", "what": "has clicks",
			"do": "Wait.", "page": "p"}]}`))
	report.Header.Set("Content-Type", "application/json")
	w, arrived := httptest.NewRecorder(), &reports{}
	httpapi.EdgeReports(arrived, o, nil, slog.New(slog.DiscardHandler)).ServeHTTP(w, report)
	require.Equal(t, 200, w.Code)
	require.True(t, arrived.got[0].Draining)
	require.Equal(t, 2026, arrived.got[0].PlacesBuilt.Year())
	require.Equal(t, []api.NodeCondition{{
		Name: "ClicksWait", Severity: "warning", Since: *arrived.got[0].PlacesBuilt, What: "has clicks", Do: "Wait.", Page: "p",
	}}, arrived.got[0].Conditions)
	require.Equal(t, new(0.5), arrived.got[0].RequestsPerSecond)
	require.Equal(t, []*int64{new(int64(7)), new(int64(8))}, []*int64{arrived.got[0].DiskUsedBytes, arrived.got[0].DiskFreeBytes})
	var told api.EdgeOrders
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &told))
	require.Len(t, told.Orders, 4)
	require.Equal(t, []string{"drain", "undrain"}, []string{told.Orders[2].What, told.Orders[3].What})
	require.Equal(t, []string{"verify", "accept", "mass-delete"}, []string{told.Orders[0].What, told.Orders[1].What, told.Orders[1].Hold})

	send := func(status int, body string) {
		t.Helper()
		req, w := httptest.NewRequest(http.MethodPost, api.PathEdgeOutcomes, strings.NewReader(body)), httptest.NewRecorder()
		req.Header.Set("Content-Type", "application/json")
		httpapi.EdgeOutcomes(o, slog.New(slog.DiscardHandler)).ServeHTTP(w, req)
		require.Equal(t, status, w.Code, w.Body.String())
	}
	for _, wrong := range []string{
		`{"node": "eu-1", "order": 0}`, `{"node": "", "order": 1}`, `{"node": "eu-1", "order": 1, "outcome": {"records": 9223372036854775807}}`, `{"node": "eu-1", "order": 1, "outcome": {"error": "a\nb"}}`,
		`{"node": "eu-1", "order": 1, "outcome": {"damage": "` + strings.Repeat("a", 1025) + `"}}`,
	} {
		send(422, wrong)
	}
	send(400, `{`)
	send(413, `{"error": "`+strings.Repeat("x", 64<<10)+`"}`)
	send(404, `{"node": "eu-2", "order": 1}`)
	send(204, `{"node": "eu-1", "order": 1, "outcome": {"records": 10, "damage": "a record is cut",
		"position": {"epoch": 1, "seq": 7}, "seconds": 0.5}}`)
	done := object(t, do(200, "GET /api/admin/edges/{node}/orders/{id}", "/api/admin/edges/eu-1/orders/1", "").text)
	require.Equal(t, map[string]any{
		"error": "", "accepted": "", "records": 10.0, "damage": "a record is cut", "seconds": 0.5,
		"position": map[string]any{"epoch": 1.0, "seq": 7.0},
	}, done["outcome"])
	shown := do(200, "GET /api/admin/edges", "/api/admin/edges", "").text
	require.Contains(t, shown, `"verified":{"at":"1970-01-01T00:50:00Z","damage":"a record is cut","error":""}`)
}
