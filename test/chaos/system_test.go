package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/client"
	"waypost/internal/pgserver"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

const (
	waiting = 100 * time.Second // for everything that has to happen
	agent   = "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"
)

// wire is the proxy between two parts.
type wire = replicationtest.Wire

// control is the place of a control plane, and the wires to it and from it.
type control struct {
	node, region string
	dir          string
	clients      *wire // from those who write
	database     *wire // to PostgreSQL
	api          *client.Client
	probe        string // code of a link that is changed to see whether all is right
	probes       int    // changes of it
	process      atomic.Pointer[devtest.Control]
}

// edge is the place of an edge.
type edge struct {
	node, region string
	relay        bool
	dir          string
	sources      []*wire // to the control planes, or to the relay
	visitors     *wire   // from visitors
	process      atomic.Pointer[devtest.Edge]
}

// system is all processes. The goroutine of the test starts and ends them.
type system struct {
	t        *testing.T
	dir      string
	recorder *Recorder
	web      *http.Client

	primary     atomic.Pointer[pgserver.Server]
	standby     *pgserver.Server
	databases   int   // directories of PostgreSQL so far
	replication *wire // from the standby to the primary

	controls []*control
	edges    []*edge // the relay is the last
}

// socket returns the address of a PostgreSQL that wires lead to.
func socket(s *pgserver.Server) string {
	if s == nil {
		return "/nowhere"
	}
	cfg, err := pgx.ParseConfig(s.URL())
	if err != nil {
		return "/nowhere"
	}
	return filepath.Join(cfg.Host, ".s.PGSQL."+strconv.Itoa(int(cfg.Port)))
}

// newSystem starts everything, and returns once every edge has all links.
func newSystem(t *testing.T, recorder *Recorder) *system {
	t.Helper()
	s := &system{
		t: t, dir: t.TempDir(), recorder: recorder,
		web: &http.Client{
			Timeout:       10 * time.Second,
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	devtest.CopyDatabase(t, s.databaseDir(0))
	s.databases = 1
	s.primary.Store(s.startPostgres(s.databaseDir(0)))
	t.Cleanup(func() { s.stopPostgres(s.primary.Load()) })
	t.Cleanup(func() { s.stopPostgres(s.standby) })
	primary := func() string { return socket(s.primary.Load()) }
	s.replication = replicationtest.NewWire(t, primary)
	s.startStandby()
	for i, region := range []string{"us-east-1", "eu-west-1"} {
		c := &control{node: fmt.Sprintf("control-%d", i+1), region: region, database: replicationtest.NewWire(t, primary)}
		c.dir = filepath.Join(s.dir, c.node, "data")
		c.clients = replicationtest.NewWire(t, c.addr)
		var err error
		c.api, err = client.New(c.clients.URL(), "")
		require.NoError(t, err)
		t.Cleanup(c.api.Close)
		s.controls = append(s.controls, c)
		s.startControl(c)
	}
	for _, e := range []*edge{
		{node: "us-1", region: "us-east-1"},
		{node: "us-2", region: "us-east-1"},
		{node: "eu-1", region: "eu-west-1"},
		{node: "eu-2", region: "eu-west-1"},
		{node: "ap-1", region: "ap-south-1"}, // behind the relay
		{node: "ap-relay", region: "ap-south-1", relay: true},
	} {
		e.dir = filepath.Join(s.dir, e.node, "data")
		require.NoError(t, os.MkdirAll(filepath.Dir(e.dir), 0o700))
		e.visitors = replicationtest.NewWire(t, e.addr)
		for _, c := range s.controls {
			if e.node != "ap-1" {
				e.sources = append(e.sources, replicationtest.NewWire(t, c.addr))
			}
		}
		s.edges = append(s.edges, e)
	}
	s.edges[4].sources = []*wire{replicationtest.NewWire(t, s.edges[5].relayAddr)}
	var starting sync.WaitGroup
	for _, e := range []*edge{s.edges[5], s.edges[0], s.edges[1], s.edges[2], s.edges[3], s.edges[4]} {
		starting.Go(func() { s.startEdge(e) })
	}
	starting.Wait()
	require.False(t, t.Failed())
	for _, c := range s.controls {
		c.probe = "probe-" + c.node
		s.create(client.NewLink{OriginalURL: target(c.probe, 0), CustomCode: c.probe})
	}
	return s
}

// nodes returns the names of the edges.
func nodes() []string { return []string{"us-1", "us-2", "eu-1", "eu-2", "ap-1", "ap-relay"} }

// target returns the nth target of a code, which no other code has.
func target(code string, n int) string { return fmt.Sprintf("https://example.com/%s/%d", code, n) }

func (c *control) addr() string {
	if p := c.process.Load(); p != nil {
		return strings.TrimPrefix(p.API, "http://")
	}
	return "127.0.0.1:0"
}

func (e *edge) addr() string {
	if p := e.process.Load(); p != nil {
		return p.Addr
	}
	return "127.0.0.1:0"
}

func (e *edge) relayAddr() string {
	if p := e.process.Load(); p != nil {
		return p.Relay
	}
	return "127.0.0.1:0"
}

func (s *system) databaseDir(n int) string {
	return filepath.Join(s.dir, fmt.Sprintf("postgresql-%d", n))
}

func (s *system) startPostgres(dir string) *pgserver.Server {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waiting)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: dir, Settings: map[string]string{
		"fsync":            "off", // the power stays on
		"full_page_writes": "off", "wal_keep_size": "256MB", "max_wal_size": "1GB", "wal_sender_timeout": "5s", "wal_receiver_timeout": "5s",
		"wal_retrieve_retry_interval": "200ms",
	}})
	require.NoError(s.t, err)
	return server
}

