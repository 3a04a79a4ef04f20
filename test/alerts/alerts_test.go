// Package alerts_test makes each condition true in a real system, and shows that the
// metric of the node, the API that the console reads, doctor, and the rules of
// deploy/alerts.yaml in a real Prometheus say so. It has no code of its own.
package alerts_test

import (
	"context"
	"encoding/json"
	"fmt"
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

	"waypost/internal/condition"
	"waypost/internal/pgserver"
	"waypost/migrations"
	"waypost/test/devtest"
)

const patience = time.Minute

// quick makes nodes look at their conditions more often, makes clicks late sooner, and
// lets a condition that has to last do so for a six-hundredth of its time.
const quick = "FAILPOINT=conditions are looked at every@500ms;a minute of conditions lasts@100ms;clicks are late after@5s"

const (
	gossipKey = "0707070707070707070707070707070707070707070707070707070707070707"
	edgeToken = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee" // as devtest.ControlConfig has it
)

// world is a control plane, edges, PostgreSQL, and a Prometheus that watches them.
type world struct {
	t          *testing.T
	database   *pgserver.Server
	control    *devtest.Control
	two        *devtest.Control         // another one
	edges      map[string]*devtest.Edge // by node, the last of each
	admins     map[string]string        // admin listeners by node, HOST:PORT
	ended      []string                 // nodes that were killed
	targets    string                   // directory in which Prometheus finds the admin listeners
	prometheus string                   // its address
	gossip     string                   // address of the first control plane
	dirs       map[string]string        // data directories of the edges
	disk       string                   // small one that was mounted last
	stop       func()                   // ends what lasts no longer than its fault
}

// start runs a system with three faults: a certificate ends soon, a region has few keys
// because codes are short, and PostgreSQL does not sync.
func start(t *testing.T) *world {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		prometheus, err = filepath.Abs("../../bin/tools/prometheus")
		require.NoError(t, err)
		if _, err := os.Stat(prometheus); err != nil {
			t.Skip("no prometheus: deploy/install-missing.sh prometheus")
		}
	}
	w := &world{
		t: t, targets: t.TempDir(), edges: make(map[string]*devtest.Edge), admins: make(map[string]string),
		dirs: make(map[string]string), gossip: freePort(t),
	}
	w.database, err = pgserver.Start(t.Context(), pgserver.Config{
		Dir: filepath.Join(t.TempDir(), "postgres"), Settings: map[string]string{"fsync": "off"},
	})
	require.NoError(t, err)
	t.Cleanup(w.stopDatabase)
	require.NoError(t, migrations.Up(t.Context(), w.database.URL()))
	w.control = w.controlIn(t.TempDir(), "one", "eu-west-1", "FAILPOINT=keys of a lease@20", "WAYPOST_CLEANUP_INTERVAL=1s",
		"WAYPOST_GOSSIP_ADDR="+w.gossip, "WAYPOST_GOSSIP_KEY="+gossipKey)
	cert, key := certificate(t)
	w.edge("eu-1", "WAYPOST_TLS_ADDR=127.0.0.1:0", "WAYPOST_TLS_CERT_FILE="+cert, "WAYPOST_TLS_KEY_FILE="+key)
	w.edge("eu-2", "FAILPOINT=bytes of a click segment@4096;bytes of exact compacted segments@1;clicks become a batch after@10ms")
	w.watch(prometheus)
	return w
}

func (w *world) stopDatabase() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(w.t, w.database.Stop(ctx))
}

// controlIn starts a control plane in a directory.
func (w *world) controlIn(dir, node, region string, env ...string) *devtest.Control {
	w.t.Helper()
	c, err := devtest.StartControl(w.t, devtest.ControlConfig{
		Database: w.database.URL(), DataDir: dir, Region: region, Node: node, Env: append(env, "WAYPOST_CONTROL_CODE_LENGTH=5", quick),
	})
	require.NoError(w.t, err)
	ready, err := c.Ready()
	require.NoError(w.t, err)
	require.True(w.t, ready, c.Output())
	w.scrape("waypost-control", node, c.Admin)
	return c
}

func (w *world) edge(node string, env ...string) *devtest.Edge {
	w.t.Helper()
	return w.edgeIn(w.t.TempDir(), node, env...)
}

func (w *world) edgeIn(dir, node string, env ...string) *devtest.Edge {
	w.t.Helper()
	e, err := devtest.StartEdge(w.t, devtest.EdgeConfig{
		Control: w.control.API, DataDir: dir, Region: "eu-west-1", Node: node, Env: append(env, quick),
	})
	require.NoError(w.t, err)
	ready, err := e.Ready()
	require.NoError(w.t, err)
	require.True(w.t, ready, e.Output())
	w.edges[node], w.dirs[node] = e, dir
	w.scrape("waypost-edge", node, e.Admin)
	return e
}

