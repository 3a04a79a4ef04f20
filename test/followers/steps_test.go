package followers_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
)

func code(rng *rand.Rand) string { return fmt.Sprintf("code%03d", rng.IntN(60)) }

// step does one thing, which follows from the seed and the number of the step, and from
// nothing that came of the steps before but whether there is a backup.
func (w *world) step(i int, places []string) {
	rng := random(w.seed, uint64(i)+1000)
	n := w.nodes[rng.IntN(len(w.nodes))]
	wire := rng.IntN(len(w.wires))
	w.note("step %d", i)
	switch k := rng.IntN(100); {
	case i%30 == 10 || k == 0:
		w.do("backup", w.takeBackup)
	case (i%30 == 25 || k == 1) && w.backup != "":
		w.do("reset", w.reset)
	case k < 4:
		w.do("history", w.newHistory)
	case k < 30:
		w.put(rng, 1)
	case k < 38:
		w.sql("delete", `UPDATE link SET deleted_at = now() WHERE code = $1 AND deleted_at IS NULL`, code(rng))
	case k < 42:
		w.sql("purge", `DELETE FROM link WHERE code = $1`, code(rng))
	case k < 46:
		w.sql("expire", `UPDATE link SET expires_at = now() + make_interval(secs => $2) WHERE code = $1 AND deleted_at IS NULL`, code(rng), rng.IntN(3))
	case k < 49:
		w.put(rng, 30)
	case k < 56:
		w.do(fmt.Sprintf("cut wire %d", wire), func() { w.sever(wire) })
	case k < 68:
		w.do(fmt.Sprintf("mend wire %d", wire), func() { w.mend(wire) })
	case k < 72:
		w.do(fmt.Sprintf("break wire %d", wire), func() { w.wires[wire].Break() })
	case k < 88:
		w.crash(rng, n, places)
	case k < 91:
		w.do("restart "+n.name, func() { n.end(); n.start() })
	case k < 93:
		w.loseDisks(rng, []*node{n})
	case k < 95:
		w.do("trim", w.trim)
	case k < 97:
		w.spoilDisks(rng, []*node{n})
	default:
		pause := time.Duration(rng.IntN(150)) * time.Millisecond
		w.do("rest "+pause.String(), func() {
			if !w.lockstep {
				time.Sleep(pause)
			}
		})
	}
}

// crash has a node die at one of the places, or the control plane at one of its own, and
// most of the time does what leads there. Otherwise it dies when it reaches it.
func (w *world) crash(rng *rand.Rand, n *node, places []string) {
	place := aWrite
	if w.lockstep || rng.IntN(3) > 0 && len(places) > 0 {
		place = places[rng.IntN(len(places))]
	}
	count := 1 + rng.IntN(2)
	if place == aWrite {
		count = 1 + rng.IntN(40)
	}
	percent := 0
	if !w.lockstep {
		percent = []int{0, 50, 100}[rng.IntN(3)]
	}
	m := &n.mortal
	if serves(place) && rng.IntN(2) == 0 {
		m = &w.plane
	}
	follow := w.arm(m, trap{place, count, percent, rng.Uint64()})
	if serves(place) && m == &n.mortal {
		n = w.below(n)
	}
	if rng.IntN(4) > 0 {
		follow(w, rng, []*node{n})
		w.origin.meanwhile(nil)
	}
}

// serves says that a place is a server's.
func serves(place string) bool {
	return strings.HasPrefix(place, "send ") || strings.HasPrefix(place, "encode ")
}

