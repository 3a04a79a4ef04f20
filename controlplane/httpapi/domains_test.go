package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

// domains is a Domains with one domain, which leads where it was told to.
type domains struct {
	targets waypost.DomainTargets
	down    error
	hosts   []string // that the root was asked for
	last    api.DomainChange
}

// certificates has those of two hosts, of which one may be no domain of the workspace.
type certificates struct{}

func (certificates) Of(host string) api.DomainCertificate {
	if host == "go.example" || host == "theirs.example" {
		return api.DomainCertificate{State: controlplane.CertificateFailed, Until: new(time.Unix(1_800_000_000, 0).UTC()), Error: "refused"}
	}
	return api.DomainCertificate{State: controlplane.CertificateNone}
}

var proof = controlplane.OwnedDomain{State: controlplane.DomainPending, Proof: "waypost-1234"}

func (d *domains) Domains(context.Context, controlplane.Actor) ([]controlplane.OwnedDomain, error) {
	return []controlplane.OwnedDomain{
		{Domain: waypost.Domain{ID: 1, Host: "wp.example", DomainTargets: d.targets}, State: controlplane.DomainApproved},
		{Domain: waypost.Domain{ID: 7, Workspace: 1, Host: "go.example"}, State: controlplane.DomainApproved},
	}, d.down
}

func (d *domains) EveryDomain(_ context.Context, actor controlplane.Actor) ([]controlplane.OwnedDomain, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	theirs := proof
	theirs.Domain = waypost.Domain{ID: 9, Workspace: 4, Host: "theirs.example"}
	return []controlplane.OwnedDomain{theirs}, d.down
}

func (d *domains) Verify(_ context.Context, _ controlplane.Actor, id waypost.DomainID) (controlplane.OwnedDomain,
	waypost.Position, error,
) {
	if id != 8 {
		return controlplane.OwnedDomain{}, waypost.Position{}, waypost.Errorf(waypost.EInvalid, "the record is missing")
	}
	proved := proof
	proved.ID, proved.Workspace, proved.Host, proved.State = 8, 1, "own.example", controlplane.DomainProved
	proved.CheckedAt = time.Unix(1_800_000_000, 0)
	return proved, waypost.Position{Seq: 9}, nil
}

func (d *domains) Approve(_ context.Context, actor controlplane.Actor, id waypost.DomainID) (controlplane.OwnedDomain,
	waypost.Position, error,
) {
	return controlplane.OwnedDomain{Domain: waypost.Domain{ID: id, Workspace: 4, Host: "theirs.example"}, State: controlplane.DomainApproved},
		waypost.Position{Seq: 9}, actor.CheckOperator()
}

func (d *domains) ChangeDomain(_ context.Context, actor controlplane.Actor, id waypost.DomainID,
	c api.DomainChange,
) (controlplane.OwnedDomain, waypost.Position, error) {
	d.last = c
	switch {
	case id != 1:
		return controlplane.OwnedDomain{}, waypost.Position{}, waypost.Errorf(waypost.ENotFound, "there is no such domain")
	case actor.Workspace != 1:
		return controlplane.OwnedDomain{}, waypost.Position{}, waypost.Errorf(waypost.EForbidden, "not yours")
	}
	if c.RootURL != nil {
		d.targets.Root = []byte(*c.RootURL)
	}
	if c.NotFoundURL != nil {
		d.targets.NotFound = []byte(*c.NotFoundURL)
	}
	if c.MaintenanceURL != nil {
		d.targets.Maintenance = []byte(*c.MaintenanceURL)
	}
	return controlplane.OwnedDomain{
		Domain: waypost.Domain{ID: 1, Host: "wp.example", DomainTargets: d.targets}, State: controlplane.DomainApproved,
	}, waypost.Position{Seq: 9}, nil
}

func (d *domains) AddDomain(_ context.Context, actor controlplane.Actor, n api.NewDomain) (controlplane.OwnedDomain,
	waypost.Position, error,
) {
	switch n.Host {
	case "taken.example":
		return controlplane.OwnedDomain{}, waypost.Position{}, waypost.Errorf(waypost.EConflict, "the host is in use")
	case "com":
		return controlplane.OwnedDomain{}, waypost.Position{}, waypost.Errorf(waypost.EInvalid, "no domain")
	}
	pending := proof
	pending.Domain = waypost.Domain{
		ID: 8, Workspace: actor.Workspace, Host: n.Host,
		DomainTargets: waypost.DomainTargets{Root: []byte(n.RootURL)},
	}
	return pending, waypost.Position{Seq: 9}, nil
}

func (d *domains) RemoveDomain(_ context.Context, actor controlplane.Actor, id waypost.DomainID, force bool) (waypost.Position, error) {
	switch {
	case id == 1:
		return waypost.Position{}, waypost.Errorf(waypost.EForbidden, "not this one")
	case id != 7:
		return waypost.Position{}, waypost.Errorf(waypost.ENotFound, "there is no such domain")
	case !force:
		return waypost.Position{}, waypost.Errorf(waypost.EConflict, "it has links")
	}
	return waypost.Position{Seq: 9}, nil
}

