package httpapi_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/api/clickbatch"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
	"waypost/replication"
)

// edgeNodes knows the credentials of two edges, the second's revoked.
type edgeNodes struct{ asked int }

const (
	goodEdge    = "wp_edge_00000000000000000000000000100000p1"
	sharedToken = "the token that all edges have"
)

func (n *edgeNodes) Authenticate(_ context.Context, credential string) (fleet.Node, error) {
	n.asked++
	switch credential {
	case goodEdge:
		return fleet.Node{Credential: 1, Name: "eu-1", Region: "eu", Role: fleet.RoleEdge, Former: []string{"eu-0"}}, nil
	case "revoked":
		return fleet.Node{}, waypost.Errorf(waypost.EForbidden, "it was revoked")
	case "away":
		return fleet.Node{}, waypost.Errorf(waypost.EUnavailable, "the database is away")
	}
	return fleet.Node{}, waypost.Errorf(waypost.EUnauthorized, "a valid credential of an edge is required")
}

func (n *edgeNodes) Enrol(_ context.Context, e *api.Enrol) (fleet.Node, error) {
	if e.Token != "good" || e.Hash != strings.Repeat("0", 63)+"1" {
		return fleet.Node{}, waypost.Errorf(waypost.EUnauthorized, "the enrolment token is not valid")
	}
	return fleet.Node{Name: e.Node, Region: waypost.Region(e.Region), Role: fleet.RoleEdge}, nil
}

func (*edgeNodes) Hold(ctx context.Context, _ *fleet.Node) (context.Context, func()) {
	return ctx, func() {}
}

func (*edgeNodes) MayReport(_ context.Context, node *fleet.Node, name string, _ waypost.Region) error {
	if node.Name != name {
		return waypost.Errorf(waypost.EForbidden, "this is a report of node %s", name)
	}
	return nil
}

func (*edgeNodes) MayShip(_ context.Context, node *fleet.Node, name string) error {
	if node.Name != name {
		return waypost.Errorf(waypost.EForbidden, "these are clicks of node %s", name)
	}
	return nil
}

func (*edgeNodes) NewEnrolment(_ context.Context, actor controlplane.Actor, e api.NewEnrolment) (api.Enrolment, error) {
	if e.Region == "full" {
		return api.Enrolment{}, waypost.Errorf(waypost.EConflict, "too many are open")
	}
	return api.Enrolment{
		Token: "wp_enrl_x", Region: e.Region, Role: "edge",
		Node: e.Node, ExpiresAt: time.Now(),
	}, actor.CheckOperator()
}

func (*edgeNodes) Revoke(_ context.Context, actor controlplane.Actor, node string) error {
	if err := actor.CheckOperator(); err != nil {
		return err
	}
	if node != "eu-1" {
		return waypost.Errorf(waypost.ENotFound, "no edge of that name has a credential")
	}
	return nil
}

func (*edgeNodes) Credentials(_ context.Context, actor controlplane.Actor) ([]api.NodeCredential, error) {
	return []api.NodeCredential{
		{Node: "eu-1", Region: "eu", Role: "edge", State: "good", CreatedAt: time.Now(), LastSeenAt: new(time.Now())},
		{Node: "edge-b", Region: "eu", Role: "relay", State: "revoked", CreatedAt: time.Now(), RevokedAt: new(time.Now())},
	}, actor.CheckOperator()
}

// send lets a request through a gate to next.
func send(t *testing.T, g *httpapi.EdgeGate, next http.Handler, credential string, change ...func(*http.Request)) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+credential)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	g.Only(next).ServeHTTP(w, r)
	return answer{w.Result(), w.Body.String()}
}

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Header.Get(replication.HeaderNode)+" "+r.Header.Get(replication.HeaderRegion))
})

func TestAnEdgeIsWhoItsCredentialSaysAndNotWhatItsHeadersSay(t *testing.T) {
	g := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{Nodes: &edgeNodes{}, SharedToken: sharedToken})
	claims := func(r *http.Request) {
		r.Header.Set(replication.HeaderNode, "eu-9")
		r.Header.Set(replication.HeaderRegion, "us")
	}
	require.Equal(t, "eu-1 eu", send(t, g, echo, goodEdge, claims).text)
	require.Equal(t, "eu-9 us", send(t, g, echo, sharedToken, claims).text, "which says nothing of who it is")
	requireProblem(t, send(t, g, echo, "revoked"), 403, "forbidden")
	requireProblem(t, send(t, g, echo, "away"), 503, "unavailable")
	res := send(t, g, echo, "guess")
	requireProblem(t, res, 401, "unauthorized")
	require.Equal(t, `Bearer realm="waypost replication"`, res.Header.Get("WWW-Authenticate"))

	alone := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{Nodes: &edgeNodes{}})
	requireProblem(t, send(t, alone, echo, sharedToken), 401, "unauthorized")
	requireProblem(t, send(t, alone, echo, ""), 401, "unauthorized")
	requireProblem(t, send(t, alone, echo, "", func(r *http.Request) { r.Header.Del("Authorization") }), 401, "unauthorized")
}

