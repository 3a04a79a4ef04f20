package treetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/replication/replicationtest"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// world is one run.
type world struct {
	t   *testing.T
	rng *rand.Rand

	name    string // of the database
	copies  int
	backup  string // of another that is to be restored some time; "": none
	db      *postgres.DB
	hand    *pgx.Conn
	control *serving
	addr    atomic.Pointer[string] // of control
	ledger  *ledger
	nodes   []*node
	wires   []*replicationtest.Wire
	counts  map[string]int
}

// WAYPOST_TREE_SEED repeats the choices of a run, and WAYPOST_TREE_STEPS makes it longer. What
// the goroutines of a run do meanwhile differs.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

func TestReplicasEqualPostgreSQLWhateverHappens(t *testing.T) {
	seed := setting(t, "WAYPOST_TREE_SEED", rand.Uint64())
	steps := setting(t, "WAYPOST_TREE_STEPS", 80)
	t.Logf("WAYPOST_TREE_SEED=%d WAYPOST_TREE_STEPS=%d", seed, steps)
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{},
		ledger: &ledger{t: t, histories: map[waypost.Epoch]*history{}, ever: map[string]map[string]bool{}},
	}
	w.name = w.create("")
	w.connect()
	w.ledger.begin(w.db)
	w.serve()
	w.plant()
	t.Cleanup(func() {
		for _, n := range w.nodes {
			n.end()
		}
		w.control.stop()
		w.disconnect()
	})
	for i := range steps {
		w.step(int(i))
		w.observe()
	}
	for _, wire := range w.wires {
		wire.Mend()
	}
	w.settle()
	t.Log(w.counts)
}

// serve is the control plane's part.
func (w *world) serve() {
	w.control = serve(w.t, w.db, nil)
	addr := w.control.addr()
	w.addr.Store(&addr)
}

// plant makes a relay and three edges: two at the control plane, of which one can also follow
// the others, and one below the relay.
func (w *world) plant() {
	wire := func(to func() string) *replicationtest.Wire {
		made := replicationtest.NewWire(w.t, to)
		w.wires = append(w.wires, made)
		return made
	}
	control := func() string { return *w.addr.Load() }
	for _, name := range []string{"relay", "edge-1", "edge-2", "edge-3"} {
		w.nodes = append(w.nodes, &node{t: w.t, name: name, fs: vfs.NewCrashableMem()})
	}
	relay, one, two, three := w.nodes[0], w.nodes[1], w.nodes[2], w.nodes[3]
	unknown := "127.0.0.1:1"
	for _, n := range w.nodes {
		n.addr.Store(&unknown)
	}
	relay.home, one.home, two.home, three.home = wire(control), wire(control), wire(relay.address), wire(control)
	one.peers = []*replicationtest.Wire{wire(relay.address), wire(three.address)}
	two.peers = []*replicationtest.Wire{wire(one.address), wire(three.address)}
	three.peers = []*replicationtest.Wire{wire(one.address), wire(two.address)}
	for _, n := range w.nodes {
		n.start()
	}
}

// create makes a database, as a copy of another if that is named.
func (w *world) create(of string) string {
	w.copies++
	if of == "" {
		of = "template_test"
	}
	name := fmt.Sprintf("tree_%d", w.copies)
	server := cluster.Server(w.t)
	require.NoError(w.t, server.CreateDatabase(w.t.Context(), name, of))
	w.t.Cleanup(func() { require.NoError(w.t, server.DropDatabase(context.Background(), name)) })
	return name
}

func (w *world) connect() {
	url := pgservertest.Patient(cluster.Server(w.t).DatabaseURL(w.name))
	var err error
	w.db, err = postgres.Open(w.t.Context(), postgres.Config{URL: url, Logger: quiet})
	require.NoError(w.t, err)
	_, err = w.db.EnsureCluster(w.t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(w.t, err)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(w.t, err)
	cfg.User = "postgres"
	w.hand, err = pgx.ConnectConfig(w.t.Context(), cfg)
	require.NoError(w.t, err)
}

func (w *world) disconnect() {
	require.NoError(w.t, w.hand.Close(context.Background()))
	w.db.Close()
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.hand.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err, sql)
}

