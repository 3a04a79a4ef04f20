// Package alerts_test shows that the alerts of deploy/alerts.yaml fire in a real
// Prometheus when a real system has the fault. It has no code of its own.
package alerts_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/deploy/dashboards"
	"waypost/internal/pgserver"
	"waypost/migrations"
	"waypost/test/devtest"
)

const patience = time.Minute

// quick makes nodes look at their conditions more often, what has to last last a sixtieth
// of its time, and clicks late sooner.
const quick = "FAILPOINT=conditions are looked at every@500ms;seconds in a minute of conditions@1;clicks are late after@5s"

// world is a control plane, two edges, PostgreSQL, and a Prometheus that watches them.
type world struct {
	t        *testing.T
	database *pgserver.Server
	control  *devtest.Control
	a, b     *devtest.Edge
	edges    []string // admin listeners
	targets  string   // file in which Prometheus finds them
	address  string   // of Prometheus
}

// start runs all of them, with three faults: a certificate ends soon, a region has few
// keys because codes are short, and PostgreSQL does not sync.
func start(t *testing.T) *world {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		prometheus, err = filepath.Abs("../../bin/tools/prometheus")
		require.NoError(t, err)
		if _, err := os.Stat(prometheus); err != nil {
			t.Skip("no prometheus: deploy/install-missing.sh prometheus")
		}
	}
	w := &world{t: t, targets: filepath.Join(t.TempDir(), "edges.json")}
	w.database, err = pgserver.Start(t.Context(), pgserver.Config{
		Dir: filepath.Join(t.TempDir(), "postgres"), Settings: map[string]string{"fsync": "off"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { w.stopDatabase() })
	require.NoError(t, migrations.Up(t.Context(), w.database.URL()))
	w.control, err = devtest.StartControl(t, devtest.ControlConfig{
		Database: w.database.URL(), DataDir: t.TempDir(), Region: "eu-west-1", Node: "one",
		Env: []string{"WAYPOST_CONTROL_CODE_LENGTH=5", quick},
	})
	require.NoError(t, err)
	ready, err := w.control.Ready()
	require.NoError(t, err)
	require.True(t, ready, w.control.Output())
	cert, key := certificate(t)
	w.a = w.edge("eu-1", "WAYPOST_TLS_ADDR=127.0.0.1:0", "WAYPOST_TLS_CERT_FILE="+cert, "WAYPOST_TLS_KEY_FILE="+key)
	w.b = w.edge("eu-2")
	w.watch(prometheus)
	return w
}

func (w *world) stopDatabase() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(w.t, w.database.Stop(ctx))
}

func (w *world) edge(node string, env ...string) *devtest.Edge {
	w.t.Helper()
	return w.edgeIn(w.t.TempDir(), node, env...)
}

func (w *world) edgeIn(dir, node string, env ...string) *devtest.Edge {
	w.t.Helper()
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "FAILPOINT=") }) {
		env = append(env, quick)
	}
	e, err := devtest.StartEdge(w.t, devtest.EdgeConfig{
		Control: w.control.API, DataDir: dir, Region: "eu-west-1", Node: node, Env: env,
	})
	require.NoError(w.t, err)
	ready, err := e.Ready()
	require.NoError(w.t, err)
	require.True(w.t, ready, e.Output())
	w.edges = append(w.edges, strings.TrimPrefix(e.Admin, "http://"))
	text, err := json.Marshal([]map[string][]string{{"targets": w.edges}})
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(w.targets+".new", text, 0o600))
	require.NoError(w.t, os.Rename(w.targets+".new", w.targets))
	return e
}

// watch starts Prometheus with the rules as they are, except that nothing has to last for
// longer than a second.
func (w *world) watch(prometheus string) {
	t, dir := w.t, w.t.TempDir()
	rules, err := os.ReadFile("../../deploy/alerts.yaml")
	require.NoError(t, err)
	text := regexp.MustCompile(`for: \w+`).ReplaceAllString(string(rules), "for: 1s")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), []byte(text), 0o600))
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [alerts.yaml]
scrape_configs:
  - {job_name: waypost-control, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{targets: ["%s"]}]}
  - {job_name: waypost-edge, file_sd_configs: [{files: ["%s"], refresh_interval: 1s}]}