func (d *domains) RemoveAnyDomain(_ context.Context, actor controlplane.Actor, id waypost.DomainID, _ bool) (waypost.Position, error) {
	if err := actor.CheckOperator(); err != nil {
		return waypost.Position{}, err
	}
	return waypost.Position{Seq: uint64(id)}, nil
}

func (d *domains) Root(_ context.Context, host string) (waypost.Resolution, bool, error) {
	d.hosts = append(d.hosts, host)
	res, ok := d.targets.AtRoot()
	return res, ok && waypost.HostName(host) == "wp.example", d.down
}

func startDomains(t *testing.T) (*testAPI, *domains) {
	t.Helper()
	d := &domains{}
	return start(t, func(_ *links, c *httpapi.Config) { c.Domains = d }), d
}

func TestADomainIsChangedFieldByField(t *testing.T) {
	a, d := startDomains(t)
	patch := func(body string) answer {
		return a.do(call{method: http.MethodPatch, path: "/api/v1/domains/1", key: operatorKey, body: body})
	}
	res := patch(`{"root_url": "https://example.com/?a=b&c"}`)
	require.Equal(t, 200, res.StatusCode, res.text)
	require.JSONEq(t, `{"id": 1, "host": "wp.example", "shared": true, "state": "approved", "certificate": {"state": "none", "until": null, "error": ""}, "root_url": "https://example.com/?a=b&c", "not_found_url": "", "maintenance_url": "", "exact_paths": false, "case": "sensitive"}`, res.text)
	require.Contains(t, res.text, "a=b&c", "URLs stay readable")
	require.Equal(t, "0-00000000000000000000000000000000-9-0000000000000000", res.Header.Get("Waypost-Position"))
	require.Nil(t, d.last.NotFoundURL)

	patch(`{"root_url": null, "not_found_url": "https://example.com/404"}`)
	require.Nil(t, d.last.RootURL, "null is as good as leaving a field out")
	require.Nil(t, d.last.MaintenanceURL)
	patch(`{"root_url": "", "maintenance_url": "https://example.com/soon"}`)
	require.Empty(t, *d.last.RootURL)
	require.JSONEq(t, `{"domains": [
		{"id": 1, "host": "wp.example", "shared": true, "state": "approved", "certificate": {"state": "none", "until": null, "error": ""},
			"root_url": "", "not_found_url": "https://example.com/404", "maintenance_url": "https://example.com/soon", "exact_paths": false,
			"case": "sensitive"},
		{"id": 7, "host": "go.example", "shared": false, "state": "approved",
			"certificate": {"state": "failed", "until": "2027-01-15T08:00:00Z", "error": "refused"},
			"root_url": "", "not_found_url": "", "maintenance_url": "", "exact_paths": false, "case": "sensitive"}
	]}`, a.do(call{path: "/api/v1/domains", key: operatorKey}).text)
}

func TestDomainsNeedTheScopeAdminAndAFieldThatIsKnown(t *testing.T) {
	a, _ := startDomains(t)
	for _, key := range []string{fullKey, readKey, statsKey} {
		requireProblem(t, a.do(call{path: "/api/admin/domains", key: key}), 403, "forbidden")
		requireProblem(t, a.do(call{method: http.MethodPatch, path: "/api/v1/domains/1", key: key, body: "{}"}), 403, "forbidden")
	}
	for body, status := range map[string]int{
		`{"host": "x"}`: 422, `{"root_url": 7}`: 422, `{"Root_url": "x"}`: 422,
		`[]`: 422, `{`: 400, ``: 400,
	} {
		res := a.do(call{method: http.MethodPatch, path: "/api/v1/domains/1", key: operatorKey, body: body})
		require.Equal(t, status, res.StatusCode, body)
	}
	for _, id := range []string{"0", "-1", "x", "4294967297", "1.5"} {
		res := a.do(call{method: http.MethodPatch, path: "/api/v1/domains/" + id, key: operatorKey, body: `{"root_url": ""}`})
		require.Equal(t, 422, res.StatusCode, id)
	}
	requireProblem(t, a.do(call{
		method: http.MethodPatch, path: "/api/v1/domains/2", key: operatorKey,
		body: `{"root_url": ""}`,
	}), 404, "not-found")
	requireProblem(t, a.do(call{
		method: http.MethodPatch, path: "/api/v1/domains/1", key: strangerKey,
		body: `{"root_url": ""}`,
	}), 403, "forbidden")
}