// scrape has Prometheus watch an admin listener.
func (w *world) scrape(job, node, admin string) {
	w.t.Helper()
	addr := strings.TrimPrefix(admin, "http://")
	w.admins[node] = addr
	text, err := json.Marshal([]map[string][]string{{"targets": {addr}}})
	require.NoError(w.t, err)
	file := filepath.Join(w.targets, job+"."+strings.ReplaceAll(addr, ":", ".")+".json")
	require.NoError(w.t, os.WriteFile(file+".new", text, 0o600))
	require.NoError(w.t, os.Rename(file+".new", file))
}

// kill ends a node, which is not asked from then on.
func (w *world) kill(node string, process interface{ Kill() }) {
	process.Kill()
	w.ended = append(w.ended, node)
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
  - job_name: waypost-control
    scrape_interval: 1s
    scrape_timeout: 1s
    file_sd_configs: [{files: ["%[1]s/waypost-control.*.json"], refresh_interval: 1s}]
  - {job_name: waypost-edge, file_sd_configs: [{files: ["%[1]s/waypost-edge.*.json"], refresh_interval: 1s}]}
`, w.targets)
	file := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	w.prometheus = freePort(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.CommandContext(context.Background(), prometheus,
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+w.prometheus)
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

// freePort returns an address of this machine that no process uses, HOST:PORT.
func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	return ln.Addr().String()
}

func TestConditions_HaveAFaultEach(t *testing.T) {
	made := make(map[string]bool)
	for i := range faults {
		for _, s := range faults[i].says {
			require.NotNil(t, condition.Find(s.name), s.name)
			made[s.name] = true
		}
	}
	for i := range condition.List() {
		require.True(t, made[condition.List()[i].Name], "%s: no fault in a real system makes it true", condition.List()[i].Name)
	}
}

func TestConditions_AreSaidEverywhere(t *testing.T) {
	w := start(t)
	for i := range faults {
		f := &faults[i]
		if f.long && !devtest.Long() || f.root && os.Geteuid() != 0 {
			continue
		}
		began := time.Now()
		w.stop = func() {}
		f.make(w)
		w.hears(f)
		w.stop()
		if f.heal != nil {
			f.heal(w)
		}
		t.Logf("%s: %s", f.what, time.Since(began).Round(10*time.Millisecond))
	}
}

// hears waits until all that is to be said of a fault is said.
func (w *world) hears(f *fault) {
	w.t.Helper()
	var missing []string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if missing = w.unsaid(f); len(missing) == 0 {
			return
		}
		if f.meanwhile != nil {
			f.meanwhile(w)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		}
	}
	w.t.Errorf("%s: not said:\n%s", f.what, strings.Join(missing, "\n"))
}

// unsaid returns what the metric of the node, the API, Prometheus and doctor do not say
// of a fault. While the API does not work, admin listeners are asked instead. Doctor is
// asked last, because it takes longest.
func (w *world) unsaid(f *fault) (missing []string) {
	var args []string
	reported := w.reported
	if f.dark {
		args, reported = []string{"--admin", strings.Join(w.alive(), ",")}, w.answered
	}
	reports, alerts := reported(), w.firing()
	for _, s := range f.says {
		if k := condition.Find(s.name); k.On != 0 && !w.measured(s) {
			missing = append(missing, "metric: "+s.name+" by "+s.node())
		}
		if !slices.Contains(reports, s.where+" "+s.name) {
			missing = append(missing, "report: "+s.name+" of "+s.where)
		}
		if !slices.ContainsFunc(alerts, func(a alert) bool { return w.concerns(a, s) }) {
			missing = append(missing, "alert: "+s.name+" of "+s.where)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	doctor := devtest.Run(w.t, []string{"WAYPOST_API=" + w.control.API}, append([]string{"doctor"}, args...)...)
	for _, s := range f.says {
		words := regexp.MustCompile(`(?m)^(?:CRITICAL|WARNING)  ` + regexp.QuoteMeta(s.where) + `: .*(?:\n          .*)+/` + s.name + `\.md$`)
		if doctor.Code != 1 || !words.MatchString(doctor.Stdout) || !strings.Contains(doctor.Stdout, s.why) {
			missing = append(missing, "doctor: "+s.name+" of "+s.where+" in "+doctor.Stdout)
		}
	}
	return missing
}

// measured reports whether the metric of the node says that a condition is true.
func (w *world) measured(s said) bool {
	text, _, err := get(w.t, "http://"+w.admins[s.node()]+"/metrics")
	return err == nil && regexp.MustCompile(`(?m)^waypost_condition\{name="`+s.name+`",[^}]*\} 1$`).Match(text)
}

// alert is an alert that fires.
type alert struct {
	Labels map[string]string
	State  string
}

// concerns reports whether an alert fires for a condition, and for the node, region or
// edge that has it.
func (w *world) concerns(a alert, s said) bool {
	if a.State != "firing" || a.Labels["alertname"] != s.name {
		return false
	}
	if condition.Find(s.name).Cluster {
		return s.where == "cluster" || a.Labels["of"] == s.where
	}
	return a.Labels["instance"] == w.admins[s.where]
}

// firing returns the alerts that fire. Before Prometheus answers there are none.
func (w *world) firing() []alert {
	var answer struct{ Data struct{ Alerts []alert } }
	if text, _, err := get(w.t, "http://"+w.prometheus+"/api/v1/alerts"); err != nil || json.Unmarshal(text, &answer) != nil {
		return nil
	}
	return slices.DeleteFunc(answer.Data.Alerts, func(a alert) bool { return a.State != "firing" })
}

// onlyFire reports whether these alerts fire, and no others, except for the disk of the
// machine.
func (w *world) onlyFire(names ...string) bool {
	var have []string
	for _, a := range w.firing() {
		if name := a.Labels["alertname"]; name != "DiskFills" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	return slices.Equal(slices.Compact(have), names)
}

// member is a node as the API or its admin listener shows it.
type member struct {
	Node       string `json:"node"`
	Conditions []struct {
		Name string `json:"name"`
		Of   string `json:"of"`
	} `json:"conditions"`
}

// names returns the conditions of a node as "WHERE NAME".
func (m *member) names() (names []string) {
	for _, c := range m.Conditions {
		where := m.Node
		if c.Of != "" {
			where = c.Of
		} else if condition.Find(c.Name).Cluster {
			where = "cluster"
		}
		names = append(names, where+" "+c.Name)
	}
	return names
}

// fleet asks the API as the console does.
func (w *world) fleet() (edges, controls []member) {
	w.t.Helper()
	var f struct {
		Edges         []member `json:"edges"`
		ControlPlanes []member `json:"control_planes"`
	}
	if text, status, err := get(w.t, w.control.API+"/api/admin/edges"); err == nil && status == http.StatusOK {
		require.NoError(w.t, json.Unmarshal(text, &f))
	}
	return f.Edges, f.ControlPlanes
}

// reported returns all conditions that the API shows.
func (w *world) reported() (names []string) {
	edges, controls := w.fleet()
	for _, m := range append(edges, controls...) {
		names = append(names, m.names()...)
	}
	return names
}

// answered returns all conditions that the admin listeners show.
func (w *world) answered() (names []string) {
	for _, addr := range w.alive() {
		var m member
		if text, _, err := get(w.t, "http://"+addr+"/readyz"); err == nil && json.Unmarshal(text, &m) == nil {
			names = append(names, m.names()...)
		}
	}
	return names
}

// alive returns the admin listeners of the nodes that were not killed.
func (w *world) alive() (addrs []string) {
	for node, addr := range w.admins {
		if !slices.Contains(w.ended, node) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// absent lists metrics of what these processes are not configured for, or not asked.
var absent = []string{"waypost_authentications_total", "waypost_geoip_build_time_seconds"}

// metricsExist looks in the running processes for every metric that alerts and dashboards
// ask for.
func (w *world) metricsExist() {
	var exposed strings.Builder
	for _, node := range []string{"one", "eu-1"} {
		text, _, err := get(w.t, "http://"+w.admins[node]+"/metrics")
		require.NoError(w.t, err)
		exposed.Write(text)
	}
	rules, err := os.ReadFile("../../deploy/alerts.yaml")
	require.NoError(w.t, err)
	asked := string(rules)
	files, err := filepath.Glob("../../deploy/dashboards/*.json")
	require.NoError(w.t, err)
	require.NotEmpty(w.t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(w.t, err)
		asked += string(text)
	}
	for _, name := range regexp.MustCompile(`\b(?:waypost|kgs|process|go)_[a-z0-9_]+`).FindAllString(asked, -1) {
		name = strings.TrimSuffix(name, "_bucket")
		if !strings.Contains(exposed.String(), "# TYPE "+name+" ") && !slices.Contains(absent, name) {
			w.t.Errorf("no process has %s", name)
		}
	}
}
