package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane/keys"
)

const (
	createdAt = `"created_at": "2031-05-06T06:08:09Z"`
	range1    = `{"id": 1, "prefix": "4g", "lo": 0, "hi": 1000, "next": 300, "region": "eu-west-1", "state": "live", "generation": 2, "returned": 20, ` + createdAt + `,
		"leases": [{"node": "control-1", "lo": 290, "hi": 300, "generation": 2}], "rate_per_minute": 7.2, "minutes_left": 100}`
	range2 = `{"id": 2, "prefix": "4h", "lo": 0, "hi": 500, "next": 0, "region": "us-east-1", "state": "live", "generation": 1, "returned": 0, ` + createdAt + `,
		"leases": [], "rate_per_minute": 0, "minutes_left": null}`
	range3 = `{"id": 3, "prefix": "4i", "lo": 0, "hi": 500, "next": 500, "region": "us-east-1", "state": "retired", "generation": 1, "returned": 0, ` + createdAt + `,
		"leases": [], "rate_per_minute": 0, "minutes_left": null}`
	supplies = `[{"region": "eu-west-1", "unissued": 720, "rate_per_minute": 7.2, "minutes_left": 100},
		{"region": "us-east-1", "unissued": 500, "rate_per_minute": 0, "minutes_left": null}]`
)

func TestRangesAreListedWithWhatIsLeftOfThem(t *testing.T) {
	f := &fakeKeys{space: aSpace()}
	a := startWithKeys(t, f)
	res := a.do(call{path: "/api/admin/ranges", key: operatorKey})
	require.Equal(t, http.StatusOK, res.StatusCode, res.text)
	require.JSONEq(t, `{"ranges": [`+range1+`,`+range2+`,`+range3+`], "regions": `+supplies+`, "prefixes": 3844, "free_prefixes": 3841, "prefix_size": 1000,
		"held": null, "held_since": null, "resume_gap": 0}`, res.text)

	f.space = keys.KeySpace{Held: "no one remembers", HeldSince: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), ResumeGap: 40}
	require.JSONEq(t, `{"ranges": [], "regions": [], "prefixes": 0, "free_prefixes": 0, "prefix_size": 0,
		"held": "no one remembers", "held_since": "2031-05-06T07:08:09Z",
			"resume_gap": 40}`, a.do(call{path: "/api/admin/ranges", key: operatorKey}).text)
}

func TestARangeIsShownByItsNumber(t *testing.T) {
	a := startWithKeys(t, &fakeKeys{space: aSpace()})
	require.JSONEq(t, range2, a.do(call{path: "/api/admin/ranges/2", key: operatorKey}).text)
	for path, c := range map[string]struct {
		status int
		code   string
	}{"4": {404, "not-found"}, "0": {422, "invalid"}, "4g": {422, "invalid"}, "99999999999999999999": {422, "invalid"}} {
		requireProblem(t, a.do(call{path: "/api/admin/ranges/" + path, key: operatorKey}), c.status, c.code)
	}
}

func TestStepsReachTheServiceAsTheyWereSent(t *testing.T) {
	gap := int64(0)
	f := &fakeKeys{done: []api.StepDone{
		{
			Step: api.RangeStep{Action: keys.MoveRange, Range: 1, Region: "us-east-1", At: 300},
			What: "moved the rest", Fenced: 2, Ranges: []api.Range{aSpace().Ranges[1].Range},
		},
		{Step: api.RangeStep{Action: keys.ResumeKeys, Gap: &gap}, What: "resumed", Ranges: []api.Range{}},
	}}
	a := startWithKeys(t, f)
	res := a.do(call{
		method: http.MethodPost, path: "/api/admin/ranges/changes", key: operatorKey,
		body: `{"dry_run": true, "fingerprint": "f1", "steps": [
		{"action": "assign", "region": "eu-west-1", "prefix": "4k"}, {"action": "split", "range": 1, "at": 500}, {"action": "split", "range": 1},
		{"action": "move", "range": 1, "region": "us-east-1", "at": 300}, {"action": "move", "range": 1,
			"region": "us-east-1", "remainder": true}, {"action": "drain", "range": 2}, {"action": "revive", "range": 2},
		{"action": "retire", "range": 2, "force": true}, {"action": "resume", "gap": 0}, {"action": "resume"}]}`,
	})
	require.Equal(t, http.StatusOK, res.StatusCode, res.text)
	require.JSONEq(t, `{"dry_run": true, "done": [
		{"step": {"action": "move", "range": 1, "region": "us-east-1", "at": 300}, "what": "moved the rest", "fenced": 2, "ranges": [`+range2+`]},
		{"step": {"action": "resume", "gap": 0}, "what": "resumed", "fenced": 0, "ranges": []}]}`, res.text)
	require.Equal(t, []api.RangeChange{{DryRun: true, Fingerprint: "f1", Steps: []api.RangeStep{
		{Action: keys.AssignPrefix, Region: "eu-west-1", Prefix: "4k"},
		{Action: keys.SplitRange, Range: 1, At: 500},
		{Action: keys.SplitRange, Range: 1},
		{Action: keys.MoveRange, Range: 1, Region: "us-east-1", At: 300},
		{Action: keys.MoveRange, Range: 1, Region: "us-east-1", Remainder: true},
		{Action: keys.DrainRange, Range: 2},
		{Action: keys.ReviveRange, Range: 2},
		{Action: keys.RetireRange, Range: 2, Force: true},
		{Action: keys.ResumeKeys, Gap: &gap},
		{Action: keys.ResumeKeys},
	}}}, f.changes)
}

