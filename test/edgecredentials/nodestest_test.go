// Package edgecredentials_test shows edges with credentials of their own, over TLS,
// against a control plane that runs as a process. It has no code of its own.
package edgecredentials_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/test/devtest"
)

var databases = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

// authority is a directory in which `waypost certs` has made an authority and
// certificates.
type authority string

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority(filepath.Join(t.TempDir(), "authority"))
	for _, made := range []string{"authority DIR", "node DIR server 127.0.0.1", "node DIR eu-1", "node DIR eu-2"} {
		args := strings.Fields("certs " + strings.Replace(made, "DIR", string(a), 1))
		r := devtest.Run(t, nil, args...)
		require.Zero(t, r.Code, r.Stderr)
	}
	return a
}

func (a authority) file(name string) string { return filepath.Join(string(a), name) }

// requireSameID waits until an edge has logged a failed question, and shows that the log
// of the control plane has a line of the same level with the id of that.
func requireSameID(t *testing.T, edge, control func() string, message string) {
	t.Helper()
	type line struct {
		Level, Msg, ID string
	}
	find := func(log string, is func(line) bool) (found line) {
		for text := range strings.Lines(log) {
			var l struct {
				Level, Msg string
				ID         string `json:"request_id"`
			}
			if json.Unmarshal([]byte(text), &l) == nil && l.ID != "" && is(line(l)) {
				return line(l)
			}
		}
		return line{}
	}
	var asked, refused line
	require.Eventually(t, func() bool {
		asked = find(edge(), func(l line) bool { return l.Msg == message })
		refused = find(control(), func(l line) bool { return l.ID == asked.ID })
		return asked.ID != "" && refused.ID != ""
	}, 60*time.Second, 20*time.Millisecond, "%+v, %+v", &asked, &refused)
	require.Equal(t, "WARN", asked.Level)
	require.Equal(t, asked.Level, refused.Level)
}