func TestGuessesAtCredentialsAndTokensAreLimited(t *testing.T) {
	nodes := &edgeNodes{}
	var log strings.Builder
	g := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{
		Nodes: nodes, Guesses: limit.NewGuesses(5, frozen), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.Equal(t, 200, send(t, g, echo, goodEdge).StatusCode)
	for range 50 {
		requireProblem(t, send(t, g, echo, "revoked"), 403, "forbidden") // that is no guess
	}
	require.Equal(t, 1, strings.Count(log.String(), "refused an edge"), "once a minute")
	for range 3 {
		requireProblem(t, send(t, g, echo, "guess"), 401, "unauthorized")
	}
	for range 2 {
		requireProblem(t, enrol(t, g, nil, map[string]any{
			"token": "guess", "credential_sha256": strings.Repeat("0", 64),
			"node": "a", "region": "eu",
		}), 401, "unauthorized")
	}
	before := nodes.asked
	requireProblem(t, send(t, g, echo, "another guess"), 429, "rate-limited")
	requireProblem(t, enrol(t, g, nil, map[string]any{"token": "good", "credential_sha256": strings.Repeat("0",
		63) + "1", "node": "a", "region": "eu"}), 429, "rate-limited")
	require.Equal(t, before, nodes.asked)
	require.Equal(t, 200, send(t, g, echo, goodEdge).StatusCode, "who was good is let in")
}

// slowNodes takes its time for a credential, and knows how many it is asked about at
// once.
type slowNodes struct {
	edgeNodes
	mu            sync.Mutex
	now, most, in int
	gate          chan struct{} // closed: everybody is answered
	good          string
}

func (n *slowNodes) Authenticate(ctx context.Context, credential string) (fleet.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now++
	n.in++
	n.most = max(n.most, n.now)
	n.mu.Unlock()
	<-n.gate
	n.mu.Lock()
	n.now--
	if credential == n.good {
		credential = goodEdge
	}
	return n.edgeNodes.Authenticate(ctx, credential)
}

func (n *slowNodes) asking() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.in
}

func TestAnEdgeIsLetInWhateverOthersAtItsAddressHaveTried(t *testing.T) {
	newCredential := func() string {
		c := fleet.NewNodeCredential()
		return c
	}
	nodes := &slowNodes{gate: make(chan struct{}), good: newCredential()}
	g := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{Nodes: nodes, SharedToken: sharedToken, Guesses: limit.NewGuesses(1,
		frozen), Patience: time.Minute})
	done := make(chan int, 20)
	ask := func(credential string) {
		go func() {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header.Set("Authorization", "Bearer "+credential)
			w := httptest.NewRecorder()
			g.Only(echo).ServeHTTP(w, r)
			done <- w.Code
		}()
	}
	ask("a wrong token")
	require.Eventually(t, func() bool { return nodes.asking() == 1 }, time.Minute, time.Millisecond)
	nodes.gate <- struct{}{}
	require.Equal(t, 401, <-done)

	// Now the address is over its limit.
	for range 10 {
		ask(newCredential())
	}
	ask(nodes.good)
	require.Eventually(t, func() bool { return nodes.asking() == 3 }, time.Minute, time.Millisecond)
	requireProblem(t, send(t, g, echo, "another wrong token"), 429, "rate-limited")
	require.Equal(t, 200, send(t, g, echo, sharedToken).StatusCode)
	close(nodes.gate)
	codes := map[int]int{}
	for range 11 {
		codes[<-done]++
	}
	require.Equal(t, map[int]int{429: 10, 200: 1}, codes)
	require.Equal(t, 2, nodes.most, "and the database is not flooded")
}

func enrol(t *testing.T, g *httpapi.EdgeGate, state *tls.ConnectionState, body map[string]any) answer {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, replication.PathEnrol, bytes.NewReader(text))
	r.TLS = state
	w := httptest.NewRecorder()
	g.Enrol(w, r)
	return answer{w.Result(), w.Body.String()}
}

func TestATokenIsExchangedOverHTTP(t *testing.T) {
	g := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{Nodes: &edgeNodes{}})
	good := func() map[string]any {
		return map[string]any{
			"token": "good", "credential_sha256": strings.Repeat("0", 62) + "01", "node": "eu-1",
			"region": "eu", "of_a_later_version": true,
		}
	}
	res := enrol(t, g, nil, good())
	require.Equal(t, 200, res.StatusCode, res.text)
	require.JSONEq(t, `{"node": "eu-1", "region": "eu", "role": "edge"}`, res.text)
	for name, value := range map[string]any{"token": "bad", "credential_sha256": "01", "node": 7} {
		body := good()
		body[name] = value
		require.Equal(t, 4, enrol(t, g, nil, body).StatusCode/100, name)
	}
	w := httptest.NewRecorder()
	g.Enrol(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, replication.PathEnrol, http.NoBody))
	require.Equal(t, 405, w.Code)
	w = httptest.NewRecorder()
	g.Enrol(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, replication.PathEnrol,
		strings.NewReader(strings.Repeat(" ", 5<<10))))
	require.Equal(t, 413, w.Code)
}