func TestAStepThatBreaksARuleIsRefusedWithItsPlace(t *testing.T) {
	f := &fakeKeys{}
	a := startWithKeys(t, f)
	for name, c := range map[string]struct{ steps, says string }{
		"no step":                     {``, "body.steps"},
		"an action that nobody has":   {`{"action": "delete", "range": 1}`, "body.steps[0].action"},
		"no action":                   {`{"range": 1}`, "action"},
		"a name in capitals":          {`{"action": "drain", "Range": 1}`, "body.steps[0].Range: unknown field"},
		"an argument that is made up": {`{"action": "drain", "range": 1, "soon": true}`, "body.steps[0].soon: unknown field"},
		"no range to drain":           {`{"action": "drain"}`, "body.steps[0].range: expected for the action drain"},
		"no range to split":           {`{"action": "split", "at": 7}`, "body.steps[0].range: expected for the action split"},
		"two beginnings":              {`{"action": "move", "range": 1, "region": "eu", "at": 5, "remainder": true}`, "body.steps[0].remainder: not together with at"},
		"the remainder of a split":    {`{"action": "split", "range": 1, "remainder": true}`, "body.steps[0].remainder: not an argument of the action split"},
		"the second without region":   {`{"action": "drain", "range": 1}, {"action": "move", "range": 1}`, "body.steps[1].region: expected for the action move"},
		"no region to assign to":      {`{"action": "assign", "prefix": "4k"}`, "body.steps[0].region: expected"},
		"a region in capitals":        {`{"action": "assign", "region": "US"}`, "body.steps[0].region: region"},
		"an argument of another":      {`{"action": "drain", "range": 1, "force": true}`, "body.steps[0].force: not an argument of the action drain"},
		"range number none":           {`{"action": "drain", "range": 0}`, "body.steps[0].range"},
		"a gap backwards":             {`{"action": "resume", "gap": -1}`, "body.steps[0].gap"},
		"a counter out of all space":  {`{"action": "split", "range": 1, "at": 99999999999999999999}`, "integer in plain digits"},
		"a long prefix":               {`{"action": "assign", "region": "eu", "prefix": "4kkk"}`, "body.steps[0].prefix"},
		"a step that is none":         {`[]`, "body.steps[0]"},
		"1,001 steps":                 {strings.Repeat(`{"action": "drain", "range": 1},`, 1000) + `{"action": "drain", "range": 1}`, "body.steps"},
	} {
		t.Run(name, func(t *testing.T) {
			res := a.do(call{method: http.MethodPost, path: "/api/admin/ranges/changes", key: operatorKey, body: `{"steps": [` + c.steps + `]}`})
			require.Contains(t, requireProblem(t, res, 422, "invalid")["detail"], c.says)
		})
	}
	require.Empty(t, f.changes)
}

func TestAPlanIsSentBackAsItCame(t *testing.T) {
	space := aSpace()
	f := &fakeKeys{plan: api.RangePlan{
		MadeAt: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), Fingerprint: "f1", Before: space.Supplies(), After: space.Supplies()[:1],
		Steps: []api.RangeStep{{Action: keys.MoveRange, Range: 2, Region: "eu-west-1", At: 250}, {Action: keys.MoveRange, Range: 3, Region: "eu-west-1", Remainder: true}},
	}}
	a := startWithKeys(t, f)
	res := a.do(call{path: "/api/admin/ranges/plan", key: operatorKey})
	require.JSONEq(t, `{"made_at": "2031-05-06T07:08:09Z", "fingerprint": "f1",
		"steps": [{"action": "move", "range": 2, "region": "eu-west-1", "at": 250},
			{"action": "move", "range": 3, "region": "eu-west-1", "remainder": true}],
		"before": `+supplies+`, "after": [{"region": "eu-west-1", "unissued": 720, "rate_per_minute": 7.2, "minutes_left": 100}], "reason": ""}`, res.text)
	body := `{"steps": [{"action": "move", "range": 2, "region": "eu-west-1", "at": 250},
			{"action": "move", "range": 3, "region": "eu-west-1", "remainder": true}], "fingerprint": "f1"}`
	require.Equal(t, 200, a.do(call{method: http.MethodPost, path: "/api/admin/ranges/changes", key: operatorKey, body: body}).StatusCode)
	require.Equal(t, []api.RangeChange{{Steps: f.plan.Steps, Fingerprint: "f1"}}, f.changes)

	f.err = waypost.Errorf(waypost.EConflict, "the ranges have changed since the plan was made")
	stale := a.do(call{method: http.MethodPost, path: "/api/admin/ranges/changes", key: operatorKey, body: body})
	require.Contains(t, requireProblem(t, stale, 409, "conflict")["detail"], "changed since")

	f.err, f.plan = nil, api.RangePlan{Steps: []api.RangeStep{}, Reason: "all regions last equally long"}
	idle := object(t, a.do(call{path: "/api/admin/ranges/plan", key: operatorKey}).text)
	require.Equal(t, []any{}, idle["steps"])
	require.Equal(t, "all regions last equally long", idle["reason"])
}

