// Package drill_test rehearses the loss of PostgreSQL and of a control plane's disk: a
// system that is written to and visited is backed up, loses both, is restored elsewhere,
// and has to be right again. `make drill` runs the long form.
package drill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/internal/pgserver"
	"waypost/internal/pgserver/pgservertest"
	"waypost/test/devtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := devtest.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// limit bounds each wait.
const limit = 90 * time.Second

// budget of the limited link, and where it leads.
const (
	budget    = 40
	limited   = "limited"
	target    = "https://example.com/of/"
	exhausted = "https://example.com/exhausted"
)

// drill is a system of PostgreSQL, control planes and two edges, with the ledger of its
// users and visitors. The edges reach a control plane through a proxy, because they
// survive it.
type drill struct {
	t      *testing.T
	base   string
	server *pgserver.Server
	plane  *devtest.Control
	at     atomic.Pointer[url.URL] // the control plane's
	edges  []*devtest.Edge
	client *http.Client

	mu     sync.Mutex
	codes  map[string]int   // how often each generated code was issued
	clicks map[string]int64 // redirects that visitors were answered, by code
	led    int64            // visitors whom the limited link led to its target
	wrong  []string
}

func begin(t *testing.T) *drill {
	d := &drill{
		t: t, base: t.TempDir(), codes: make(map[string]int), clicks: make(map[string]int64),
		client: &http.Client{
			Timeout: limit, Transport: &http.Transport{MaxIdleConnsPerHost: 16},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	t.Cleanup(d.client.CloseIdleConnections)
	require.NoError(t, os.MkdirAll(filepath.Dir(d.postgres("first")), 0o755))
	devtest.CopyDatabase(t, d.postgres("first"))
	d.startPostgres("first")
	t.Cleanup(func() { d.stopPostgres() })
	d.sql(`CREATE ROLE nightly LOGIN`)
	d.sql(`GRANT waypost_backup TO nightly`)
	d.startControl("control-1", true)
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(d.at.Load()) }, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     log.New(io.Discard, "", 0), // the control plane is away for a while
	}
	proxy := httptest.NewServer(pass)
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	for _, node := range []string{"edge-1", "edge-2"} {
		e, err := devtest.StartEdge(t, devtest.EdgeConfig{
			Control: proxy.URL, DataDir: filepath.Join(d.base, node), Region: "eu", Node: node,
		})
		require.NoError(t, err)
		ready, err := e.Ready()
		require.NoError(t, err)
		require.True(t, ready, e.Output())
		d.edges = append(d.edges, e)
	}
	return d
}

func (d *drill) postgres(name string) string { return filepath.Join(d.base, "postgres", name) }

func (d *drill) startPostgres(name string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), limit)
	defer cancel()
	var err error
	d.server, err = pgserver.Start(ctx, pgserver.Config{Dir: d.postgres(name), Settings: map[string]string{"fsync": "off"}})
	require.NoError(d.t, err)
}

func (d *drill) stopPostgres() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := d.server.Stop(ctx); err != nil {
		d.t.Error(err)
	}
}

// as returns the URL of the database for another login.
func (d *drill) as(login string) string {
	return strings.Replace(d.server.URL(), pgserver.Role+"@", login+"@", 1)
}

func (d *drill) sql(statement string, out ...any) {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.as("postgres"))
	require.NoError(d.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	if len(out) == 0 {
		_, err = conn.Exec(d.t.Context(), statement)
	} else {
		err = conn.QueryRow(d.t.Context(), statement).Scan(out...)
	}
	require.NoError(d.t, err, statement)
}

// lock holds a lock until the returned function is called.
func (d *drill) lock(statement string) (release func()) {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.as("postgres"))
	require.NoError(d.t, err)
	_, err = conn.Exec(d.t.Context(), "BEGIN; "+statement)
	require.NoError(d.t, err)
	return func() { _ = conn.Close(context.Background()) }
}

// startControl starts a control plane, which edges go to if it is the main one.
func (d *drill) startControl(node string, main bool) *devtest.Control {
	d.t.Helper()
	c, err := devtest.StartControl(d.t, devtest.ControlConfig{
		Database: pgservertest.Patient(d.server.URL()), DataDir: filepath.Join(d.base, node),
		Region: "eu", Node: node,
		Env: []string{"FAILPOINT=keys of a lease@500"},
	})
	require.NoError(d.t, err)
	ready, err := c.Ready()
	require.NoError(d.t, err)
	require.True(d.t, ready, c.Output())
	if main {
		at, err := url.Parse(c.API)
		require.NoError(d.t, err)
		d.at.Store(at)
		d.plane = c
	}
	return c
}