func (w *world) code() string { return fmt.Sprintf("code%03d", w.rng.IntN(60)) }

// step does one thing.
func (w *world) step(i int) {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	wire := w.wires[w.rng.IntN(len(w.wires))]
	var what string
	var do func()
	switch k := w.rng.IntN(100); {
	case i == 20 || k == 0:
		what, do = "backup", w.takeBackup
	case i == 50 || k == 1:
		what, do = "reset", w.reset
	case k < 35:
		what, do = "put", w.put
	case k < 43:
		what, do = "delete", func() { w.exec(`UPDATE link SET deleted_at = now() WHERE code = $1 AND deleted_at IS NULL`, w.code()) }
	case k < 47:
		what, do = "purge", func() { w.exec(`DELETE FROM link WHERE code = $1`, w.code()) }
	case k < 51:
		what, do = "expire", func() {
			w.exec(`UPDATE link SET expires_at = now() + make_interval(secs => $2) WHERE code = $1 AND deleted_at IS NULL`, w.code(), w.rng.IntN(3))
		}
	case k < 54:
		what, do = "burst", func() {
			for range 30 {
				w.put()
			}
		}
	case k < 64:
		what, do = "cut", wire.Cut
	case k < 78:
		what, do = "mend", wire.Mend
	case k < 84:
		what, do = "break", wire.Break
	case k < 90:
		what, do = "crash", func() { w.crash(n, w.rng.IntN(40)) }
	case k < 93:
		what, do = "restart", func() { n.end(); n.start() }
	case k < 95:
		what, do = "lose the disk", func() { n.end(); n.fs, n.last = vfs.NewCrashableMem(), waypost.Position{}; n.start() }
	case k < 97:
		what, do = "trim", func() {
			w.ledger.catchUp(w.db)
			w.exec(`ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
			w.exec(`DELETE FROM changelog WHERE seq < (SELECT seq FROM changelog_head)`)
			w.exec(`ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)
		}
	default:
		what, do = "rest", func() { time.Sleep(time.Duration(w.rng.IntN(200)) * time.Millisecond) }
	}
	w.counts[what]++
	do()
}

