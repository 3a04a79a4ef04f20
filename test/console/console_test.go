package console_test

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// system is used by all flows, one after the other.
var system = &devtest.Shared{}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(browser.stop(), devtest.Cleanup()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// user signs in to the console: an administrator of the default workspace.
type user struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

var admin = user{Email: "ada@console.example", Password: "correct horse battery staple"}

// The fleet is well before other flows have had a part of their requests fail.
func TestConsole_Fleet(t *testing.T) { flows(t, "fleet") }

func TestConsole_Frame(t *testing.T)    { flows(t, "frame") }
func TestConsole_Links(t *testing.T)    { flows(t, "links") }
func TestConsole_Link(t *testing.T)     { flows(t, "link") }
func TestConsole_Rules(t *testing.T)    { flows(t, "rules") }
func TestConsole_Overview(t *testing.T) { flows(t, "overview") }
func TestConsole_Transfer(t *testing.T) { flows(t, "transfer") }
func TestConsole_Settings(t *testing.T) { flows(t, "settings") }

// TestVisitors_GivePasswords shows the page of an edge that asks for a link's password.
// make test-long has it over TLS as well, by an edge that makes the fleet larger, so this
// comes last.
func TestVisitors_GivePasswords(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	tools(t)
	if !devtest.Long() {
		flows(t, "visitors")
		return
	}
	s := system.For(t)
	dir := t.TempDir()
	certificate, key := selfSigned(t, dir)
	token, err := os.ReadFile(filepath.Join(s.DataDir(), "secrets", "edge-token"))
	require.NoError(t, err)
	edge, err := devtest.StartEdge(t, devtest.EdgeConfig{
		Control: s.State().Fleet, DataDir: filepath.Join(dir, "edge"), Region: "eu-west-1", Node: "visitors",
		Env: []string{
			"WAYPOST_EDGE_TOKEN=" + strings.TrimSpace(string(token)), "WAYPOST_TLS_ADDR=127.0.0.1:0",
			"WAYPOST_TLS_CERT_FILE=" + certificate, "WAYPOST_TLS_KEY_FILE=" + key,
		},
	})
	require.NoError(t, err)
	ready, err := edge.Ready()
	require.NoError(t, err)
	require.True(t, ready, edge.Output())
	flows(t, "visitors https://"+edge.TLS[0])
	require.NoError(t, edge.Stop())
}

// selfSigned writes a certificate for 127.0.0.1 and its key, those of httptest.
func selfSigned(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	certificate, key = filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return certificate, key
}

// TestConsole_Pictures takes the pictures in docs/images (make console-images).
func TestConsole_Pictures(t *testing.T) {
	if os.Getenv("CONSOLE_IMAGES") == "" {
		t.Skip("CONSOLE_IMAGES names no directory")
	}
	flows(t, "pictures")
}

// outcome is a line of the runner.
type outcome struct {
	Flow    string `json:"flow"`
	Error   string `json:"error"` // empty: it passed
	Seconds float64
}

// runner is run.mjs with its browser, which all tests use. One that ended is started
// again by the next test.
type runner struct {
	cmd    *exec.Cmd
	areas  io.WriteCloser
	lines  *bufio.Scanner
	stderr bytes.Buffer // complete once stop has returned
}

var (
	browser *runner
	invite  sync.Once // makes the user
)

// startRunner starts a runner.
func startRunner(t *testing.T) *runner {
	t.Helper()
	node, chromium := tools(t)
	s := system.For(t)
	invite.Do(func() { addUser(t, s.State().API, admin) })
	dev, err := os.ReadFile(filepath.Join(s.DataDir(), "dev.json"))
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	input, err := json.Marshal(map[string]any{
		"dev": json.RawMessage(dev), "user": admin, "root": root, "seen": filepath.Join(root, "bin/test/console"),
		"browser": chromium, "images": os.Getenv("CONSOLE_IMAGES"), "only": os.Getenv("CONSOLE_FLOW"), "long": devtest.Long(),
	})
	require.NoError(t, err)
	r := &runner{cmd: exec.Command(node, "run.mjs")}
	r.cmd.Env = append(os.Environ(), "CONSOLE_INPUT="+string(input))
	r.cmd.WaitDelay = 10 * time.Second
	r.cmd.Stderr = &r.stderr
	stdout, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	r.areas, err = r.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	r.lines = bufio.NewScanner(stdout)
	r.lines.Buffer(nil, 1<<20)
	return r
}

// stop ends the runner, which closes its browser.
func (r *runner) stop() error {
	if r == nil {
		return nil
	}
	late := time.AfterFunc(30*time.Second, func() { _ = r.cmd.Process.Kill() }) // which is an error below
	defer late.Stop()
	return errors.Join(r.areas.Close(), r.cmd.Wait())
}

// next reads the next outcome.
func (r *runner) next() (o outcome, err error) {
	if !r.lines.Scan() {
		return o, cmp.Or(r.lines.Err(), io.ErrUnexpectedEOF)
	}
	return o, json.Unmarshal(r.lines.Bytes(), &o)
}

// flows runs the flows of an area, which may be told something after a blank, and reports
// each as a subtest. What a failed flow saw
// is in bin/test/console.
func flows(t *testing.T, area string) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	system.For(t)
	if browser == nil {
		browser = startRunner(t)
	}
	_, err := io.WriteString(browser.areas, area+"\n")
	for ran := 0; err == nil; ran++ {
		var o outcome
		if o, err = browser.next(); err != nil {
			break
		}
		if o.Flow == "" {
			require.Positive(t, ran, "flows ran")
			return
		}
		t.Run(o.Flow, func(t *testing.T) {
			t.Logf("%.1f s", o.Seconds)
			if o.Error != "" {
				t.Error(o.Error)
			}
		})
	}
	ended := browser
	browser = nil
	t.Fatalf("the runner ended: %v\n%s", errors.Join(err, ended.stop()), &ended.stderr)
}

// tools returns the paths of Node and of Chromium, or skips the test on a machine without
// Node 20, the packages of web or Chromium, which `make test` installs. It prefers the
// Chromium that has no window.
func tools(t *testing.T) (node, chromium string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	node = filepath.Join(root, "bin/tools/node/node_modules/node/bin/node")
	if _, err := os.Stat(node); err != nil {
		node, err = exec.LookPath("node")
		missing(t, "node", err)
	}
	_, err = os.Stat(filepath.Join(root, "web/node_modules/playwright-core"))
	missing(t, "packages of web (make test installs them)", err)
	if chromium, err = exec.LookPath("chromium-headless-shell"); err != nil {
		chromium, err = exec.LookPath("chromium")
	}
	missing(t, "chromium", err)
	return node, chromium
}

func missing(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatalf("%s: %v", what, err)
	case err != nil:
		t.Skipf("%s: %v", what, err)
	}
}

// addUser creates an administrator who has set a password by an invitation.
func addUser(t *testing.T, api string, u user) {
	t.Helper()
	var made struct {
		Invitation struct{ Token string } `json:"invitation"`
	}
	call(t, api+"/api/v1/users", map[string]string{"email": u.Email, "name": "Ada", "role": "admin"}, &made)
	call(t, api+"/api/v1/invitation", map[string]string{"token": made.Invitation.Token, "password": u.Password}, nil)
}

func call(t *testing.T, url string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(text)))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Less(t, res.StatusCode, 300, url)
	if answer != nil {
		require.NoError(t, json.NewDecoder(res.Body).Decode(answer))
	}
}
