package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// doctor runs `waypost doctor` against an API that answers by path.
func doctor(t *testing.T, output string, answers map[string]string, args ...string) (string, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = `{"title": "Unavailable", "status": 503, "detail": "PostgreSQL does not answer"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	var out bytes.Buffer
	p := &program{
		stdout: &out, stderr: io.Discard, output: output, environ: []string{"WAYPOST_API=" + server.URL, "WAYPOST_API_KEY=wp_live_key"},
	}
	c := doctorCommands{p}.command()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// fleetAnswers answers with edges, and with a control plane unless others are given.
func fleetAnswers(edges string, controls ...string) map[string]string {
	if len(controls) == 0 {
		controls = []string{`{"node": "control-1", "state": "alive", "answers": true, "started_at": "2031-01-01T00:00:00Z", "last_seen": "2031-01-01T01:00:00Z"}`}
	}
	return map[string]string{
		"/api/admin/edges":  `{"edges": [` + edges + `], "control_planes": [` + strings.Join(controls, ",") + `]}`,
		"/api/admin/digest": `{"control_plane": "control-1", "error": null}`,
	}
}

const aliveEdge = `{"node": "eu-1", "state": "alive", "via": "report"}`

// with adds fields to an object.
func with(object, fields string) string { return strings.TrimSuffix(object, "}") + ", " + fields + "}" }

// conditionOf is a condition that is true.
func conditionOf(name, of, what string) string {
	return `"conditions": [{"name": "` + name + `", "severity": "critical", "of": "` + of + `", "since": "2021-01-01T00:00:00Z",
		"what": "` + what + `", "do": "Look.", "page": "docs/operations/alerts/` + name + `.md"}]`
}

func TestDoctor_RepeatsTheConditionsOfAllNodes(t *testing.T) {
	text, err := doctor(t, "text", fleetAnswers(aliveEdge))
	require.NoError(t, err)
	require.Contains(t, text, "fine      1 of 1 edge and 1 of 1 control plane report nothing wrong")
	require.Contains(t, text, "unseen    no admin listener was asked")
	text, err = doctor(t, "json", fleetAnswers(aliveEdge))
	require.NoError(t, err)
	require.Contains(t, text, `"findings": []`)

	text, err = doctor(t, "text", fleetAnswers(aliveEdge+`, {"node": "eu-2", "state": "gone", "left": true}, {"node": "eu-3", "state": "alive", "via": "gossip"}`))
	require.NoError(t, err)
	require.Contains(t, text, "fine      eu-2 is off")
	require.Contains(t, text, "fine      1 of 1 edge and ", "an edge that is gone has not everything")
	require.Contains(t, text, "unseen    eu-3 does not report to this control plane")

	const control = `{"node": "control-1", "state": "alive", "answers": true, "started_at": "2031-01-01T00:00:00Z", "last_seen": "2031-01-01T01:00:00Z"}`
	other := strings.NewReplacer("control-1", "control-2", `"answers": true`, `"answers": false`).Replace(control)
	for _, c := range []struct{ name, edges, controls, says string }{
		{"edge", with(aliveEdge, conditionOf("ClicksWait", "", "has clicks")), control, "CRITICAL  eu-1: has clicks (for "},
		{"silent", `{"node": "eu-1", "state": "silent", ` + conditionOf("EdgeDown", "", "cannot be reached") + `}`, control, "CRITICAL  eu-1: cannot be reached"},
		{"control plane", aliveEdge, with(control, conditionOf("ClockWrong", "", "has a clock")), "CRITICAL  control-1: has a clock"},
		{"region", aliveEdge, with(control, conditionOf("KGSPoolLow", "eu-west-1", "has few keys")), "CRITICAL  eu-west-1: has few keys"},
		{
			"cluster", aliveEdge, with(control, conditionOf("DigestDiffers", "", "has rows")) + "," + with(other, conditionOf("DigestDiffers", "", "has rows")),
			"CRITICAL  cluster: has rows",
		},
		{
			"lost", aliveEdge, control + `,{"node": "control-2", "state": "silent", ` + conditionOf("ControlPlaneDown", "", "cannot be reached") + `}`,
			"CRITICAL  control-2: cannot be reached",
		},
		{"of a newer version", with(aliveEdge, conditionOf("Unheard", "", "has it")), control, "CRITICAL  eu-1: has it"},
		{"hostile", with(aliveEdge, conditionOf("ClicksWait", "", `has \u001b[31m`)), control, "CRITICAL  eu-1: has "},
		{"none", ``, control, "CRITICAL  fleet: no edge has reported"},
	} {
		text, err := doctor(t, "text", fleetAnswers(c.edges, c.controls))
		require.Error(t, err, c.name)
		require.Equal(t, 1, strings.Count(text, c.says), "%s: %s", c.name, text)
		require.NotContains(t, text, "\x1b", c.name)
		require.Regexp(t, `(?m)^          docs/operations/\S+\.md$`, text, c.name)
	}
}

func TestDoctor_SaysThatRowsWereNotComparedWithTheDigest(t *testing.T) {
	answers := fleetAnswers(aliveEdge)
	text, err := doctor(t, "text", answers)
	require.NoError(t, err)
	require.NotContains(t, text, "digest")
	answers["/api/admin/digest"] = `{"control_plane": "control-1", "error": "canceling statement"}`
	text, err = doctor(t, "text", answers)
	require.NoError(t, err)
	require.Contains(t, text, "unseen    whether PostgreSQL's rows add up to the digest of the changelog: "+
		"the last comparison of control-1 failed: canceling statement")
	delete(answers, "/api/admin/digest")
	text, err = doctor(t, "text", answers)
	require.NoError(t, err)
	require.Contains(t, text, "unseen    whether PostgreSQL's rows add up to the digest of the changelog: ")
}

func TestDoctor_WaitsForEdgesAfterAStart(t *testing.T) {
	const young = `{"node": "control-1", "state": "alive", "answers": true, "started_at": "2031-01-01T00:00:00Z", "last_seen": "2031-01-01T00:00:02Z"}`
	text, err := doctor(t, "text", fleetAnswers(with(aliveEdge, conditionOf("EdgeStale", "", "has heard nothing")), young))
	require.NoError(t, err, text)
	require.Contains(t, text, "unseen    eu-1 is reconnecting: control-1 has just started")
	later := strings.Replace(conditionOf("EdgeStale", "", "has heard nothing"), "2021-", "2032-", 1)
	_, err = doctor(t, "text", fleetAnswers(with(aliveEdge, later), young))
	require.Error(t, err, "it was connected to this start")
	text, err = doctor(t, "text", fleetAnswers(with(aliveEdge, conditionOf("ReplicaDiskLow", "", "has no room")), young))
	require.Error(t, err)
	require.Contains(t, text, "CRITICAL  eu-1: has no room")
}

func TestDoctor_NamesFaultsOfTLS(t *testing.T) {
	api := httptest.NewTLSServer(http.NotFoundHandler())
	defer api.Close()
	api.Config.ErrorLog = log.New(io.Discard, "", 0)
	for base, says := range map[string]string{
		api.URL: "this machine does not know the authority of the certificate",
		strings.Replace(api.URL, "https://", "http://", 1): "this port speaks TLS: the address begins with https://",
	} {
		text, err := doctor(t, "text", nil, "--api", base)
		require.Error(t, err)
		require.Contains(t, text, says)
		require.NotContains(t, text, "Start it")
		require.Contains(t, text, "unseen    edges and control planes, through the API")
	}
}

func TestDoctor_WarnsOfConnectionsWithoutTLS(t *testing.T) {
	source := "http://127.0.0.1:7080"
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": "ready", "node": "eu-1", "source": "`+source+`"}`)
	}))
	defer edge.Close()
	text, err := doctor(t, "text", fleetAnswers(aliveEdge), "--admin", edge.URL)
	require.NoError(t, err, text)
	for source = range map[string]bool{"http://10.0.0.1:7080": true, "http://control.example.com": true} {
		text, err = doctor(t, "text", fleetAnswers(aliveEdge), "--admin", edge.URL)
		require.Error(t, err)
		require.Contains(t, text, "WARNING  eu-1: its credential and links travel to and from "+source+" without encryption\n")
		require.Contains(t, text, "`waypost certs`")
	}
	source = "https://10.0.0.1:7080"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, fleetAnswers(aliveEdge)["/api/admin/edges"])
	}))
	defer api.Close()
	everywhere := strings.Replace(api.URL, "127.0.0.1", "0.0.0.0", 1)
	text, err = doctor(t, "text", nil, "--admin", edge.URL, "--api", everywhere)
	require.Error(t, err)
	require.Contains(t, text, "WARNING  "+everywhere+": keys and answers of the API travel")
	require.Equal(t, 1, strings.Count(text, "WARNING"), text)
}