`, strings.TrimPrefix(w.control.Admin, "http://"), w.targets)
	file := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.address = ln.Addr().String()
	require.NoError(t, ln.Close())
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.CommandContext(context.Background(), prometheus,
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+w.address)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		require.NoError(t, log.Close())
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("prometheus: %s", said)
		}
	})
}

// firing returns the names of the alerts that fire, sorted. Before Prometheus answers
// there are none.
func (w *world) firing() (names []string) {
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	if text, _, err := get(w.t, "http://"+w.address+"/api/v1/alerts"); err != nil || json.Unmarshal(text, &answer) != nil {
		return nil
	}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fires waits for alerts. meanwhile runs between looks.
func (w *world) fires(meanwhile func(), names ...string) {
	w.t.Helper()
	began := time.Now()
	for {
		have := w.firing()
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(have, name) })
		if len(missing) == 0 {
			w.t.Logf("%v after %s", names, time.Since(began).Round(time.Millisecond))
			return
		}
		require.Less(w.t, time.Since(began), patience, "%v do not fire; %v do", missing, have)
		if meanwhile != nil {
			meanwhile()
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		}
	}
}

// get returns the status of an answer.
func (w *world) get(url string) int {
	w.t.Helper()
	_, status, err := get(w.t, url)
	require.NoError(w.t, err)
	return status
}

func get(t *testing.T, url string) (text []byte, status int, err error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err = io.ReadAll(res.Body)
	return text, res.StatusCode, err
}

// certificate returns the files of a certificate that ends in three days.
func certificate(t *testing.T) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(72 * time.Hour),
		DNSNames: []string{"go.example.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// TestConditions_AreSaidEverywhere makes one fault after the other. The metric of the
// node, the API, doctor and Prometheus have to name it.
func TestConditions_AreSaidEverywhere(t *testing.T) {
	w := start(t)
	standing := []string{"CertificateEnds", "KGSPoolLow", "PostgreSQLSettings"} // codes are short, and the database does not sync
	w.says("eu-1", "CertificateEnds", w.a.Admin)
	w.says("eu-west-1", "KGSPoolLow", w.control.Admin)
	w.says("one", "PostgreSQLSettings", w.control.Admin)
	require.Eventually(t, func() bool { return slices.Equal(w.firing(), standing) }, patience, 100*time.Millisecond, "nothing else fires")
	require.Equal(t, standing, w.reported())

	full := w.edge("eu-3", quick+";bytes that stay free@1000000000000000", "WAYPOST_EDGE_GEOIP="+filepath.Join(t.TempDir(), "none.mmdb"))
	w.says("eu-3", "ReplicaDiskLow", full.Admin)
	w.says("eu-3", "GeoIPBroken", full.Admin)
	w.run("edges", "drain", "eu-2")
	w.says("eu-2", "EdgeDrained", w.b.Admin)
	w.run("domains", "add", "go.acme.test")
	w.run("domains", "approve", "go.acme.test")
	w.says("eu-1", "CertificateWrong", w.a.Admin)
	require.Contains(t, w.doctor().Stdout, "the certificate shown for go.acme.test is for go.example.com")

	second, err := devtest.StartControl(t, devtest.ControlConfig{
		Database: w.database.URL(), DataDir: t.TempDir(), Region: "eu-west-1", Node: "two",
		Env: []string{"WAYPOST_CONTROL_CODE_LENGTH=5", quick},
	})
	require.NoError(t, err)
	ready, err := second.Ready()
	require.NoError(t, err)
	require.True(t, ready, second.Output())
	require.Eventually(t, func() bool { return len(w.fleet().ControlPlanes) == 2 }, patience, 100*time.Millisecond)
	second.Kill()
	full.Kill()
	w.saysWithoutMetric("eu-3", "EdgeDown")
	w.saysWithoutMetric("two", "ControlPlaneDown")

	w.create("first")
	visit := func() [2]int {
		return [2]int{w.get("http://" + w.b.Addr + "/first"), w.get(w.control.API + "/api/v1/urls/first")}
	}
	require.Eventually(t, func() bool { return visit() == [2]int{http.StatusFound, http.StatusOK} }, patience, 10*time.Millisecond)
	w.metricsExist()
	hand := w.superuser()
	hand(`ALTER TABLE click_watermark RENAME TO hidden`) // no click can be counted
	visit()
	w.says("eu-2", "ClicksWait", w.b.Admin)
	hand(`ALTER TABLE hidden RENAME TO click_watermark`)
	w.stopDatabase()
	w.fires(func() { visit() }, "PostgreSQLDown", "APIErrors", "EdgeStale", "ClicksWait")
	said := w.doctor("--admin", w.control.Admin+","+w.a.Admin+","+w.b.Admin)
	require.Equal(t, 1, said.Code)
	for _, words := range []string{
		"one: does not reach PostgreSQL", "one: fails more than 1 %", "eu-2: has heard nothing new", "eu-2: has clicks that have not been counted",
	} {
		require.Contains(t, said.Stdout, words)
	}

	w.b.Kill()
	w.control.Kill()
	require.Contains(t, w.doctor("--admin", w.a.Admin).Stdout, "ControlPlaneDown.md")
	w.fires(nil, "EdgeDown", "ControlPlaneDown")
}

// run runs a command against the API.
func (w *world) run(args ...string) {
	w.t.Helper()
	r := devtest.Run(w.t, []string{"WAYPOST_API=" + w.control.API}, args...)
	require.Equal(w.t, 0, r.Code, r.Stderr)
}

// fleet asks the API as the console does.
func (w *world) fleet() (f fleet) {
	w.t.Helper()
	text, status, err := get(w.t, w.control.API+"/api/admin/edges")
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, status)
	require.NoError(w.t, json.Unmarshal(text, &f))
	return f
}

type fleet struct {
	Edges         []member `json:"edges"`
	ControlPlanes []member `json:"control_planes"`
}

type member struct {
	Conditions []struct {
		Name string `json:"name"`
	} `json:"conditions"`
}

// reported returns the names of all conditions that the API shows, sorted.
func (w *world) reported() (names []string) {
	f := w.fleet()
	for _, n := range append(f.Edges, f.ControlPlanes...) {
		for _, c := range n.Conditions {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// says waits until the metric of a node, the API, doctor and Prometheus say that a
// condition is true.
func (w *world) says(where, name, admin string) {
	w.t.Helper()
	of := regexp.MustCompile(`(?m)^waypost_condition\{name="` + name + `",[^}]*\} 1$`)
	require.Eventually(w.t, func() bool {
		text, _, err := get(w.t, admin+"/metrics")
		return err == nil && of.Match(text)
	}, patience, 100*time.Millisecond, "the metric of %s", name)
	w.saysWithoutMetric(where, name)
	w.fires(nil, name)
}

// saysWithoutMetric waits until the API and doctor say that a condition is true.
func (w *world) saysWithoutMetric(where, name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return slices.Contains(w.reported(), name) }, patience, 100*time.Millisecond, "the API: %s", name)
	words := regexp.MustCompile(`(?m)^(?:CRITICAL|WARNING)  ` + regexp.QuoteMeta(where) + `: .*(?:\n          .*)+/` + name + `\.md$`)
	var said devtest.Result
	require.Eventually(w.t, func() bool {
		said = w.doctor()
		return said.Code == 1 && words.MatchString(said.Stdout)
	}, patience, 500*time.Millisecond, "doctor: %s of %s", name, where)
}

// doctor runs `waypost doctor`.
func (w *world) doctor(args ...string) devtest.Result {
	w.t.Helper()
	return devtest.Run(w.t, []string{"WAYPOST_API=" + w.control.API}, append([]string{"doctor"}, args...)...)
}

// absent lists metrics of what these processes are not configured for, or not asked.
var absent = []string{
	"waypost_authentications_total",
	"waypost_geoip_build_time_seconds", "waypost_gossip_faults_total", "waypost_gossip_members", "waypost_gossip_refused_total",
}

// metricsExist looks in the running processes for every metric that alerts and dashboards
// ask for.
func (w *world) metricsExist() {
	var exposed strings.Builder
	for _, admin := range []string{w.control.Admin, w.a.Admin} {
		text, _, err := get(w.t, admin+"/metrics")
		require.NoError(w.t, err)
		exposed.Write(text)
	}
	rules, err := os.ReadFile("../../deploy/alerts.yaml")
	require.NoError(w.t, err)
	asked := string(rules)
	for _, d := range dashboards.All() {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				asked += q.Expr + "\n"
			}
		}
	}
	for _, name := range regexp.MustCompile(`\b(?:waypost|kgs|process|go)_[a-z0-9_]+`).FindAllString(asked, -1) {
		name = strings.TrimSuffix(name, "_bucket")
		if !strings.Contains(exposed.String(), "# TYPE "+name+" ") && !slices.Contains(absent, name) {
			w.t.Errorf("no process has %s", name)
		}
	}
}