// shown is the connection of a client that has shown a certificate.
func shown(name string, uris ...string) *tls.ConnectionState {
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
	for _, text := range uris {
		u, _ := url.Parse(text)
		leaf.URIs = append(leaf.URIs, u)
	}
	return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
}

func TestAClientCertificateMustBeThatOfTheNode(t *testing.T) {
	g := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{Nodes: &edgeNodes{}, SharedToken: sharedToken, Certificates: true})
	over := func(state *tls.ConnectionState) func(*http.Request) { return func(r *http.Request) { r.TLS = state } }
	require.Equal(t, "eu-1 eu", send(t, g, echo, goodEdge, over(shown("eu-1"))).text)
	require.Equal(t, "eu-1 eu", send(t, g, echo, goodEdge, over(shown("x", "https://node/eu-2", "waypost://node/eu-1"))).text)
	require.Equal(t, "eu-9 ", send(t, g, echo, sharedToken, over(shown("eu-9"))).text, "then the certificate says who it is")
	for name, state := range map[string]*tls.ConnectionState{
		"no TLS": nil, "no certificate": {}, "another node's": shown("eu-2"),
		"a name beside that of the node": shown("eu-1", "waypost://node/eu-2"), "no node's": shown("Eve & Co"),
	} {
		res := send(t, g, echo, goodEdge, over(state))
		requireProblem(t, res, 403, "forbidden")
		require.NotEmpty(t, name)
	}
	body := map[string]any{"token": "good", "credential_sha256": strings.Repeat("0", 62) + "01", "node": "eu-1", "region": "eu"}
	require.Equal(t, 200, enrol(t, g, shown("eu-1"), body).StatusCode)
	requireProblem(t, enrol(t, g, shown("eu-2"), body), 403, "forbidden")
	requireProblem(t, enrol(t, g, nil, body), 403, "forbidden")
}

func TestAReportOrABatchOfAnotherNodeIsRefused(t *testing.T) {
	g := httpapi.NewEdgeGate(httpapi.EdgeGateConfig{Nodes: &edgeNodes{}})
	taken := &reports{}
	report := func(node string) answer {
		body := goodReport()
		body["node"] = node
		text, err := json.Marshal(body)
		require.NoError(t, err)
		return send(t, g, httpapi.EdgeReports(taken, noOrders{}, nil, discard), goodEdge, func(r *http.Request) {
			r.Method, r.Body = http.MethodPost, io.NopCloser(bytes.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
		})
	}
	require.Equal(t, 204, report("eu-1").StatusCode)
	require.Equal(t, fleet.CredentialOwn, taken.got[0].Credential)
	requireProblem(t, report("eu-2"), 403, "forbidden")
	require.Len(t, taken.got, 1)

	certificates := func(node string) answer {
		return send(t, g, httpapi.EdgeCertificates(controlplane.NewCertificates(nil), discard), goodEdge, func(r *http.Request) {
			r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(`{"node": "`+node+`"}`))
			r.Header.Set("Content-Type", "application/json")
		})
	}
	accounts := &granter{}
	budgets := func(node string) answer {
		return send(t, g, httpapi.EdgeBudgets(accounts, discard, nil), goodEdge, func(r *http.Request) {
			r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(`{"node": "`+node+`", "former": ["eu-2"]}`))
			r.Header.Set("Content-Type", "application/json")
		})
	}
	requireProblem(t, budgets("eu-2"), 403, "forbidden")
	require.Nil(t, accounts.last)
	budgets("eu-1") // the granter answers an account that is not there
	require.Equal(t, []string{"eu-0"}, accounts.last.Former, "as the credential says")

	require.Equal(t, 204, certificates("eu-1").StatusCode)
	requireProblem(t, certificates("eu-2"), 403, "forbidden")

	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	packed := z.EncodeAll(clickbatch.Append(nil, &waypost.ClickBatch{Node: "eu-2", Boot: waypost.BootID{1}, Seq: 1}), nil)
	res := send(t, g, httpapi.Ingest(nil, nil, nil), goodEdge, func(r *http.Request) {
		r.Method, r.Body = http.MethodPost, io.NopCloser(bytes.NewReader(packed))
		r.Header.Set("Content-Type", "application/vnd.waypost.clicks")
		r.Header.Set("Content-Encoding", "zstd")
	})
	requireProblem(t, res, 403, "forbidden")
}

func TestEdgesWhoseCredentialIsRevokedAreShownSo(t *testing.T) {
	f := fixedFleet{{
		EdgeState: api.EdgeState{Node: "edge-b", Role: "edge"}, State: fleet.EdgeAlive, Via: fleet.ViaReport,
		Credential: new(fleet.CredentialOwn),
	}}
	a := start(t, func(_ *links, c *httpapi.Config) { c.Fleet, c.Nodes, c.Anonymous = f, &edgeNodes{}, operator })
	require.Contains(t, a.do(call{path: "/api/admin/edges", key: "none"}).text, `"credential":"revoked"`)
}