func TestACodeIsTakenApart(t *testing.T) {
	space := aSpace()
	held := space.Ranges[0]
	lease := held.Leases[0]
	f := &fakeKeys{found: api.DecodedKey{
		Code: "4gAbCdE", Prefix: "4g", Counter: 295, State: keys.CounterIssued, Issued: true,
		Region: &held.Region, Range: &held.RangeBounds, Lease: &lease,
	}}
	a := startWithKeys(t, f)
	require.JSONEq(t, `{"code": "4gAbCdE", "prefix": "4g", "counter": 295, "state": "issued", "issued": true, "region": "eu-west-1",
		"range": {"id": 1, "prefix": "4g", "lo": 0, "hi": 1000, "next": 300, "region": "eu-west-1", "state": "live",
			"generation": 2, "returned": 20, `+createdAt+`},
		"lease": {"node": "control-1", "lo": 290, "hi": 300, "generation": 2}}`, a.do(call{path: "/api/admin/ranges/decode/4gAbCdE", key: operatorKey}).text)

	f.found = api.DecodedKey{Code: "zzAbCdE", Prefix: "zz", Counter: 7, State: keys.CounterUnassigned}
	require.JSONEq(t, `{"code": "zzAbCdE", "prefix": "zz", "counter": 7, "state": "unassigned", "issued": false, "region": null, "range": null, "lease": null}`,
		a.do(call{path: "/api/admin/ranges/decode/zzAbCdE", key: operatorKey}).text)
	requireProblem(t, a.do(call{path: "/api/admin/ranges/decode/spring-sale", key: operatorKey}), 422, "invalid")
}

func TestTheAuditLogIsReadAPageAtATime(t *testing.T) {
	at := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	a := startWithKeys(t, &fakeKeys{audit: []api.AuditEntry{
		{
			ID: 8, At: at, Actor: "ops (6)", Action: "ranges.move", Subject: "range 7", Workspace: "default",
			Detail: []byte(`{"region": "eu-west-1"}`),
		},
		{ID: 7, At: at, Actor: "ops (6)", Action: "ranges.drain", Subject: "range 7"},
	}})
	first := a.do(call{path: "/api/admin/audit?limit=1", key: operatorKey})
	require.JSONEq(t, `{"entries": [{"id": 8, "at": "2031-05-06T07:08:09Z", "actor": "ops (6)", "action": "ranges.move", "subject": "range 7",
		"detail": {"region": "eu-west-1"}, "workspace": "default"}], "next_cursor": "after-1"}`, first.text)
	second := a.do(call{path: "/api/admin/audit?limit=1&cursor=after-1", key: operatorKey})
	require.JSONEq(t, `{"entries": [{"id": 7, "at": "2031-05-06T07:08:09Z", "actor": "ops (6)", "action": "ranges.drain", "subject": "range 7",
		"detail": null, "workspace": ""}], "next_cursor": ""}`, second.text)
	requireProblem(t, a.do(call{path: "/api/admin/audit?cursor=x", key: operatorKey}), 400, "malformed")
	requireProblem(t, a.do(call{path: "/api/admin/audit?limit=1001", key: operatorKey}), 422, "invalid")
	require.Equal(t, 200, a.do(call{path: "/api/admin/audit", key: strangerKey}).StatusCode, "the service shows every workspace its own")
}

func TestRangesAreForTheInstallationsOperators(t *testing.T) {
	a := startWithKeys(t, &fakeKeys{space: aSpace()})
	change := `{"steps": [{"action": "drain", "range": 1}]}`
	for _, c := range []call{
		{path: "/api/admin/ranges"},
		{path: "/api/admin/ranges/1"},
		{path: "/api/admin/ranges/plan"},
		{path: "/api/admin/ranges/decode/4gAbCdE"},
		{method: http.MethodPost, path: "/api/admin/ranges/changes", body: change},
	} {
		for key, want := range map[string]int{operatorKey: 200, strangerKey: 403, fullKey: 403, "none": 401} {
			c.key = key
			require.Equal(t, want, a.do(c).StatusCode, "%s %s", c.path, key)
		}
	}
}
