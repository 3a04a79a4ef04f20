package main

import (
	"bytes"
	"encoding/json"
	"io"
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

func fleetAnswers(edges string) map[string]string {
	return map[string]string{
		"/api/admin/edges":  `{"edges": [` + edges + `]}`,
		"/api/admin/digest": `{"equal": true}`,
		"/api/admin/ranges": `{"regions": [{"region": "eu-west-1", "unissued": 900000000, "rate_per_minute": 1, "minutes_left": null}], "free_prefixes": 50}`,
	}
}

func TestDoctor_SaysWhatIsWrongSinceWhenAndWhatToDo(t *testing.T) {
	const alive = `{"node": "eu-1", "region": "eu-west-1", "version": "1", "replica": "following", "state": "alive", "age_seconds": 0.5, "credential": "own"}`
	text, err := doctor(t, "text", fleetAnswers(alive))
	require.NoError(t, err)
	require.Contains(t, text, "fine      1 edge has everything\n")
	require.Contains(t, text, "fine      1 region has keys")
	require.NotContains(t, text, "CRITICAL")

	text, err = doctor(t, "text", fleetAnswers(alive+`, {"node": "eu-2", "state": "gone", "left": true}, {"node": "eu-3", "state": "silent", "credential": "revoked"}`))
	require.NoError(t, err)
	require.Contains(t, text, "fine      eu-2 is off")
	require.Contains(t, text, "fine      eu-3 is off")
	text, err = doctor(t, "json", fleetAnswers(alive))
	require.NoError(t, err)
	require.Contains(t, text, `"findings": []`)
	failing := fleetAnswers(alive)
	failing["/api/admin/digest"] = `{"error": "the database did not answer"}`
	text, err = doctor(t, "text", failing)
	require.Error(t, err)
	require.Contains(t, text, "WARNING  PostgreSQL: its rows could not be added up")

	for _, c := range []struct{ name, edges, says string }{
		{
			"twin", strings.Replace(alive, `"own"`, `"own", "twins": ["10.0.0.3:8081"]`, 1),
			"CRITICAL  eu-1: shares its name with other edges (10.0.0.3:8081)",
		},
		{
			"revoked and silent", `{"node": "eu-3", "state": "silent", "credential": "revoked", "may_serve": true}`,
			"CRITICAL  eu-3: is silent",
		},
		{"gone", `{"node": "eu-1", "state": "gone", "since": "2031-01-01T00:00:00Z"}`, "CRITICAL  eu-1: is gone"},
		{"stale", strings.Replace(alive, "0.5", "75", 1), "CRITICAL  eu-1: has heard nothing new; changes and takedowns do not reach it (for 75 s)"},
		{
			"held", strings.Replace(alive, `"following"`, `"held", "held": "mass-delete", "held_why": "5000 links at once"`, 1),
			"CRITICAL  eu-1: holds back a change (mass-delete): 5000 links at once",
		},
		{"disk", strings.Replace(alive, `"following"`, `"degraded", "disk_low": true`, 1), "CRITICAL  eu-1: has almost no room on its disk"},
		{"revoked", strings.Replace(alive, `"own"`, `"revoked"`, 1), "CRITICAL  eu-1: still answers visitors, and its credential was revoked"},
		{
			"damaged", strings.Replace(alive, `"own"`, `"own", "verified": {"damage": "a record is cut"}`, 1),
			"WARNING  eu-1: had damaged records when it was last verified: a record is cut",
		},
		{
			"clicks", strings.Replace(alive, `"own"`, `"own", "clicks_pending": 70, "clicks_until": "2021-01-01T00:00:00Z"`, 1),
			"WARNING  eu-1: has 70 clicks that are not counted",
		},
		{"versions", alive + "," + strings.NewReplacer("eu-1", "eu-2", `"1"`, `"2"`).Replace(alive), "WARNING  fleet: edges run several versions: 1 (eu-1); 2 (eu-2)"},
		{"hostile", `{"node": "e\u001b[31m", "state": "gone"}`, "is gone"},
		{"none", ``, "CRITICAL  fleet: no edge has reported"},
	} {
		text, err := doctor(t, "text", fleetAnswers(c.edges))
		require.Error(t, err, c.name)
		require.Contains(t, text, c.says, c.name)
		require.NotContains(t, text, "\x1b", c.name)
		require.Regexp(t, `(?m)^          docs/operations/\S+\.md$`, text, c.name)
	}
}

func TestDoctor_RepeatsWhyPostgreSQLHurts(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": "ready", "node": "control-1", "degraded": "PostgreSQL's clock is 48h0m0s ahead"}`)
	}))
	defer admin.Close()
	const alive = `{"node": "eu-1", "region": "eu-west-1", "version": "1", "replica": "following", "state": "alive", "age_seconds": 0.5, "credential": "own"}`
	text, err := doctor(t, "text", fleetAnswers(alive), "--admin", admin.URL)
	require.Error(t, err)
	require.Contains(t, text, "WARNING  control-1: PostgreSQL's clock is 48h0m0s ahead")
}

func TestDoctor_AsksNoListenerOfAnotherMachineOnThisOne(t *testing.T) {
	asked := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("an edge of another machine is taken for one of this one")
	}))
	defer asked.Close()
	_, port, err := net.SplitHostPort(asked.Listener.Addr().String())
	require.NoError(t, err)
	edge := func(node, host string) string {
		return `{"node": "` + node + `", "version": "1", "replica": "following", "state": "alive", "admin_addr": "` + net.JoinHostPort(host, port) + `"}`
	}
	text, err := doctor(t, "text", fleetAnswers(edge("eu-1", "127.0.0.1")+","+edge("eu-2", "::")))
	require.NoError(t, err, text)
	require.Contains(t, text, "fine      2 edges name no admin listener for other machines")
	require.True(t, forOthers("10.0.0.2:9081"))
}

func TestDoctor_SaysThatAnEdgeIsCutOffAndCountsItOnce(t *testing.T) {
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": "ready", "node": "eu-1", "region": "eu-west-1", "connected": false, "age_seconds": 75}`)
	}))
	defer edge.Close()
	addr := strings.TrimPrefix(edge.URL, "http://")
	text, err := doctor(t, "text", nil, "--admin", addr+","+strings.Replace(addr, "127.0.0.1", "localhost", 1))
	require.Error(t, err)
	require.Contains(t, text, "eu-1: is connected to nothing")
	require.Contains(t, text, "(for 75 s)")
	require.Contains(t, text, "1 of 1 admin listeners say that they are ready")
}

func TestDoctor_SaysThatItDidNotAskTheAPI(t *testing.T) {
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": "ready", "node": "control", "error": "PostgreSQL's own rows do not add up"}`)
	}))
	defer edge.Close()
	text, err := doctor(t, "text", nil, "--admin", edge.URL, "--api", "no URL")
	require.Error(t, err)
	require.Contains(t, text, "WARNING  API: it was not asked")
	require.Contains(t, text, "WARNING  control: PostgreSQL's own rows do not add up")
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
