package followers_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// limit bounds the time of anything that has to happen.
const limit = 60 * time.Second

// world is one run: a PostgreSQL, a relay and three edges.
type world struct {
	t        *testing.T
	lockstep bool
	tiers    bool // in lockstep: what is below the relay comes after it
	seed     uint64
	pace     pace

	name    string // of the database
	backup  string // of another that is to be restored some time; "": none
	db      *postgres.DB
	hand    *pgx.Conn
	origin  *origin
	control *serving
	plane   mortal                 // the control plane
	addr    atomic.Pointer[string] // of control
	shadow  *shadow                // in lockstep, what follows control without a wire
	ledger  *ledger
	looks   *rand.Rand // what is observed
	syncs   *rand.Rand // in lockstep, what is durable after a step; nil: everything
	nodes   []*node
	wires   []*replicationtest.Wire
	cut     map[*replicationtest.Wire]bool
	counts  map[string]int
	trace   []string
}

var (
	// atOnce is a world whose parts go on by themselves.
	atOnce = pace{
		sync: 20 * time.Millisecond, heartbeat: 50 * time.Millisecond, silence: 2 * time.Second,
		patience: 150 * time.Millisecond, logBytes: 2 << 10,
	}
	// inLockstep is one in which time makes nothing happen.
	inLockstep = pace{sync: time.Hour, heartbeat: 10 * time.Second, silence: time.Minute, logBytes: 1 << 20}
)

// newWorld makes a world. What is to be done with it, and where nodes die, follows from
// the seed.
func newWorld(t *testing.T, seed uint64, lockstep bool, p pace) *world {
	w := &world{
		t: t, lockstep: lockstep, tiers: lockstep, seed: seed, pace: p, ledger: newLedger(t), looks: random(seed, 1), syncs: random(seed, 2),
		cut: map[*replicationtest.Wire]bool{}, counts: map[string]int{}, plane: mortal{name: "control", lockstep: lockstep},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what was done:\n%s", strings.Join(w.trace, "\n"))
		}
	})
	w.name = w.create("")
	w.connect()
	w.ledger.begin(w.db)
	w.serve()
	w.plant()
	t.Cleanup(func() {
		for _, n := range w.nodes {
			n.arm()
			n.end()
		}
		w.end()
		w.disconnect()
	})
	w.await()
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// serve is the control plane's part.
func (w *world) serve() {
	l := w.plane.begin(nil, waypost.Position{})
	w.origin = &origin{DB: w.db}
	w.control = serve(w.t, w.origin, nil, l, w.pace)
	addr := w.control.addr()
	w.addr.Store(&addr)
	if w.lockstep {
		w.shadow = shade(w.t, w.control.web.URL)
	}
}

// end ends what serve has begun, whether it is alive or not.
func (w *world) end() {
	if w.shadow != nil {
		w.shadow.end()
	}
	w.plane.life.finish()
	require.NoError(w.t, w.control.stop())
}

// shadow is a follower that hears everything as the shared frames come, so that what the
// control plane has read is known.
type shadow struct {
	sink     *replicationtest.Sink
	follower *replication.Follower
	cancel   context.CancelFunc
	done     chan struct{}
}