// ways lead to places: those whose names begin so are reached, behind an earlier death if
// there is one named, by what the function does with nodes.
var ways = []struct {
	place, before string
	lead          lead
}{
	{aWrite, "", (*world).write},
	{"apply changes", "", (*world).write},
	{"commit batch", "", (*world).write},
	{"sync store", "", (*world).write},
	{"prune log", "", func(w *world, rng *rand.Rand, _ []*node) { // more than fits, however well it can be compressed
		for range 4 {
			w.put(rng, 30)
		}
	}},
	{"begin restore", "", (*world).loseDisks},
	{"take slots", "", (*world).loseDisks},
	{"make table", "", (*world).loseDisks},
	{"keep progress", "", (*world).loseDisks},
	{"replace file", "", (*world).loseDisks},
	{"fill store", "", (*world).loseDisks},
	{"take tail", "", func(w *world, rng *rand.Rand, ns []*node) { w.meanwhile(rng); w.loseDisks(rng, ns) }},
	{"swap stores", "", (*world).loseDisks},
	{"resume restore: begun", "keep progress: done", (*world).loseDisks},
	{"resume restore: opened", "fill store: done", (*world).loseDisks},
	{"remove restore", "begin restore: made", (*world).loseDisks},
	{"remove store", "", (*world).missTrimmed},
	{"sweep store", "remove store: begun", (*world).missTrimmed},
	{"set store aside", "", (*world).spoilDisks},
	{"forget stores", "", (*world).spoilDisks},
	{"compare slots", "", (*world).missHistory},
	{"begin repair", "", (*world).missHistory},
	{"replace slots", "", (*world).missHistory},
	{"end repair", "", (*world).missHistory},
	{"repair tail", "", func(w *world, rng *rand.Rand, ns []*node) {
		w.behind(rng, ns, 2, "history", w.newHistory, func() { w.meanwhile(rng) })
	}},
	{"encode batch", "", (*world).write},
	{"send batch: sent behind", "", func(w *world, rng *rand.Rand, ns []*node) { w.behind(rng, ns, 4, "", nil, nil) }},
	{"send batch", "", (*world).write},
	{"send snapshot", "", (*world).loseDisks},
	{"send sums", "", (*world).missHistory},
}

type lead func(w *world, rng *rand.Rand, ns []*node)

// below returns a node that follows another.
func (w *world) below(n *node) *node {
	for _, other := range w.nodes {
		if other.above == n {
			return other
		}
	}
	return n // what follows it is for the others to decide
}

// arm has something die at a place, and returns what leads there.
func (w *world) arm(m *mortal, t trap) lead {
	for _, way := range ways {
		if !strings.HasPrefix(t.place, way.place) {
			continue
		}
		w.counts["crash"]++
		w.note("crash %s at %s %d, %d %% survive", m.name, t.place, t.count, t.percent)
		if way.before != "" {
			m.arm(trap{way.before, 1, t.percent, t.seed + 1}, t)
		} else {
			m.arm(t)
		}
		return way.lead
	}
	require.Fail(w.t, "nothing leads to a place", t.place)
	return nil
}