// put commits one transaction that creates and changes links.
func (w *world) put() {
	require.NoError(w.t, pgx.BeginFunc(w.t.Context(), w.hand, func(tx pgx.Tx) error {
		if _, err := tx.Exec(w.t.Context(), `SELECT changelog_begin()`); err != nil {
			return err
		}
		for range w.rng.IntN(4) {
			_, err := tx.Exec(w.t.Context(), `
				INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, $1, 'https://example.com/' || $2)
				ON CONFLICT (domain_id, code) DO UPDATE SET original_url = excluded.original_url WHERE link.deleted_at IS NULL`, w.code(), strconv.Itoa(w.rng.Int()))
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// crash kills a node at one of its next writes, or soon.
func (w *world) crash(n *node, writes int) {
	n.crash.after(writes, []int{0, 50, 100}[w.rng.IntN(3)], rand.New(rand.NewPCG(w.rng.Uint64(), 1)))
	for range 3 {
		w.put()
	}
	image, survives := n.crash.crashed(false)
	for end := time.Now().Add(100 * time.Millisecond); image == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		image, survives = n.crash.crashed(false)
	}
	if image == nil {
		image, survives = n.crash.crashed(true)
	}
	n.end() // what it does now is lost
	n.fs, n.last = image, survives
	n.start()
}

// takeBackup keeps what the database is now.
func (w *world) takeBackup() {
	w.ledger.catchUp(w.db)
	w.control.stop()
	w.disconnect()
	w.backup = w.create(w.name)
	w.connect()
	w.serve()
}

// reset puts a backup in place of the database, in a new history: what came after it is lost.
func (w *world) reset() {
	if w.backup == "" {
		return
	}
	w.ledger.catchUp(w.db)
	w.control.stop()
	w.disconnect()
	w.name, w.backup = w.backup, ""
	w.connect()
	w.exec(`SELECT opened FROM changelog_head, changelog_open_epoch('test', epoch, $1, seq + 1, 0, jsonb_build_object('at', extract(epoch FROM clock_timestamp()), 'ranges', '[]'::jsonb), 1000, 0)`,
		int32(w.ledger.ordinal))
	w.ledger.begin(w.db)
	w.serve()
}

// observe looks at some links on every node, and at where it stands.
func (w *world) observe() {
	for _, n := range w.nodes {
		for range 4 {
			w.look(n, w.code())
		}
	}
}

// look asserts I1, I3 and I4 of what is seen of one link on one node.
func (w *world) look(n *node, code string) {
	w.t.Helper()
	before := n.db.Position()
	rec, _, found, err := n.db.Link(waypost.DefaultDomain, []byte(code), nil)
	digest := n.db.Digest()
	after := n.db.Position()
	if before.IsZero() {
		return // it may hold nothing yet
	}
	require.NoError(w.t, err, n.name)
	w.ledger.catchUp(w.db)
	what := nothing
	if found {
		what = describe(&rec)
	}
	if after.Epoch.Ordinal < n.last.Epoch.Ordinal {
		require.Failf(w.t, "I4: an older history came back", "%s was at %v and is at %v", n.name, n.last, after)
	}
	if before.Epoch != after.Epoch || before.Seq == 0 || after.Seq == 0 { // a repair: each link is at a version of its own
		require.True(w.t, what == nothing || w.ledger.ever[code][what], "I1: %s at %v shows %q for %s, which it never was", n.name, after, what, code)
		return
	}
	h := w.ledger.histories[after.Epoch]
	require.NotNil(w.t, h, "I4: nobody has ever opened %v", after.Epoch)
	if n.last.Epoch == after.Epoch {
		require.GreaterOrEqual(w.t, after.Seq, n.last.Seq, "I3: %s went back", n.name)
	}
	n.last = after
	if w.ledger.ever[code] == nil {
		require.Equal(w.t, nothing, what)
		return
	}
	if before.Seq < h.base.Seq {
		return // between the backup and the new history nothing was recorded
	}
	if before == after {
		require.Contains(w.t, h.digests, after.Seq)
		if n.db.Position() == after && digest != h.digests[after.Seq] {
			require.Failf(w.t, "I3: the digest is another", "%s at %v: %016x, PostgreSQL had %016x", n.name, after, digest, h.digests[after.Seq])
		}
	}
	within, later := h.between(code, before.Seq, after.Seq, what)
	if within {
		return
	}
	require.NotZero(w.t, later, "I1: %s at %v shows %q for %s, which has %v", n.name, after, what, code, h.versions[code])
	// A batch is seen a moment before its position.
	require.Eventually(w.t, func() bool {
		p := n.db.Position()
		return p.Epoch != after.Epoch || p.Seq >= later || p.Seq == 0
	}, 60*time.Second, time.Millisecond, "I1: %s at %v shows what comes at %d", n.name, after, later)
}

// settle waits until all are where PostgreSQL is, and compares them record by record.
func (w *world) settle() {
	want := [][]byte(nil)
	head, err := w.db.Snapshot(w.t.Context(), 0, waypost.Slots-1, func(raw []byte) error {
		want = append(want, slices.Clone(raw))
		return nil
	})
	require.NoError(w.t, err)
	slices.SortFunc(want, slices.Compare)
	for _, n := range w.nodes {
		for end := time.Now().Add(60 * time.Second); n.db.Position() != head.Position; time.Sleep(5 * time.Millisecond) {
			require.True(w.t, time.Now().Before(end), "%s is at %v and not at %v: %+v", n.name, n.db.Position(), head.Position, n.loop.Status())
			w.look(n, w.code())
		}
		var got [][]byte
		_, err := n.db.Records(w.t.Context(), func(raw []byte) error {
			got = append(got, slices.Clone(raw))
			return nil
		})
		require.NoError(w.t, err)
		slices.SortFunc(got, slices.Compare)
		require.Equal(w.t, want, got, n.name)
		require.Equal(w.t, head.Digest, n.db.Digest())
	}
}