func TestDoctor_AsksNoListenerOfAnotherMachineOnThisOne(t *testing.T) {
	asked := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("an edge of another machine is taken for one of this one")
	}))
	defer asked.Close()
	_, port, err := net.SplitHostPort(asked.Listener.Addr().String())
	require.NoError(t, err)
	edge := func(node, host string) string {
		return `{"node": "` + node + `", "state": "alive", "via": "report", "admin_addr": "` + net.JoinHostPort(host, port) + `"}`
	}
	text, err := doctor(t, "text", fleetAnswers(edge("eu-1", "127.0.0.1")+","+edge("eu-2", "::")))
	require.NoError(t, err, text)
	require.Contains(t, text, "unseen    2 nodes name no admin listener for other machines")
	require.True(t, forOthers("10.0.0.2:9081"))
}

func TestDoctor_SaysThatAnEdgeIsCutOffAndCountsItOnce(t *testing.T) {
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": "ready", "node": "eu-1", "region": "eu-west-1", `+conditionOf("EdgeStale", "", "has heard nothing new")+`}`)
	}))
	defer edge.Close()
	addr := strings.TrimPrefix(edge.URL, "http://")
	text, err := doctor(t, "text", nil, "--admin", addr+","+strings.Replace(addr, "127.0.0.1", "localhost", 1))
	require.Error(t, err)
	require.Equal(t, 1, strings.Count(text, "CRITICAL  eu-1: has heard nothing new (for "))
	require.Contains(t, text, "1 of 1 admin listeners say that they are ready")
}