func (s *system) stopPostgres(server *pgserver.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = server.Stop(ctx) // it may have been killed
}

// byHand sends statements to a PostgreSQL as its operator does.
func byHand(ctx context.Context, server *pgserver.Server, f func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, devtest.Superuser(server))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it was only read from, or is done
	return f(conn)
}

// startStandby makes a standby of the primary, without which nothing is acknowledged from
// then on.
func (s *system) startStandby() {
	s.t.Helper()
	host, port, _ := strings.Cut(s.replication.Addr(), ":")
	dir := s.databaseDir(s.databases)
	s.databases++
	primary := s.primary.Load()
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	devtest.BaseBackup(s.t, fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres sslmode=disable", host, port), filepath.Join(dir, "data"),
		filepath.Dir(socket(primary)), "--write-recovery-conf")
	s.standby = s.startPostgres(dir)
	s.eventually("the standby streams", func(ctx context.Context) error {
		return byHand(ctx, primary, func(conn *pgx.Conn) (err error) {
			var streams bool
			err = conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'`).Scan(&streams)
			if err == nil && !streams {
				err = fmt.Errorf("no standby streams")
			}
			if err != nil {
				return err
			}
			for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
				if _, err := conn.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// family returns a PostgreSQL and all processes that it has started.
func family(server *pgserver.Server) []int {
	pids := []int{server.PID()}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", server.PID(), server.PID()))
	if err != nil {
		return pids // it has ended
	}
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to all processes of a PostgreSQL, first to the one that starts
// others.
func signal(server *pgserver.Server, sig syscall.Signal) {
	for _, pid := range family(server) {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// killPostgres ends a PostgreSQL without a warning.
func (s *system) killPostgres(server *pgserver.Server) {
	s.t.Helper()
	signal(server, syscall.SIGKILL)
	select {
	case <-server.Done():
	case <-time.After(waiting):
		require.Fail(s.t, "PostgreSQL outlives SIGKILL")
	}
}

func (s *system) startControl(c *control) {
	s.t.Helper()
	database := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", pgserver.Role, c.database.Addr(), pgserver.Role)
	p, err := devtest.StartControl(s.t, devtest.ControlConfig{
		Database: database, DataDir: c.dir, Region: c.region, Node: c.node,
	})
	require.NoError(s.t, err)
	ready, err := p.Ready()
	require.NoError(s.t, err)
	require.True(s.t, ready, p.Output())
	c.process.Store(p)
}

// startEdge starts an edge and waits until it answers visitors. Any goroutine may call
// it.
func (s *system) startEdge(e *edge) {
	var urls []string
	for _, w := range e.sources {
		urls = append(urls, w.URL())
	}
	env := []string{"WAYPOST_EDGE_CLICK_JOURNAL=64MiB", "FAILPOINT=bytes of the lookup table@16777216;bytes that stay free@1048576"}
	if e.relay {
		env = append(env, "WAYPOST_EDGE_RELAY_ADDR=127.0.0.1:0")
	}
	p, err := devtest.StartEdge(s.t, devtest.EdgeConfig{
		Control: strings.Join(urls, ","), DataDir: e.dir, Region: e.region, Node: e.node, Env: env,
	})
	if err == nil {
		var ready bool
		if ready, err = p.Ready(); err == nil && !ready {
			err = fmt.Errorf("%s ended:\n%s", e.node, p.Output())
		}
	}
	if err != nil {
		s.t.Errorf("start %s: %v", e.node, err)
		return
	}
	e.process.Store(p)
}

// eventually waits until f returns no error.
func (s *system) eventually(what string, f func(ctx context.Context) error) {
	s.t.Helper()
	require.NoError(s.t, s.await(what, f))
}

// await is eventually for any goroutine.
func (s *system) await(what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), waiting)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	var last error
	for began := time.Now(); ; {
		err := f(ctx)
		if err == nil {
			if took := time.Since(began); took > 3*time.Second {
				s.t.Logf("%s after %s; before: %v", what, took.Round(100*time.Millisecond), last)
			}
			return nil
		}
		last = err
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s: %w", waiting, what, err)
		}
	}
}

// attempt sends a request of the test's own and records it.
func (s *system) attempt(ctx context.Context, do func(context.Context) (Operation, error)) (Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	call := s.recorder.Now()
	op, err := do(ctx)
	op.Call, op.Return = call, s.recorder.Now()
	op.Outcome, op.Detail = outcomeOf(err)
	s.recorder.Add(op)
	return op, err
}

// create makes a link with a code of its own, as often as it takes.
func (s *system) create(link client.NewLink) {
	s.t.Helper()
	s.eventually("created: "+link.CustomCode, func(ctx context.Context) error {
		_, err := s.attempt(ctx, func(ctx context.Context) (Operation, error) {
			c := s.controls[0]
			_, r, err := c.api.Links.Make(ctx, link, client.Write{Wait: "all", Timeout: 3 * time.Second, Key: link.CustomCode})
			return Operation{Kind: Create, Node: c.node, Code: link.CustomCode, Value: link.OriginalURL, Applied: r.Applied}, err
		})
		return err
	})
}

// whole waits until every part is right again: through each control plane a change of a
// link reaches every edge, and every edge shows it.
func (s *system) whole() {
	s.t.Helper()
	failed := make([]error, len(s.controls))
	var work sync.WaitGroup
	for i, c := range s.controls {
		work.Go(func() { failed[i] = s.reaches(c) })
	}
	work.Wait()
	require.NoError(s.t, errors.Join(failed...))
}

// reaches waits until a change through a control plane reaches every edge.
func (s *system) reaches(c *control) error {
	all := fmt.Sprintf("all; edges=%d", len(s.edges))
	err := s.await(c.node+" changes a link everywhere", func(ctx context.Context) error {
		c.probes++
		op, err := s.attempt(ctx, func(ctx context.Context) (Operation, error) {
			op := Operation{Kind: Edit, Node: c.node, Code: c.probe, Value: target(c.probe, c.probes)}
			_, r, err := c.api.Links.Change(ctx, c.probe, changeTo(op.Value), client.Write{Wait: "all", Timeout: 1500 * time.Millisecond})
			op.Applied = r.Applied
			return op, err
		})
		if err == nil && op.Applied != all {
			err = fmt.Errorf("it has reached %s", op.Applied)
		}
		return err
	})
	for _, e := range s.edges {
		err = errors.Join(err, s.await(e.node+" shows the change", func(ctx context.Context) error {
			saw, err := s.ask(ctx, e, c.probe)
			if err == nil && saw != target(c.probe, c.probes) {
				err = fmt.Errorf("it answers %s", saw)
			}
			return err
		}))
	}
	return err
}

// ask asks an edge for a code, past the wires and without a click.
func (s *system) ask(ctx context.Context, e *edge, code string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+e.addr()+"/"+code, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := s.web.Do(req)
	if err != nil {
		return "", err
	}
	return saw(res.StatusCode, res.Header.Get("Location")), res.Body.Close()
}

// saw names what a visitor was answered; "" for what is no answer.
func saw(status int, location string) string {
	switch {
	case status/100 == 3:
		return location
	case status == http.StatusGone:
		return Gone
	case status == http.StatusNotFound:
		return Absent
	case status == http.StatusUnavailableForLegalReasons:
		return Blocked
	case status == http.StatusServiceUnavailable:
		return Later
	}
	return ""
}

// head returns what an edge holds, as heads of PostgreSQL are written.
func (s *system) head(ctx context.Context, e *edge) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.process.Load().Admin+"/readyz", http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := s.web.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var state struct {
		Position, Digest string
	}
	if err := json.NewDecoder(res.Body).Decode(&state); err != nil {
		return "", err
	}
	at, err := waypost.ParsePosition(state.Position)
	return fmt.Sprintf("%d-%d %s", at.Epoch.Ordinal, at.Seq, state.Digest), err
}

// rows reads the links and their clicks from PostgreSQL, and its head.
func (s *system) rows(ctx context.Context) (rows map[string]Row, head string, err error) {
	rows = make(map[string]Row)
	err = byHand(ctx, s.primary.Load(), func(conn *pgx.Conn) error {
		var ordinal int32
		var seq, digest int64
		if err := conn.QueryRow(ctx, `SELECT epoch, seq, digest FROM changelog_head`).Scan(&ordinal, &seq, &digest); err != nil {
			return err
		}
		head = fmt.Sprintf("%d-%d %016x", ordinal, seq, uint64(digest))
		found, err := conn.Query(ctx, `SELECT l.code, l.original_url, l.deleted_at IS NOT NULL,
			EXISTS (SELECT FROM link_block b WHERE b.host = '' AND b.code = l.code AND b.blocked),
			(SELECT coalesce(sum(clicks), 0)::bigint FROM link_click c WHERE c.link_id = l.id) +
			(SELECT coalesce(sum(clicks), 0)::bigint FROM click_part p WHERE p.link_id = l.id) FROM link l`)
		if err != nil {
			return err
		}
		var code string
		var row Row
		_, err = pgx.ForEachRow(found, []any{&code, &row.Target, &row.Deleted, &row.Blocked, &row.Clicks}, func() error {
			rows[code] = row
			return nil
		})
		return err
	})
	return rows, head, err
}

// outputs returns what all processes that run have written, by name.
func (s *system) outputs() map[string]string {
	all := make(map[string]string)
	for _, c := range s.controls {
		if p := c.process.Load(); p != nil {
			all[c.node] = p.Output()
		}
	}
	for _, e := range s.edges {
		if p := e.process.Load(); p != nil {
			all[e.node] = p.Output()
		}
	}
	return all
}

// look notes what a process has written that it must not, before it is replaced.
func (s *system) look(node, output string) {
	for _, bad := range []string{
		"DATA RACE", "panic:", "fatal error:", "quarantine", "clicks were dropped",
		strings.Repeat("e", 32), fmt.Sprintf("%x", devtest.ClusterSecret),
	} {
		if i := strings.Index(output, bad); i >= 0 {
			line := output[max(0, strings.LastIndexByte(output[:i], '\n')+1):]
			if end := strings.IndexByte(line, '\n'); end > 0 && bad != "DATA RACE" && bad != "panic:" {
				line = line[:end]
			}
			s.recorder.Change(func(h *History) { h.Final.Wrong = append(h.Final.Wrong, node+" wrote: "+line) })
		}
	}
}

// byName finds an edge.
func (s *system) byName(node string) *edge {
	return s.edges[slices.IndexFunc(s.edges, func(e *edge) bool { return e.node == node })]
}
