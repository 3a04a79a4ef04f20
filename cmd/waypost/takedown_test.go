package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
	control "waypost/controlplane/node"
	edge "waypost/edge/node"
	"waypost/internal/admin"
	"waypost/internal/config"
	"waypost/internal/listener"
)

// gate passes connections on to a control plane, wherever that is at the moment, and can
// hold everything back without ending a connection.
type gate struct {
	ln net.Listener

	mu     sync.Mutex
	to     string
	open   chan struct{} // closed while nothing is held back
	conns  []net.Conn
	closed bool
}

func newGate(t *testing.T) *gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{ln: ln, open: make(chan struct{})}
	close(g.open)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { g.pass(c) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); g.let(); g.cut(true); all.Wait() })
	return g
}

func (g *gate) pass(c net.Conn) {
	g.mu.Lock()
	to := g.to
	g.mu.Unlock()
	far, err := net.Dial("tcp", to)
	if err != nil {
		_ = c.Close()
		return
	}
	g.mu.Lock()
	g.conns = append(g.conns, c, far)
	over := g.closed
	g.mu.Unlock()
	if over {
		g.cut(true)
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, far}, {far, c}} {
		both.Go(func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buf)
				g.wait()
				if n > 0 {
					if _, werr := way[1].Write(buf[:n]); werr != nil {
						err = werr
					}
				}
				if err != nil {
					_ = c.Close()
					_ = far.Close()
					return
				}
			}
		})
	}
	both.Wait()
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

// hold holds everything back, and let lets it go.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) let() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// cut ends all connections.
func (g *gate) cut(forGood bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = g.closed || forGood
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

// takedownFleet is a control plane and its edges in this process, with gossip over
// loopback.
type takedownFleet struct {
	t        *testing.T
	database string
	dir      string
	gossip   string // address of the control plane's
	gates    [2]*gate
	control  *runningNode
	edges    []*runningNode
	api      *client.Client
}

// runningNode is a whole node in this process.
type runningNode struct {
	admin.Status
	name string
	stop func()
}

var silent = slog.New(slog.DiscardHandler)

func (f *takedownFleet) run(dataDir string, run func(context.Context) error) *runningNode {
	f.t.Helper()
	_ = os.Remove(filepath.Join(dataDir, admin.StatusFile)) // of the node before
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	n := &runningNode{stop: sync.OnceFunc(func() { cancel(); assert.NoError(f.t, <-done) })}
	f.t.Cleanup(n.stop)
	require.Eventually(f.t, func() bool {
		var err error
		n.Status, err = admin.ReadStatus(dataDir)
		return err == nil
	}, 60*time.Second, 5*time.Millisecond)
	return n
}

const gossipKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func (f *takedownFleet) startControl() {
	f.t.Helper()
	cfg, err := config.Load(config.Sources{Environ: []string{
		"WAYPOST_CONTROL_CLUSTER_SECRET=" + gossipKey, "WAYPOST_CONTROL_EDGE_TOKEN=token-of-all-edges", "WAYPOST_GOSSIP_KEY=" + gossipKey,
		"WAYPOST_CONTROL_DATABASE_URL=" + f.database,
	}})
	require.NoError(f.t, err)
	c := &cfg.Control
	c.Addr, c.AdminAddr, c.Region, c.BaseURL = "127.0.0.1:0", "127.0.0.1:0", "eu-west-1", "http://go.example.com"
	c.AnonymousWorkspace, c.Contact = true, "abuse@example.com"
	c.DataDir = filepath.Join(f.dir, "control")
	cfg.Gossip.Addr = f.gossip
	require.NoError(f.t, c.Check())
	settings, err := controlSettings(cfg)
	require.NoError(f.t, err)
	f.control = f.run(c.DataDir, func(ctx context.Context) error { return control.Run(ctx, settings, silent) })
	for _, g := range f.gates {
		g.mu.Lock()
		g.to = f.control.Addr
		g.mu.Unlock()
		g.cut(false)
	}
	f.api, err = client.New("http://"+f.control.Addr, "")
	require.NoError(f.t, err)
}

func (f *takedownFleet) startEdge(i int) *runningNode {
	f.t.Helper()
	cfg, err := config.Load(config.Sources{Environ: []string{"WAYPOST_EDGE_TOKEN=token-of-all-edges", "WAYPOST_GOSSIP_KEY=" + gossipKey}})
	require.NoError(f.t, err)
	e := &cfg.Edge
	e.Addr, e.AdminAddr, e.Region, e.Node = []string{"127.0.0.1:0"}, "127.0.0.1:0", "eu-west-1", fmt.Sprintf("edge-%d", i)
	e.ControlURLs, e.Contact = []string{"http://" + f.gates[i%2].ln.Addr().String()}, "abuse@example.com"
	e.DataDir = filepath.Join(f.dir, e.Node)
	cfg.Gossip.Addr, cfg.Gossip.Seeds = "127.0.0.1:0", []string{f.gossip}
	require.NoError(f.t, e.Check())
	settings, err := edgeSettings(cfg)
	require.NoError(f.t, err)
	settings.ShutdownTimeout, settings.Replica.LookupBytes = time.Second, 16<<20
	n := f.run(e.DataDir, func(ctx context.Context) error { return edge.Run(ctx, settings, silent) })
	n.name = e.Node
	return n
}

// visits answers with the status for a visitor of an edge.
func visits(n *runningNode, code string) (int, string) {
	c := http.Client{
		Timeout: 10 * time.Second, Transport: visitors,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+n.Addr+"/"+code, http.NoBody) //nolint:noctx // bounded
	if err != nil {
		return 0, err.Error()
	}
	req.Host = "go.example.com"
	res, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

var visitors = &http.Transport{MaxIdleConnsPerHost: 16}

// effect does something to a code, and returns the time from then on until visitors of
// each edge get a status.
func (f *takedownFleet) effect(edges []*runningNode, code string, status int, do func() error) []time.Duration {
	f.t.Helper()
	took, began := make([]time.Duration, len(edges)), time.Now()
	var all sync.WaitGroup
	for i, n := range edges {
		all.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				got, _ := visits(n, code)
				if took[i] = time.Since(began); got == status || took[i] > time.Minute {
					return
				}
			}
		})
	}
	require.NoError(f.t, do())
	all.Wait()
	return took
}

