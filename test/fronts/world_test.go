package fronts_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/test/devtest"
)

var databases = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

// patience bounds each wait, on a machine that has much else to do.
const patience = time.Minute

// world holds the nodes behind the fronts: two control planes, an edge that trusts
// X-Forwarded-For of the fronts, and one that expects PROXY headers.
type world struct {
	authority        string // file of the certificate that has signed the control planes' one
	controls         [2]*devtest.Control
	plain, withProxy *devtest.Edge
}

func newWorld(t *testing.T) *world {
	t.Helper()
	database, root := databases.Database(t), t.TempDir()
	dir := filepath.Join(root, "authority")
	w := &world{authority: filepath.Join(dir, "authority.pem")}
	for _, args := range [][]string{{"authority", dir}, {"node", dir, "control", "127.0.0.1", "control.example.com"}} {
		r := devtest.Run(t, nil, append([]string{"certs"}, args...)...)
		require.Zero(t, r.Code, r.Stderr)
	}
	for i := range w.controls {
		node := fmt.Sprintf("control-%d", i+1)
		c, err := devtest.StartControl(t, devtest.ControlConfig{
			Database: database, DataDir: filepath.Join(root, node), Region: "us-east-1", Node: node,
			Env: []string{
				"WAYPOST_CONTROL_TRUSTED_PROXIES=127.0.0.1/32", "WAYPOST_CONTROL_CORS_ORIGINS=https://tool.example.com",
				"WAYPOST_CONTROL_TLS_CERT_FILE=" + filepath.Join(dir, "control.pem"), "WAYPOST_CONTROL_TLS_KEY_FILE=" + filepath.Join(dir, "control-key.pem"),
			},
		})
		require.NoError(t, err)
		w.controls[i] = c
	}
	for _, c := range w.controls {
		ready, err := c.Ready()
		require.NoError(t, err)
		require.True(t, ready, c.Output())
		c.API = strings.Replace(c.API, "http://", "https://", 1)
	}
	edge := func(node string, env ...string) *devtest.Edge {
		e, err := devtest.StartEdge(t, devtest.EdgeConfig{
			Control: w.controls[0].API + "," + w.controls[1].API, DataDir: filepath.Join(root, node), Region: "us-east-1", Node: node,
			Env: append(env, "WAYPOST_EDGE_TRUSTED_PROXIES=127.0.0.1/32", "WAYPOST_EDGE_NODE_CA_FILE="+w.authority),
		})
		require.NoError(t, err)
		return e
	}
	w.plain, w.withProxy = edge("plain"), edge("with-proxy", "WAYPOST_EDGE_PROXY_PROTOCOL=true")
	for _, e := range []*devtest.Edge{w.plain, w.withProxy} {
		ready, err := e.Ready()
		require.NoError(t, err)
		require.True(t, ready, e.Output())
		eventually(t, e.Node+" is ready", func() bool {
			status, _, err := ask(t.Context(), http.MethodGet, e.Admin+"/readyz", "", "")
			return err == nil && status == http.StatusOK
		})
	}
	// A control plane that was just started may still wait for edges.
	for _, c := range w.controls {
		eventually(t, c.Node+" creates links", func() bool {
			status, _, err := create(t.Context(), c.API)
			return err == nil && status == http.StatusCreated
		})
	}
	return w
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 20*time.Millisecond, what)
}

// browser is a user agent of a person.
const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// ask sends a request from an address of the loopback interface, and returns status and
// body of the answer. Redirects are not followed.
func ask(ctx context.Context, method, url, from, body string, headers ...string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("User-Agent", browser)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1]) // of Host only the field above counts
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DialContext: dialFrom(from).DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // fronts verify
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // it is read
	return res.StatusCode, text, err
}

func dialFrom(address string) *net.Dialer {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if address != "" {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 0))
	}
	return d
}

// create makes a link, and returns status and code.
func create(ctx context.Context, api string, headers ...string) (int, string, error) {
	status, text, err := ask(ctx, http.MethodPost, api+"/api/v1/urls?wait=all", "", `{"original_url": "https://example.com/"}`,
		append(headers, "Content-Type", "application/json")...)
	var made struct {
		Code string `json:"short_code"`
	}
	if err == nil && status == http.StatusCreated {
		err = json.Unmarshal(text, &made)
	}
	return status, made.Code, err
}

// front is a server that runs one of the configurations.
type front struct {
	edges, api string // base URLs
	host       string // HOST:PORT of the former
}

// configure returns a configuration of deploy/ with each of the texts replaced, all of
// which must be there.
func configure(t *testing.T, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", name))
	require.NoError(t, err)
	for i := 0; i < len(replace); i += 2 {
		require.Contains(t, string(text), replace[i])
		text = bytes.ReplaceAll(text, []byte(replace[i]), []byte(replace[i+1]))
	}
	require.NotContains(t, string(text), "10.0.0.", "an address of the example is left")
	return string(text)
}

// startFront writes a configuration, runs a server with it in a directory of its own, and
// waits until it listens. Another process may take one of the ports meanwhile, and then
// others are tried.
func startFront(t *testing.T, binary string, args []string, configuration func(edges, api, dir string) map[string]string) *front {
	t.Helper()
	path := program(t, binary)
	for range 5 {
		dir := t.TempDir()
		f := &front{host: freeAddress(t)}
		api := freeAddress(t)
		f.edges, f.api = "http://"+f.host, "http://"+api
		for name, text := range configuration(f.host, api, dir) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		var out bytes.Buffer
		cmd := exec.CommandContext(context.Background(), path, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		require.NoError(t, cmd.Start())
		exited := make(chan struct{})
		go func() { defer close(exited); _ = cmd.Wait() }() // its outcome is in the output
		stop := func() {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone
			select {
			case <-exited:
			case <-time.After(10 * time.Second):
				_ = cmd.Process.Kill() // it may be gone
				<-exited
			}
		}
		if listens(t, exited, f.host, api) {
			t.Cleanup(func() {
				stop()
				if t.Failed() {
					t.Logf("%s wrote:\n%s", binary, out.String())
				}
			})
			return f
		}
		stop()
		require.Contains(t, strings.ToLower(out.String()), "in use", "%s does not start", binary)
	}
	require.Fail(t, binary+" finds no free port")
	return nil
}

// listens waits for a server, and returns false when it ends instead.
func listens(t *testing.T, exited <-chan struct{}, addresses ...string) bool {
	t.Helper()
	deadline := time.After(patience)
	for _, address := range addresses {
		for {
			c, err := net.Dial("tcp", address)
			if err == nil {
				require.NoError(t, c.Close())
				break
			}
			select {
			case <-exited:
				return false
			case <-deadline:
				return false
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return true
}

// program returns the path of a server that deploy/install-missing.sh installs.
func program(t *testing.T, name string) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "../../deploy/install-missing.sh", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} { // the latter two are not in every PATH
		if path, err := exec.LookPath(dir + name); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not where it is installed", name)
	return ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	return ln.Addr().String()
}