func TestTheRootOfADomainLeadsWhereItWasTold(t *testing.T) {
	a, d := startDomains(t)
	require.Equal(t, 200, a.do(call{path: "/", host: "wp.example"}).StatusCode)
	d.targets.Root = []byte("https://example.com/?a=b")
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		res := a.do(call{method: method, path: "/?q=1", host: "wp.example:443"})
		require.Equal(t, 302, res.StatusCode)
		require.Equal(t, "https://example.com/?a=b", res.Header.Get("Location"))
		require.Equal(t, []string{"private, no-store"}, res.Header.Values("Cache-Control"))
	}
	require.Equal(t, 200, a.do(call{path: "/", host: "127.0.0.1:8080"}).StatusCode, "a host that is no domain's asks for the API")
	require.Equal(t, 405, a.do(call{method: http.MethodPost, path: "/", host: "wp.example", body: "{}"}).StatusCode)
	d.down = waypost.WrapError(waypost.EUnavailable, "the database is away", errors.New("refused"))
	res := a.do(call{path: "/", host: "wp.example"})
	require.Equal(t, 200, res.StatusCode, "without a database the service is there all the same")
	require.JSONEq(t, `{"service": "waypost", "version": "1.2.3"}`, res.text)
}

func TestDomainsAreAddedAndRemoved(t *testing.T) {
	a, _ := startDomains(t)
	ask := func(method, path, body string) answer {
		return a.do(call{method: method, path: path, key: operatorKey, body: body})
	}
	res := ask(http.MethodPost, "/api/v1/domains", `{"host": "own.example", "root_url": "https://example.com/"}`)
	require.Equal(t, 201, res.StatusCode, res.text)
	require.NotEmpty(t, res.Header.Get("Waypost-Position"))
	require.Equal(t, map[string]any{
		"id": 8.0, "host": "own.example", "shared": false, "state": "pending",
		"certificate": map[string]any{"state": "none", "until": nil, "error": ""}, // the host may be another workspace's
		"proof":       map[string]any{"record_name": "_waypost.own.example", "record_value": "waypost-1234"},
		"root_url":    "https://example.com/", "not_found_url": "", "maintenance_url": "", "exact_paths": false, "case": "sensitive",
	}, object(t, res.text))
	requireProblem(t, ask(http.MethodPost, "/api/v1/domains", `{"host": "taken.example"}`), 409, "conflict")
	requireProblem(t, ask(http.MethodPost, "/api/v1/domains", `{"host": ""}`), 422, "invalid")
	requireProblem(t, ask(http.MethodDelete, "/api/v1/domains/7", ""), 409, "conflict")
	requireProblem(t, ask(http.MethodDelete, "/api/v1/domains/9", ""), 404, "not-found")
	require.Equal(t, 204, ask(http.MethodDelete, "/api/v1/domains/7?force=true", "").StatusCode)
	require.Equal(t, 200, a.get("/api/v1/domains").StatusCode, "whoever may read links may see under which domains they are")
	requireProblem(t, a.post("/api/v1/domains", `{"host": "own.example"}`), 403, "forbidden")
	require.Equal(t, 200, ask(http.MethodPatch, "/api/v1/domains/1", `{"root_url": ""}`).StatusCode)
}

func TestDomainsAPI_ProvesAndApproves(t *testing.T) {
	a, _ := startDomains(t)
	ask := func(key, method, path string) answer { return a.do(call{method: method, path: path, key: key}) }
	requireProblem(t, ask(operatorKey, http.MethodPost, "/api/v1/domains/7/verify"), 422, "invalid")
	res := ask(operatorKey, http.MethodPost, "/api/v1/domains/8/verify")
	require.Equal(t, 200, res.StatusCode, res.text)
	require.NotEmpty(t, res.Header.Get("Waypost-Position"))
	require.JSONEq(t, `{"id": 8, "host": "own.example", "shared": false, "state": "proved",
		"certificate": {"state": "none", "until": null, "error": ""}, 
		"root_url": "", "not_found_url": "", "maintenance_url": "", "exact_paths": false, "case": "sensitive",
		"proof": {"record_name": "_waypost.own.example", "record_value": "waypost-1234", "checked_at": "2027-01-15T08:00:00Z"}}`, res.text)

	res = ask(operatorKey, http.MethodGet, "/api/admin/domains")
	require.Equal(t, 200, res.StatusCode, res.text)
	require.Contains(t, res.text, `"workspace_id":4`)
	require.Equal(t, 200, ask(operatorKey, http.MethodPost, "/api/admin/domains/9/approve").StatusCode)
	require.Equal(t, 204, ask(operatorKey, http.MethodDelete, "/api/admin/domains/9").StatusCode)
	for _, r := range []struct{ method, path string }{
		{http.MethodGet, "/api/admin/domains"}, {http.MethodPost, "/api/admin/domains/9/approve"}, {http.MethodDelete, "/api/admin/domains/9"},
	} {
		requireProblem(t, ask(strangerKey, r.method, r.path), 403, "forbidden")
	}
}