// writing prepares a transaction that creates and changes links, that many times.
func (w *world) writing(rng *rand.Rand, times int) func() {
	var writes [][]string
	for range times {
		var codes []string
		for range rng.IntN(4) {
			codes = append(codes, code(rng), strconv.Itoa(rng.Int()))
		}
		writes = append(writes, codes)
	}
	return func() {
		for _, codes := range writes {
			err := pgx.BeginFunc(w.t.Context(), w.hand, func(tx pgx.Tx) error {
				if _, err := tx.Exec(w.t.Context(), `SELECT changelog_begin()`); err != nil {
					return err
				}
				for i := 0; i < len(codes); i += 2 {
					_, err := tx.Exec(w.t.Context(), `
						INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, $1, 'https://example.com/' || $2)
						ON CONFLICT (domain_id, code) DO UPDATE SET original_url = excluded.original_url WHERE link.deleted_at IS NULL`, codes[i], codes[i+1])
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				w.t.Error(err) // it may be another goroutine's
			}
		}
	}
}

func (w *world) write(rng *rand.Rand, _ []*node) { w.put(rng, 1) }

// put commits transactions that create and change links.
func (w *world) put(rng *rand.Rand, times int) {
	write := w.writing(rng, times)
	w.do(fmt.Sprintf("put %d transactions", times), func() { w.whole(write) })
}

// whole has all that is written meanwhile read at once, in lockstep.
func (w *world) whole(write func()) {
	if w.lockstep {
		w.origin.whole.Lock()
		defer w.origin.whole.Unlock()
	}
	write()
}

// meanwhile has something written while the next snapshot or sums are read, in lockstep:
// otherwise that happens anyway.
func (w *world) meanwhile(rng *rand.Rand) {
	if write := w.writing(rng, 1); w.lockstep {
		w.origin.meanwhile(write)
	}
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.hand.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err, sql)
}

func (w *world) sql(what, sql string, args ...any) {
	w.do(fmt.Sprint(what, " ", args), func() { w.exec(sql, args...) })
}

func (w *world) sever(wire int) {
	w.cut[w.wires[wire]] = true
	w.wires[wire].Cut()
}

func (w *world) mend(wire int) {
	w.cut[w.wires[wire]] = false
	if w.tiers && w.wires[wire] == w.nodes[2].home {
		return // when the others are at rest
	}
	w.wires[wire].Mend()
}

// behind has nodes miss some transactions, and something else, before they hear of them;
// what comes last is done just before.
func (w *world) behind(rng *rand.Rand, ns []*node, missed int, what string, act, last func()) {
	wires := func(do func(int)) func() {
		return func() {
			for i, wire := range w.wires {
				if slices.ContainsFunc(ns, func(n *node) bool { return n.home == wire }) {
					do(i)
				}
			}
		}
	}
	w.do("cut off "+names(ns), wires(w.sever))
	for range missed {
		w.put(rng, 1)
	}
	if act != nil {
		w.do(what, act)
	}
	if last != nil {
		last()
	}
	w.do("take back "+names(ns), wires(w.mend))
}

func names(ns []*node) string {
	var all []string
	for _, n := range ns {
		all = append(all, n.name)
	}
	return strings.Join(all, ", ")
}

// missHistory opens a new history in which nodes have missed something.
func (w *world) missHistory(rng *rand.Rand, ns []*node) {
	w.behind(rng, ns, 2, "history", w.newHistory, nil)
}

// missTrimmed has nodes miss what is in the changelog no more, nor among the frames that
// are shared.
func (w *world) missTrimmed(rng *rand.Rand, ns []*node) { w.behind(rng, ns, 4, "trim", w.trim, nil) }

func (w *world) loseDisks(_ *rand.Rand, ns []*node) {
	w.do("lose the disk of "+names(ns), func() {
		for _, n := range ns {
			n.end()
			n.fs, n.last = vfs.NewCrashableMem(), waypost.Position{}
			n.start()
		}
	})
}

func (w *world) spoilDisks(_ *rand.Rand, ns []*node) {
	w.do("spoil the disk of "+names(ns), func() {
		for _, n := range ns {
			n.end()
			n.spoil()
			n.last = waypost.Position{}
			n.start()
		}
	})
}

// trim takes everything off the changelog but what the ledger goes on from, and what a
// control plane may write meanwhile about a history that it has seen end.
func (w *world) trim() {
	w.ledger.catchUp(w.db)
	w.exec(`ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
	w.exec(`DELETE FROM changelog WHERE seq < $1`, w.ledger.now.at.Seq)
	w.exec(`ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)
}

// takeBackup keeps what the database is now.
func (w *world) takeBackup() {
	w.ledger.catchUp(w.db)
	w.end()
	w.disconnect()
	w.backup = w.create(w.name)
	w.connect()
	w.serve()
}

// reset puts a backup in place of the database, in a new history: what came after it is
// lost.
func (w *world) reset() {
	w.ledger.catchUp(w.db)
	w.end()
	w.disconnect()
	w.name, w.backup = w.backup, ""
	w.openHand()
	w.open()
	w.openDB()
	w.ledger.begin(w.db)
	w.serve()
}

// newHistory has what PostgreSQL is now begin a new history: under a running control
// plane, or in lockstep, as one that has seen the old history says to the new one what it
// remembers whenever it connects, under none.
func (w *world) newHistory() {
	w.ledger.catchUp(w.db)
	if !w.lockstep {
		w.open()
		w.ledger.begin(w.db)
		return
	}
	w.end()
	w.db.Close()
	w.open()
	w.openDB()
	w.ledger.begin(w.db)
	w.serve()
}

func (w *world) open() {
	w.exec(`SELECT opened FROM changelog_head, changelog_open_epoch('test', epoch, $1, NULL, seq + 1, 0, jsonb_build_object('at', extract(epoch FROM clock_timestamp()), 'ranges', '[]'::jsonb), 1000, 0)`,
		int32(w.ledger.ordinal))
}