func shade(t *testing.T, url string) *shadow {
	s := &shadow{sink: replicationtest.NewSink(), done: make(chan struct{})}
	var err error
	s.follower, err = replication.NewFollower(replication.FollowConfig{
		URL: url, Node: "shadow", Sink: s.sink, Logger: quiet, Silence: time.Minute,
		BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond, SnapshotBackoffMin: time.Millisecond,
		SnapshotBackoffMax: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() { defer close(s.done); _ = s.follower.Run(ctx) }() // nothing is fatal
	return s
}

func (s *shadow) end() { s.cancel(); <-s.done }

// plant makes a relay and three edges: two at the control plane, and one below the relay.
// Outside lockstep each edge can follow the other source too.
func (w *world) plant() {
	wire := func(to func() string) *replicationtest.Wire {
		made := replicationtest.NewWire(w.t, to)
		w.wires = append(w.wires, made)
		return made
	}
	control := func() string { return *w.addr.Load() }
	for _, name := range []string{"relay", "edge-1", "edge-2", "edge-3"} {
		w.nodes = append(w.nodes, &node{mortal: mortal{name: name, lockstep: w.lockstep}, t: w.t, pace: w.pace, fs: vfs.NewCrashableMem()})
	}
	relay, one, two, three := w.nodes[0], w.nodes[1], w.nodes[2], w.nodes[3]
	unknown := "127.0.0.1:1"
	for _, n := range w.nodes {
		n.addr.Store(&unknown)
	}
	relay.home, one.home, two.home, three.home = wire(control), wire(control), wire(relay.address), wire(control)
	two.above = relay
	w.plane.inbound = []*replicationtest.Wire{relay.home, one.home, three.home}
	relay.inbound = []*replicationtest.Wire{two.home}
	if w.pace.patience > 0 {
		follow := func(n *node, address func() string, source *mortal) {
			made := wire(address)
			n.more, source.inbound = append(n.more, made), append(source.inbound, made)
		}
		follow(one, relay.address, &relay.mortal)
		follow(two, control, &w.plane)
		follow(three, relay.address, &relay.mortal)
	}
	for _, n := range w.nodes {
		n.start()
	}
}

var databases atomic.Int64

// create makes a database, as a copy of another if that is named.
func (w *world) create(of string) string {
	if of == "" {
		of = "template_test"
	}
	name := fmt.Sprintf("tree_%d", databases.Add(1))
	server := cluster.Server(w.t)
	require.NoError(w.t, server.CreateDatabase(w.t.Context(), name, of))
	w.t.Cleanup(func() { require.NoError(w.t, server.DropDatabase(context.Background(), name)) })
	return name
}

func (w *world) connect() {
	w.openDB()
	w.openHand()
}

func (w *world) openDB() {
	var err error
	w.db, err = postgres.Open(w.t.Context(), postgres.Config{
		URL:    pgservertest.Patient(cluster.Server(w.t).DatabaseURL(w.name)),
		Logger: quiet,
	})
	require.NoError(w.t, err)
	_, err = w.db.EnsureCluster(w.t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(w.t, err)
}

func (w *world) openHand() {
	cfg, err := pgx.ParseConfig(cluster.Server(w.t).DatabaseURL(w.name))
	require.NoError(w.t, err)
	cfg.User = "postgres"
	w.hand, err = pgx.ConnectConfig(w.t.Context(), cfg)
	require.NoError(w.t, err)
}

func (w *world) disconnect() {
	require.NoError(w.t, w.hand.Close(context.Background()))
	w.db.Close()
}

// do does one thing. In lockstep it is over when nothing more follows from it: first the
// control plane and those who follow it come to rest, and only then is what is below the
// relay let at it.
func (w *world) do(what string, act func()) {
	w.counts[strings.Fields(what)[0]]++
	w.note("%s", what)
	if !w.lockstep {
		w.reap()
		act()
		return
	}
	if w.tiers {
		w.nodes[2].home.Cut()
	}
	act()
	w.await()
	w.tell()
}

// await waits, in lockstep, until nothing goes on any more. The nodes make durable what
// they hold, or leave that for later.
func (w *world) await() {
	if !w.lockstep {
		return
	}
	if below := w.nodes[2].home; w.tiers {
		w.rest(func(n *node) bool { return n.above == nil })
		if !w.cut[below] {
			below.Mend()
		}
	}
	all := func(*node) bool { return true }
	w.rest(all)
	for _, n := range w.nodes {
		if w.syncs == nil || w.syncs.IntN(3) > 0 {
			n.sync()
		}
	}
	w.rest(all)
}

// rest waits until some nodes are at rest, and brings those back that die meanwhile.
func (w *world) rest(who func(*node) bool) {
	w.t.Helper()
	end := time.Now().Add(limit)
	head := w.head()
	for {
		w.reap()
		busy := w.busy(who, head)
		if busy == "" {
			if now := w.head(); now != head { // by what was written meanwhile
				head = now
				continue
			}
			return
		}
		require.True(w.t, time.Now().Before(end), busy)
		time.Sleep(time.Millisecond)
		if w.shadow.sink.Position() != head {
			head = w.head()
		}
	}
}

func (w *world) head() waypost.Position {
	head, err := w.db.Head(w.t.Context())
	require.NoError(w.t, err)
	return head.Position
}

// busy says what is not at rest.
func (w *world) busy(who func(*node) bool, head waypost.Position) string {
	if w.shadow.sink.Position() != head || !w.shadow.follower.Status().Connected {
		return "the control plane"
	}
	for _, n := range w.nodes {
		if !who(n) {
			continue
		}
		if why := w.busyNode(n, head); why != "" {
			return fmt.Sprintf("%s %s: %v of %v, %+v", n.name, why, n.db.Position(), head, n.loop.Status())
		}
	}
	for _, n := range w.nodes {
		if who(n) && (!n.life.letGo() || !n.tidy() || n.life.dead.Load()) {
			return n.name + " has something left to remove"
		}
	}
	return ""
}

func (w *world) busyNode(n *node, head waypost.Position) string {
	st := n.loop.Status()
	at, want := n.db.Position(), head
	switch {
	case n.life.dead.Load():
		return "is dead"
	case w.cut[n.home]:
		return ""
	case n.above != nil:
		want = n.above.db.Position()
		if want.IsZero() || at.Epoch == want.Epoch && at.Seq > want.Seq { // it gets nothing there
			return ""
		}
	}
	if at != want || st.Restoring || st.Repairing || !st.Connected {
		return "is on its way"
	}
	return ""
}

// reap starts what has died again.
func (w *world) reap() {
	select {
	case <-w.plane.life.sprung:
		w.end()
		w.serve()
	default:
	}
	for _, n := range w.nodes {
		select {
		case <-n.life.sprung:
			n.end()
			n.start()
		default:
		}
	}
}

// unequal are the places whose number of hits is left to the scheduler in lockstep too:
// slots are taken while tables are made of those before, and how a follower gets what it
// was sent depends on when it asked.
func unequal(place string) bool {
	return place == "take slots: gathered" || strings.HasPrefix(place, "send ") || strings.HasPrefix(place, "encode ")
}

// tell notes what has come of a step.
func (w *world) tell() {
	if _, deaths := w.plane.told(); len(deaths) > 0 {
		w.note("    control died at %s", strings.Join(deaths, " and "))
	}
	for _, n := range w.nodes {
		hits, deaths := n.told()
		var all []string
		for _, place := range slices.Sorted(maps.Keys(hits)) {
			if !unequal(place) {
				all = append(all, fmt.Sprintf("%s ×%d", place, hits[place]))
			}
		}
		died := ""
		if len(deaths) > 0 {
			died = ", died at " + strings.Join(deaths, " and ")
		}
		w.note("    %s is at %s%s; %s", n.name, w.ledger.place(n.db.Position()), died, strings.Join(all, ", "))
	}
}

// look asserts I1, I3 and I4 of what is seen of one link on one node.
func (w *world) look(n *node, code string) {
	w.t.Helper()
	if n.life.dead.Load() {
		return // no one sees it
	}
	before := n.db.Position()
	var rec waypost.Record
	_, found, err := n.db.Link(waypost.DefaultDomain, []byte(code), nil, &rec)
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
	if within, _ := h.between(code, before.Seq, after.Seq, what); within {
		return
	}
	w.ledger.catchUp(w.db)
	_, later := h.between(code, before.Seq, after.Seq, what)
	require.True(w.t, later > 0 || what == nothing || w.ledger.ever[code][what], "I1: %s at %v shows %q for %s, which it never was", n.name, after, what, code)
	// A batch is seen a moment before its position, and by no one else if it dies then. It
	// may be the first one of a repair that leads to another history.
	require.Eventually(w.t, func() bool {
		p := n.db.Position()
		return p.Epoch != after.Epoch || later > 0 && p.Seq >= later || p.Seq == 0 || n.life.dead.Load()
	}, limit, time.Millisecond, "I1: %s at %v shows %q for %s, which has %v", n.name, after, what, code, h.versions[code])
}

// observe looks at some links on every node, and at where it stands.
func (w *world) observe() {
	for _, n := range w.nodes {
		for range 4 {
			w.look(n, code(w.looks))
		}
	}
}

// settle mends everything, waits until all are where PostgreSQL is, and compares them
// record by record.
func (w *world) settle() {
	w.plane.arm()
	for _, n := range w.nodes {
		n.arm()
	}
	w.do("mend everything", func() {
		for _, wire := range w.wires {
			w.cut[wire] = false
			if !w.tiers || wire != w.nodes[2].home {
				wire.Mend()
			}
		}
	})
	w.reap()
	w.compare()
}

// compare holds every record of every node against PostgreSQL's, once all are where that
// is. A control plane that says to a new history what it remembers may move it a little.
func (w *world) compare() {
	head := w.head()
	for end := time.Now().Add(limit); !w.all(head); head = w.head() {
		for _, n := range w.nodes {
			require.True(w.t, time.Now().Before(end), "%s is at %v, PostgreSQL at %v: %+v", n.name, n.db.Position(), head, n.loop.Status())
		}
		w.look(w.nodes[w.looks.IntN(len(w.nodes))], code(w.looks))
		time.Sleep(2 * time.Millisecond)
	}
	want := [][]byte(nil)
	now, err := w.db.Snapshot(w.t.Context(), 0, waypost.Slots-1, func(raw []byte) error {
		want = append(want, slices.Clone(raw))
		return nil
	})
	require.NoError(w.t, err)
	slices.SortFunc(want, slices.Compare)
	for _, n := range w.nodes {
		var got [][]byte
		_, err := n.db.Records(w.t.Context(), func(raw []byte) error {
			got = append(got, slices.Clone(raw))
			return nil
		})
		require.NoError(w.t, err)
		if n.db.Position() != now.Position {
			w.compare()
			return
		}
		slices.SortFunc(got, slices.Compare)
		require.Equal(w.t, want, got, n.name)
		require.Equal(w.t, now.Digest, n.db.Digest())
	}
}

// all says whether all nodes are at a position.
func (w *world) all(at waypost.Position) bool {
	return !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.db.Position() != at })
}

// again is the command that repeats a test.
func again(t *testing.T, seed uint64, steps int) {
	line := fmt.Sprintf("WAYPOST_TREE_SEED=%d WAYPOST_TREE_STEPS=%d go test -race -count=1 -run '^%s$' ./test/followers", seed, steps, t.Name())
	t.Log(line)
}