func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// copied copies the database, which no process uses, and returns the URL of the copy.
func copied(t *testing.T, database, name string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	from := strings.TrimPrefix(u.Path, "/")
	cfg, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	cfg.User, cfg.Database = "postgres", "postgres"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	require.Eventually(t, func() bool {
		_, err := conn.Exec(t.Context(), `CREATE DATABASE `+pgx.Identifier{from + name}.Sanitize()+` TEMPLATE `+pgx.Identifier{from}.Sanitize())
		if used, ok := errors.AsType[*pgconn.PgError](err); ok && used.Code == objectInUse {
			return false
		}
		require.NoError(t, err)
		return true
	}, 30*time.Second, 20*time.Millisecond)
	u.Path += name
	return u.String()
}

func (f *takedownFleet) everyEdge(code string, status int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		return !slices.ContainsFunc(f.edges, func(n *runningNode) bool { got, _ := visits(n, code); return got != status })
	}, 30*time.Second, 5*time.Millisecond, "%s must answer %d on every edge", code, status)
}

func (f *takedownFleet) block(code, policy string) error {
	n := api.NewBlock{Policy: policy, Reason: "ticket 4711"}
	_, err := client.Send[api.Block](f.t.Context(), f.api, http.MethodPut, client.Path(api.PathBlocks, code), n)
	return err
}