func TestDoctor_SaysThatItDidNotAskTheAPI(t *testing.T) {
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": "ready", "node": "control", `+conditionOf("DigestDiffers", "", "has rows that do not add up")+`}`)
	}))
	defer edge.Close()
	text, err := doctor(t, "text", nil, "--admin", edge.URL, "--api", "no URL")
	require.Error(t, err)
	require.Contains(t, text, "WARNING  API: it was not asked")
	require.Contains(t, text, "CRITICAL  cluster: has rows that do not add up")
}

func TestDoctor_WorksWithoutTheAPI(t *testing.T) {
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status": "verifying", "node": "eu-1", "last_error": "connection refused"}`)
	}))
	defer edge.Close()
	text, err := doctor(t, "json", nil, "--admin", strings.TrimPrefix(edge.URL, "http://")+",127.0.0.1:1")
	require.Error(t, err)
	var d struct{ Findings []finding }
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	require.Len(t, d.Findings, 3, text)
	require.Equal(t, "docs/operations/alerts/PostgreSQLDown.md", d.Findings[0].Page)
	require.Contains(t, d.Findings[0].What, "PostgreSQL does not answer")
	require.Equal(t, "warning", d.Findings[1].Severity)
	require.Contains(t, text, "says verifying connection refused")
	require.Contains(t, text, "no answer from the admin listener")
}