// run runs a command of the operator's, and returns its output.
func (d *drill) run(env []string, args ...string) devtest.Result {
	d.t.Helper()
	return devtest.Run(d.t, append([]string{"WAYPOST_API=" + d.plane.API}, env...), args...)
}

func (d *drill) done(args ...string) string {
	d.t.Helper()
	r := d.run(nil, args...)
	require.Zero(d.t, r.Code, "%v: %s%s", args, r.Stdout, r.Stderr)
	return r.Stdout
}

// call sends a request to a control plane, and returns the status.
func (d *drill) call(base, method, path string, body, answer any) int {
	text, err := json.Marshal(body)
	if err != nil {
		return 0
	}
	req, err := http.NewRequestWithContext(d.t.Context(), method, base+path, bytes.NewReader(text))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := d.client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	read, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || answer != nil && res.StatusCode < 300 && json.Unmarshal(read, answer) != nil {
		return 0
	}
	return res.StatusCode
}

// create makes a link with a generated code, and notes the code. It returns "" if it was
// refused or not answered.
func (d *drill) create(base, query string) string {
	var made api.Link
	if d.call(base, http.MethodPost, "/api/v1/urls"+query, api.NewLink{OriginalURL: target + "any"}, &made) != http.StatusCreated {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.codes[made.ShortCode]++
	return made.ShortCode
}

// mustCreate makes n links. Before the loss it waits until all edges have them.
func (d *drill) mustCreate(base string, n int) (codes []string) {
	d.t.Helper()
	for i := range n {
		query := ""
		if i == n-1 && d.plane.Node == "control-1" {
			query = "?wait=all"
		}
		var code string
		require.True(d.t, eventually(func() bool { code = d.create(base, query); return code != "" }))
		codes = append(codes, code)
	}
	return codes
}

// remove deletes links, and waits until all edges know.
func (d *drill) remove(codes []string) {
	d.t.Helper()
	for _, code := range codes {
		status := d.call(d.plane.API, http.MethodDelete, "/api/v1/urls/"+code+"?wait=all", nil, nil)
		require.Contains(d.t, []int{http.StatusOK, http.StatusNoContent}, status)
	}
}

// load creates links and visits what is there, until the returned function is called.
func (d *drill) load(codes []string) (stop func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			// Above a thousand lost links, edges wait for the operator's word.
			pace := time.Tick(pause)
			for n := 0; ctx.Err() == nil && (n < 200 || devtest.Long()); n++ {
				<-pace
				d.create(d.at.Load().String(), "")
			}
		})
	}
	for _, e := range d.edges {
		all.Go(func() {
			pace := time.Tick(pause)
			for n := 0; ctx.Err() == nil; n++ {
				<-pace
				d.follow(e, codes[n%len(codes)])
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	d.t.Cleanup(stop)
	return stop
}

// pause separates two requests of one user or visitor.
const pause = 3 * time.Millisecond

// follow visits a link that is never deleted. Edges answer whatever else is away.
func (d *drill) follow(e *devtest.Edge, code string) {
	status, location := d.visit(e, code)
	d.mu.Lock()
	defer d.mu.Unlock()
	if status != http.StatusFound || location != target+"any" {
		d.wrong = append(d.wrong, fmt.Sprintf("%s of %s: %d to %q", code, e.Node, status, location))
		return
	}
	d.clicks[code]++
}

// spend visits the limited link.
func (d *drill) spend(times int) {
	for n := range times {
		if _, location := d.visit(d.edges[n%len(d.edges)], limited); location == target+limited {
			d.led++
		}
	}
}

// visit follows a code, or an address with its host.
func (d *drill) visit(e *devtest.Edge, address string) (status int, location string) {
	host, code, other := strings.Cut(address, "/")
	if !other {
		host, code = e.Addr, address
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+e.Addr+"/"+code, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	req.Host = host
	req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0")
	res, err := d.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("Location")
}

// requireAll has all edges answer codes with a status.
func (d *drill) requireAll(status int, codes []string, why string) {
	d.t.Helper()
	for _, e := range d.edges {
		for _, code := range codes {
			got, _ := d.visit(e, code)
			require.Equal(d.t, status, got, "%s of %s: %s", code, e.Node, why)
		}
	}
}

// counted returns the clicks that PostgreSQL has counted, by code.
func (d *drill) counted() map[string]int64 {
	d.t.Helper()
	var text []byte
	d.sql(`SELECT coalesce(json_object_agg(l.code, c.n), '{}') FROM link l
		JOIN (SELECT link_id, sum(clicks) AS n FROM link_click GROUP BY link_id) c ON c.link_id = l.id WHERE l.domain_id = 1
		AND l.code <> '`+limited+`'`, &text)
	counts := make(map[string]int64)
	require.NoError(d.t, json.Unmarshal(text, &counts))
	return counts
}

// manifest holds the parts of a backup's manifest that the drill compares.
type manifest struct {
	Position, Digest, Cluster string
	Links                     int64
}

func TestDrill_PostgreSQLAndTheControlPlanesDiskAreLost(t *testing.T) {
	links := 20
	if devtest.Long() {
		links = 500
	}
	started := time.Now()
	d := begin(t)
	say := func(format string, args ...any) {
		t.Helper()
		t.Logf("%5.1f s  "+format, append([]any{time.Since(started).Seconds()}, args...)...)
	}

	// A system with links, deleted links and a budget, under load.
	// A new edge is waited for once it has reported.
	var shown string
	alive := eventually(func() bool {
		shown = d.done("edges") // and the control planes
		alive := 0
		for line := range strings.Lines(shown) {
			if strings.HasPrefix(line, "edge-") && strings.Contains(line, " alive ") {
				alive++
			}
		}
		return alive == len(d.edges)
	})
	require.True(t, alive, shown)
	kept := d.mustCreate(d.plane.API, links)
	deleted := d.mustCreate(d.plane.API, 5)
	d.remove(deleted)
	require.Equal(t, http.StatusCreated, d.call(d.plane.API, http.MethodPost, "/api/v1/urls?wait=all", api.NewLink{
		OriginalURL: target + limited, CustomCode: limited, MaxClicks: budget, MaxClicksMode: "exact", ExhaustedURL: exhausted,
	}, nil))
	d.done("domains", "add", "case.example")
	var typed, shouted []string
	for i := range 10 {
		link, alias := fmt.Sprintf("Link%d", i), fmt.Sprintf("Box%d", i)
		require.Equal(t, http.StatusCreated, d.call(d.plane.API, http.MethodPost, "/api/v1/urls", api.NewLink{
			OriginalURL: target + "any", CustomCode: link, Domain: "case.example",
			Aliases: []api.NewAlias{{ShortCode: alias, Domain: "case.example"}},
		}, nil))
		typed = append(typed, "case.example/"+link, "case.example/"+alias)
		shouted = append(shouted, "case.example/"+strings.ToUpper(link), "case.example/"+strings.ToUpper(alias))
	}
	d.done("domains", "set", "case.example", "--case", "insensitive")
	require.True(t, eventually(func() bool { return strings.Count(d.done("domains", "list"), "switch") == 0 }))
	stop := d.load(kept)
	d.spend(budget / 4)
	require.True(t, eventually(func() bool { return total(d.counted()) > 0 }))
	say("%d links are visited while more are made", links)

	out := filepath.Join(d.base, "backup")
	r := d.run([]string{"WAYPOST_CONTROL_DATABASE_URL=" + d.as("nightly")}, "backup", "--out", out, "--output", "json")
	require.Zero(t, r.Code, r.Stderr)
	var m manifest
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &m))
	say("backed up %d links at %s under load", m.Links, m.Position)

	// These the backup does not know.
	lost := d.mustCreate(d.plane.API, 5)
	undone := d.mustCreate(d.plane.API, 1)
	d.remove(undone)
	d.spend(budget / 4)
	atBackup := total(d.counted())
	var atLoss int64
	require.True(t, eventually(func() bool { atLoss = total(d.counted()); return atLoss > atBackup }), "clicks are counted after the backup")

	// PostgreSQL and the disk of the control plane are gone; visitors do not notice.
	d.plane.Kill()
	<-d.plane.Exited()
	d.stopPostgres()
	require.NoError(t, os.RemoveAll(d.postgres("first")))
	require.NoError(t, os.RemoveAll(filepath.Join(d.base, "control-1")))
	say("PostgreSQL and the control plane are lost, with %d clicks counted", atLoss)
	d.requireAll(http.StatusFound, lost, "edges serve without PostgreSQL")
	d.spend(budget / 4)

	d.startPostgres("second")
	restore := []string{"restore", out, "--database-url", d.as("postgres")}
	r = d.run([]string{"WAYPOST_CONTROL_CLUSTER_SECRET=" + strings.Repeat("ab", 32)}, restore...)
	require.Equal(t, 1, r.Code, "another cluster secret")
	require.Contains(t, r.Stderr, "cluster secret is not that of the backup")
	secret := "WAYPOST_CONTROL_CLUSTER_SECRET=" + fmt.Sprintf("%x", devtest.ClusterSecret)
	r = d.run([]string{secret}, restore...)
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, "add up to the digest of the manifest")
	var rows int64
	d.sql(`SELECT count(*) FROM link`, &rows)
	require.Equal(t, m.Links, rows, "all rows of the moment, and no other")
	r = d.run([]string{secret}, restore...)
	require.Equal(t, 1, r.Code, "a database that is not empty")
	require.Contains(t, r.Stderr, "is not empty")
	say("restored")
	// As a backup holds a domain that is being switched back.
	d.sql(`SET waypost.switching = 'on';
		UPDATE domain SET ignores_case = false, case_switching = true WHERE host = 'case.example';
		UPDATE link SET code = typed_code, typed_code = NULL WHERE typed_code IS NOT NULL AND id % 2 = 0;
		UPDATE link_alias a SET target = l.domain_id || '/' || l.code FROM link l WHERE l.id = a.link_id`)
	d.requireAll(http.StatusFound, append(typed, shouted...), "edges have the switched domain")

	r = d.run([]string{"WAYPOST_CONTROL_DATABASE_URL=" + d.server.URL()}, "migrate")
	require.Zero(t, r.Code, r.Stderr)
	d.startControl("control-2", true)
	other := d.startControl("control-3", false)
	require.Contains(t, d.done("ranges", "list"), "NO KEY IS ISSUED", "no control plane remembers")
	stop() // creates wait for the operator
	d.done("ranges", "resume", "--gap", "1000000")
	say("two control planes run, and keys are issued again")

	// I9, I8: no code twice, and ranges do not overlap.
	fresh := append(d.mustCreate(other.API, links), d.mustCreate(d.plane.API, links)...)
	say("%d links are made by both", len(fresh))
	for code, n := range d.codes {
		require.Equal(t, 1, n, "%s was issued %d times", code, n)
	}
	var overlaps, epochs int
	d.sql(`SELECT count(*) FROM key_lease a JOIN key_lease b ON a.id < b.id AND a.prefix = b.prefix AND a.lo < b.hi AND b.lo < a.hi`, &overlaps)
	require.Zero(t, overlaps)
	d.sql(`SELECT count(*) FROM changelog_epoch`, &epochs) // I4
	require.Equal(t, 2, epochs, "one epoch was opened")

	// I3: the edges have what PostgreSQL has.
	var verified devtest.Result
	if !eventually(func() bool {
		verified = d.run(nil, "verify", "--all")
		if devtest.Long() && strings.Contains(verified.Stdout, "held (") {
			d.run(nil, "edges", "accept", "edge-1") // which is refused if it is the other one
			d.run(nil, "edges", "accept", "edge-2")
			say("the operator has accepted that edges lose the links of the lost history")
		}
		return verified.Code == 0
	}) {
		require.Zero(t, verified.Code, "%s%s\n%s", verified.Stdout, verified.Stderr, d.done("edges"))
	}
	require.Contains(t, d.done("verify", "--source"), "equal")
	say("the edges are sound, and PostgreSQL is")
	require.True(t, eventually(func() bool {
		return d.run(nil, "links", "create", "https://example.com/", "--wait", "all", "--require-wait").Code == 0
	}), "the edges have caught up")

	// I1, I2: every visitor was answered with the link that there is.
	require.Empty(t, d.wrong)
	d.requireAll(http.StatusFound, kept, "it was backed up")
	d.requireAll(http.StatusFound, fresh, "it is new")
	d.requireAll(http.StatusGone, deleted, "it was deleted before the backup")
	d.requireAll(http.StatusFound, typed, "the switch has ended")
	d.requireAll(http.StatusNotFound, shouted, "case counts again")
	d.requireAll(http.StatusNotFound, append(lost, undone...), "it was made after the backup")

	// The budget is one for both histories.
	require.Eventually(t, func() bool {
		d.spend(budget / 10)
		_, location := d.visit(d.edges[0], limited)
		return location == exhausted || d.led >= budget
	}, limit, 100*time.Millisecond)
	require.LessOrEqual(t, d.led, int64(budget), "an exact budget")

	// I6: clicks count once, those of the lost history too. The visits above of kept links
	// count as well.
	want := maps.Clone(d.clicks)
	for _, code := range append(kept, fresh...) {
		want[code] += int64(len(d.edges))
	}
	var got map[string]int64
	if !eventually(func() bool { got = d.counted(); return maps.Equal(want, got) }) {
		require.Equal(t, want, got)
	}
	require.Greater(t, total(want), int64(links))
	say("%d clicks count once, %d visitors of a budget of %d were led to its target", total(want), d.led, budget)
}

func total(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func eventually(is func() bool) bool {
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-poll.C {
		if is() {
			return true
		}
	}
	return false
}