func TestTakedown_ReachesEveryEdgeAndOutlastsRestartsAndARestore(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs edges and PostgreSQL")
	}
	free, err := listener.Claim(t.Context(), "127.0.0.1:0", "") // the control plane opens it again and again
	require.NoError(t, err)
	f := &takedownFleet{t: t, database: testDatabases.Database(t), dir: t.TempDir(), gossip: free.Addr().String()}
	require.NoError(t, free.Close())
	f.gates = [2]*gate{newGate(t), newGate(t)}
	t.Cleanup(visitors.CloseIdleConnections)
	f.startControl()
	const links = 32
	code := func(i int) string { return fmt.Sprintf("phish-%02d", i) }
	for i := range links {
		_, _, err := f.api.Links.Make(t.Context(), client.NewLink{OriginalURL: "https://example.com/bait", CustomCode: code(i)}, client.Write{})
		require.NoError(t, err)
	}
	f.edges = make([]*runningNode, 6)
	if os.Getenv("TEST_LONG") != "" {
		f.edges = make([]*runningNode, 10)
	}
	var starting sync.WaitGroup
	for i := range f.edges {
		starting.Go(func() { f.edges[i] = f.startEdge(i) })
	}
	starting.Wait()
	f.everyEdge(code(links-1), 302)

	t.Log("connected")
	var connected []time.Duration
	for i := range 12 {
		connected = append(connected, f.effect(f.edges, code(i), 451, func() error { return f.block(code(i), "legal") })...)
	}
	t.Logf("from the command to the effect on %d connected edges: median %s, p99 %s", len(f.edges), quantile(connected, 0.5), quantile(connected, 0.99))
	require.Less(t, quantile(connected, 0.95), 5*time.Second, "300 ms where nothing else runs")
	_, page := visits(f.edges[0], code(0))
	require.Contains(t, page, "abuse@example.com")
	status, _ := visits(f.control, code(0))
	require.Equal(t, 451, status, "the control plane's own redirect")

	t.Log("an edge says that the link is blocked, and so does its owner's view")
	asked := client.Query(map[string]string{"url": code(0), "edge": "edge-3"})
	explained, err := client.Get[api.Explanation](t.Context(), f.api, api.PathExplain+asked)
	require.NoError(t, err)
	require.Equal(t, "blocked", explained.Result.Gate)
	require.Equal(t, 451, explained.Result.Status)
	link, err := f.api.Links.Find(t.Context(), "", code(0))
	require.NoError(t, err)
	require.Equal(t, "ticket 4711", link.Blocked.Reason)

	t.Log("the database is backed up")
	f.control.stop()
	backup := copied(t, f.database, "_backup")
	f.startControl()
	f.everyEdge(code(0), 451)
	require.Eventually(t, func() bool { // every edge follows again
		edges, err := f.api.Edges.List(t.Context())
		return err == nil && len(edges) == len(f.edges) && !slices.ContainsFunc(edges, func(e client.Edge) bool {
			return e.State != "alive" || e.HasBlocks == nil || !*e.HasBlocks
		})
	}, 30*time.Second, 10*time.Millisecond)

	t.Log("stalled")
	f.gates[1].hold()
	var behind []*runningNode
	for i, n := range f.edges {
		if i%2 == 1 {
			behind = append(behind, n)
		}
	}
	var stalled []time.Duration
	for i := 12; i < 20; i++ {
		stalled = append(stalled, f.effect(behind, code(i), 410, func() error { return f.block(code(i), "gone") })...)
	}
	t.Logf("on %d edges whose connections have stalled: median %s, p99 %s", len(behind), quantile(stalled, 0.5), quantile(stalled, 0.99))
	require.Less(t, quantile(stalled, 0.95), 10*time.Second, "1 s where nothing else runs")

	t.Log("an edge is restarted meanwhile")
	f.edges[1].stop()
	f.edges[1] = f.startEdge(1)
	status, _ = visits(f.edges[1], code(19))
	require.Equal(t, 410, status, "from its own disk, at the first request")
	require.NoError(t, f.end(code(18)))
	require.Eventually(t, func() bool { status, _ := visits(f.edges[3], code(18)); return status == 302 }, 30*time.Second, 5*time.Millisecond)
	f.gates[1].let()
	f.everyEdge(code(18), 302)

	t.Log("the database is restored to the backup")
	f.control.stop()
	f.database = backup
	f.startControl()
	f.everyEdge(code(19), 410)
	cfg, err := pgx.ParseConfig(backup)
	require.NoError(t, err)
	cfg.User = "postgres"
	hand, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, hand.Close(context.Background())) }()
	number := func(sql string) (n int) {
		require.NoError(t, hand.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return number(`SELECT count(*) FROM link_block`) == 20 }, 30*time.Second, 10*time.Millisecond,
		"edges bring back what the database has forgotten")
	require.Equal(t, 7, number(`SELECT count(*) FROM link_block WHERE place > 12 AND blocked`))
	require.Equal(t, 8, number(`SELECT count(*) FROM audit WHERE action = 'links.block_recovered'`))
	status, _ = visits(f.control, code(19))
	require.Equal(t, 410, status)

	t.Log("the owner deletes and restores the link, and an operator ends the block")
	f.everyEdge(code(3), 451)
	_, err = f.api.Links.Remove(t.Context(), code(3), client.Write{})
	require.NoError(t, err)
	_, _, err = f.api.Links.Restore(t.Context(), code(3), client.Write{})
	require.NoError(t, err)
	f.everyEdge(code(3), 451)
	require.NoError(t, f.end(code(19)))
	f.everyEdge(code(19), 302)
	acts, err := client.Get[api.AuditPage](t.Context(), f.api, api.PathAudit+"?limit=100")
	require.NoError(t, err)
	seen := map[string]int{}
	for _, e := range acts.Entries {
		seen[e.Action]++
	}
	require.Equal(t, 12, seen["links.block"], "%v", seen)
	require.Equal(t, 1, seen["links.unblock"])

	t.Log("a statement by hand holds all writes")
	held, err := hand.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), `UPDATE link SET title = 'by hand'`)
	require.NoError(t, err)
	own := filepath.Join(f.dir, f.edges[4].name, "blocked")
	require.NoError(t, os.WriteFile(own, []byte("https://go.example.com/"+code(20)+"\n"), 0o600))
	require.Eventually(t, func() bool { status, _ := visits(f.edges[4], code(20)); return status == 410 }, 30*time.Second, 5*time.Millisecond,
		"the edge needs no PostgreSQL for its own file")
	status, _ = visits(f.edges[5], code(20))
	require.Equal(t, 302, status, "the file is for that edge alone")
	require.NoError(t, f.block(code(20), "gone"), "a block waits for no change of links")
	f.everyEdge(code(20), 410)
	require.NoError(t, held.Rollback(t.Context()))
	var stopping sync.WaitGroup
	for _, n := range f.edges {
		stopping.Go(n.stop)
	}
	stopping.Wait()
}

func (f *takedownFleet) end(code string) error {
	_, err := client.Send[api.Block](f.t.Context(), f.api, http.MethodDelete, client.Path(api.PathBlocks, code)+"?reason=appeal", nil)
	return err
}