func TestAnEdgeEnrolsIsRevokedAndIsLetInAgain(t *testing.T) {
	ca := newAuthority(t)
	control, err := devtest.StartControl(t, devtest.ControlConfig{
		Database: databases.Database(t), DataDir: filepath.Join(t.TempDir(), "data"), Region: "eu-west-1", Node: "one",
		Env: []string{
			"WAYPOST_CONTROL_EDGE_TOKEN=", "WAYPOST_CONTROL_TLS_CERT_FILE=" + ca.file("server.pem"), "WAYPOST_CONTROL_TLS_KEY_FILE=" + ca.file("server-key.pem"),
			"WAYPOST_CONTROL_CLIENT_CA_FILE=" + ca.file("authority.pem"),
		},
	})
	require.NoError(t, err)
	ready, err := control.Ready()
	require.NoError(t, err)
	require.True(t, ready, control.Output())
	api := strings.Replace(control.API, "http://", "https://", 1)
	run := func(code int, args ...string) devtest.Result {
		t.Helper()
		r := devtest.Run(t, []string{"WAYPOST_API=" + api, "SSL_CERT_FILE=" + ca.file("authority.pem")}, args...)
		require.Equal(t, code, r.Code, "waypost %s: %s%s", strings.Join(args, " "), r.Stdout, r.Stderr)
		return r
	}
	token := func(args ...string) string {
		t.Helper()
		var made struct{ Token string }
		require.NoError(t, json.Unmarshal([]byte(run(0, append([]string{"edges", "enrol", "--region", "eu-west-1", "--output", "json"},
			args...)...).Stdout), &made))
		return made.Token
	}
	dir := filepath.Join(t.TempDir(), "edge")
	edgeIn := func(dir, node, certificate string, env ...string) *devtest.Edge {
		t.Helper()
		e, err := devtest.StartEdge(t, devtest.EdgeConfig{
			Control: api, DataDir: dir, Region: "eu-west-1", Node: node,
			Env: append([]string{
				"WAYPOST_EDGE_TOKEN=", "WAYPOST_EDGE_NODE_CA_FILE=" + ca.file("authority.pem"),
				"WAYPOST_EDGE_NODE_CERT_FILE=" + ca.file(certificate+".pem"), "WAYPOST_EDGE_NODE_KEY_FILE=" + ca.file(certificate+"-key.pem"),
			}, env...),
		})
		require.NoError(t, err)
		return e
	}
	start := func(env ...string) *devtest.Edge {
		t.Helper()
		e := edgeIn(dir, "eu-1", "eu-1", env...)
		ready, err := e.Ready()
		require.NoError(t, err)
		require.True(t, ready, e.Output())
		return e
	}
	redirects := func(e *devtest.Edge, code string) {
		t.Helper()
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		require.Eventually(t, func() bool {
			res, err := client.Get("http://" + e.Addr + "/" + code)
			return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusFound
		}, 60*time.Second, 20*time.Millisecond, "%s\n%s", code, e.Output())
	}
	says := func(e *devtest.Edge, text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(e.Output(), text) }, 60*time.Second, 20*time.Millisecond,
			"it does not say %q:\n%s", text, e.Output())
	}
	state := func() string {
		t.Helper()
		var answer struct {
			Edges []struct{ Node, Credential string }
		}
		require.NoError(t, json.Unmarshal([]byte(run(0, "edges", "--output", "json").Stdout), &answer))
		if len(answer.Edges) != 1 {
			return ""
		}
		return answer.Edges[0].Node + " " + answer.Edges[0].Credential
	}

	run(0, "links", "create", "https://example.com/", "--code", "first")
	said := run(0, "edges", "enrol", "--region", "eu-west-1", "--node", "eu-1").Stdout
	require.Regexp(t, `WAYPOST_ENROL_TOKEN=wp_enrl_\w+ waypost edge --control-urls `+api, said)
	require.Contains(t, said, "node_ca_file: /etc/waypost/tls/authority.pem")
	first := start("WAYPOST_ENROL_TOKEN=" + token("--node", "eu-1"))
	redirects(first, "first")
	require.Eventually(t, func() bool { return state() == "eu-1 own" }, 60*time.Second, 20*time.Millisecond)
	info, err := os.Stat(filepath.Join(dir, "credential"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoFileExists(t, filepath.Join(dir, "credential.new"))

	// The certificate of another node does not do, nor does a token that is no token.
	foreign := edgeIn(filepath.Join(t.TempDir(), "edge"), "eu-3", "eu-2", "WAYPOST_ENROL_TOKEN="+token())
	says(foreign, "the client certificate belongs to eu-2, and the credential to node eu-3")

	select {
	case <-foreign.Exited():
	case <-time.After(60 * time.Second):
		t.Fatal("an edge that may not enrol and has nothing to serve goes on")
	}

	require.Contains(t, run(0, "edges", "revoke", "eu-1", "--yes").Stdout, "is revoked")
	says(first, "the credential of node eu-1 was revoked: to let this edge in again, make a token with `waypost edges enrol --region eu-west-1 --node eu-1`")
	requireSameID(t, first.Output, control.Output, "cannot reach the control plane with reports; its fleet view is not current")
	require.Eventually(t, func() bool { return state() == "eu-1 revoked" }, 60*time.Second, 20*time.Millisecond)
	run(0, "links", "create", "https://example.com/", "--code", "second")
	redirects(first, "first")
	require.NoError(t, first.Stop())
	require.Contains(t, run(0, "edges", "credentials").Stdout, "revoked")

	again := start("WAYPOST_ENROL_TOKEN=" + token("--node", "eu-1"))
	redirects(again, "second")
	require.Eventually(t, func() bool { return state() == "eu-1 own" }, 60*time.Second, 20*time.Millisecond)
	require.NoError(t, again.Stop())
	run(0, "links", "create", "https://example.com/", "--code", "third")
	last := start() // without a token
	redirects(last, "third")
	require.NoError(t, last.Stop())

	// A damaged file keeps no link from visitors; a new token mends it.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "credential"), []byte("{"), 0o600))
	damaged := start()
	redirects(damaged, "third")
	says(damaged, "holds no credential: make a token with `waypost edges enrol --node NAME`")
	require.NoError(t, damaged.Stop())
	run(0, "links", "create", "https://example.com/", "--code", "fourth")
	mended := start("WAYPOST_ENROL_TOKEN=" + token("--node", "eu-1"))
	redirects(mended, "fourth")
	require.NoError(t, mended.Stop())
	full := start("FAILPOINT=bytes that stay free@1000000000000000")
	redirects(full, "third")
	require.Eventually(t, func() bool {
		return strings.Contains(run(0, "edges").Stdout, "LOW DISK")
	}, 60*time.Second, 20*time.Millisecond, "what an edge cannot take is seen from afar")
}
