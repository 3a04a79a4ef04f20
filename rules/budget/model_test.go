package budget_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost/rules/budget"
)

// flaw is a mistake that the model can make on purpose, to show that it would be noticed.
type flaw int

const (
	none             flaw = iota
	spendsFirst           // a grant is spent before it is durable
	returnsAlive          // clicks are given back before the edge stops spending them
	forgetsBoots          // the accounts of a boot that died are not reported
	grantsFrozen          // a restored history grants before edges have reported
	reclaimsOfOthers      // the control plane takes back what a silent edge holds
	trustsNewDisks        // an edge whose disk was replaced counts as one that has reported
	forgetsSpent          // the control plane forgets accounts of earlier boots, whatever they have spent
)

type bootKey struct{ edge, boot int }

// history models PostgreSQL.
type history struct {
	epoch    int
	base     int64 // counts as used besides the accounts
	accounts map[bootKey]budget.Account
	awaited  map[int]bool // edges that have to report in this epoch
	disks    map[int]int  // that edges had when they reported
}

func (h *history) clone() *history {
	c := &history{epoch: h.epoch, base: h.base, accounts: map[bootKey]budget.Account{}, awaited: map[int]bool{}, disks: maps.Clone(h.disks)}
	for k, a := range h.accounts {
		c.accounts[k] = a
	}
	for e := range h.awaited {
		c.awaited[e] = true
	}
	return c
}

func (h *history) used() int64 {
	used := h.base
	for _, a := range h.accounts {
		used += a.Used()
	}
	return used
}

// edgeNode is one edge. Its file survives a crash, its holding does not.
type edgeNode struct {
	boot    int
	epoch   int // newest that it has seen
	gone    bool
	disk    int                   // how often it was replaced
	file    map[int]budget.Totals // by boot
	holding budget.Holding
}

// message is an answer of the control plane on its way.
type message struct {
	edge, boot, epoch int
	granted           int64
}

// world is one budget with its edges.
type world struct {
	flaw   flaw
	limit  int64
	db     *history
	backup *history
	edges  []*edgeNode
	flight []message
	clicks int64 // redirected in all
}

func newWorld(f flaw, limit int64, edges int) *world {
	w := &world{flaw: f, limit: limit}
	w.db = &history{epoch: 1, accounts: map[bootKey]budget.Account{}, awaited: map[int]bool{}, disks: map[int]int{}}
	for range edges {
		w.edges = append(w.edges, &edgeNode{file: map[int]budget.Totals{}, epoch: 1})
	}
	w.backup = w.db.clone()
	return w
}

// step does one thing. draw returns a number below n.
func (w *world) step(draw func(n int) int) {
	id := draw(len(w.edges))
	e := w.edges[id]
	switch draw(11) {
	case 0, 1, 2: // visitors
		for range 1 + draw(4) {
			if _, ok := e.holding.Spend(); ok {
				w.clicks++
			}
		}
	case 3, 4: // the edge reports and asks; the answer may come late, twice or never
		w.ask(id, int64(1+draw(20)))
	case 5, 6: // an answer arrives
		if len(w.flight) > 0 {
			i := draw(len(w.flight))
			w.arrive(w.flight[i])
			if draw(3) > 0 {
				w.flight = append(w.flight[:i], w.flight[i+1:]...)
			}
		}
	case 7: // kill -9
		w.start(e)
	case 8: // idle clicks are given back
		w.giveBack(e)
	case 9: // a backup is made, or the present one is restored
		if draw(2) == 0 {
			w.backup = w.db.clone()
			return
		}
		w.restore()
	case 10:
		switch n := draw(4); {
		case n == 0:
			w.lose(id)
		case n == 1 && !e.gone: // its disk is replaced
			*e = edgeNode{boot: e.boot + 1, disk: e.disk + 1, file: map[int]budget.Totals{}}
		case w.flaw == reclaimsOfOthers:
			k := bootKey{id, e.boot}
			a := w.db.accounts[k]
			a.Returned = a.Granted - a.Spent
			w.db.accounts[k] = a
		}
	}
}

// commit makes totals durable, and then spendable. With spendsFirst the power goes
// before they are durable, and the boot goes on.
func (w *world) commit(e *edgeNode, t budget.Totals) {
	if w.flaw != spendsFirst {
		e.file[e.boot] = t
	}
	e.holding.Apply(t)
}

func (w *world) giveBack(e *edgeNode) {
	if w.flaw == returnsAlive {
		t := e.holding.Totals
		t.Returned += e.holding.Left()
		e.holding.Totals = t // and the clicks are still there
		e.file[e.boot] = t
		return
	}
	if e.holding.Withdraw(0) > 0 {
		e.file[e.boot] = e.holding.Totals
	}
}

// start begins a new boot.
func (w *world) start(e *edgeNode) {
	if e.gone {
		return
	}
	e.boot++
	e.holding = budget.Holding{}
}

// lose takes an edge away with its disk; an operator says so.
func (w *world) lose(id int) {
	e := w.edges[id]
	if e.gone {
		return
	}
	e.gone, e.holding = true, budget.Holding{}
	if w.db.awaited[id] {
		delete(w.db.awaited, id)
		w.burn()
	}
}

// burn counts the whole limit as used, because grants of it may be forgotten. The part
// that is left now would not do, because returns may be forgotten as well.
func (w *world) burn() { w.db.base = max(w.db.base, w.limit) }

// restore begins a new history from the backup.
func (w *world) restore() {
	epoch := w.db.epoch + 1
	w.db = w.backup.clone()
	w.db.epoch = epoch
	w.backup = w.db.clone()
	for id, e := range w.edges {
		if e.gone && !w.db.awaited[id] { // an operator says so again
			w.burn()
			continue
		}
		w.db.awaited[id] = true
	}
}

// ask is one exchange with the control plane, whose answer is on its way.
func (w *world) ask(id int, want int64) {
	e := w.edges[id]
	if e.gone {
		return
	}
	for boot, t := range e.file { // reported in full, as in a new epoch
		if w.flaw == forgetsBoots && boot != e.boot {
			continue
		}
		w.merge(bootKey{id, boot}, budget.Account{Granted: t.Granted, Returned: t.Returned})
	}
	k := bootKey{id, e.boot}
	a := w.merge(k, e.holding.Account())
	defer w.forgetReturned()
	if w.db.awaited[id] && w.db.disks[id] != e.disk && w.flaw != trustsNewDisks {
		w.burn()
	}
	delete(w.db.awaited, id)
	w.db.disks[id] = e.disk
	frozen := len(w.db.awaited) > 0 && w.flaw != grantsFrozen
	if a.Granted == e.holding.Granted && !frozen {
		a.Granted += budget.Pool{Limit: w.limit, Used: w.db.used(), Edges: int64(len(w.edges))}.Grant(want, 1)
	}
	w.db.accounts[k] = a
	w.flight = append(w.flight, message{id, e.boot, w.db.epoch, a.Granted})
	e.epoch = max(e.epoch, w.db.epoch)
}

// merge takes the account of an edge into the database, which believes claims above what
// it knows while it may have forgotten grants, and claims of clicks that were all given
// back.
func (w *world) merge(k bootKey, a budget.Account) budget.Account {
	known := w.db.accounts[k]
	if a.Used() > 0 && len(w.db.awaited) == 0 {
		a = a.Within(known.Granted)
	}
	known = known.Merge(a)
	w.db.accounts[k] = known
	return known
}

// forgetReturned removes the accounts whose clicks were all given back.
func (w *world) forgetReturned() {
	for k, a := range w.db.accounts {
		if a.Used() == 0 || w.flaw == forgetsSpent && k.boot < w.edges[k.edge].boot {
			delete(w.db.accounts, k)
		}
	}
}

func (w *world) arrive(m message) {
	e := w.edges[m.edge]
	if e.gone || e.boot != m.boot || m.epoch < e.epoch {
		return
	}
	e.epoch = m.epoch
	if t := e.holding.Plan(m.granted); t != e.holding.Totals {
		w.commit(e, t)
	}
}

func TestBudget_NeverExceedsItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(none, int64(rapid.IntRange(1, 60).Draw(t, "limit")), rapid.IntRange(1, 4).Draw(t, "edges"))
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			w.step(draw)
			require.LessOrEqual(t, w.clicks, w.limit)
		}
	})
}

// A budget that refuses everything would hold every bound.
func TestBudget_IsSpentToTheLastClick(t *testing.T) {
	for range 200 {
		w := newWorld(none, int64(1+rand.IntN(200)), 3)
		for range 400 {
			id := rand.IntN(3)
			for range 1 + rand.IntN(3) {
				if _, ok := w.edges[id].holding.Spend(); ok {
					w.clicks++
				}
			}
			if w.edges[id].holding.Left() == 0 {
				w.ask(id, 5)
				w.arrive(w.flight[len(w.flight)-1])
			}
		}
		for id := range w.edges { // clicks that an idle edge holds go to the others
			w.giveBack(w.edges[id])
			w.ask(id, 0)
		}
		for range 400 {
			w.ask(0, 5)
			w.arrive(w.flight[len(w.flight)-1])
			if _, ok := w.edges[0].holding.Spend(); ok {
				w.clicks++
			}
		}
		require.Equal(t, w.limit, w.clicks)
	}
}

func TestModel_NoticesEachMistake(t *testing.T) {
	exceeds := func(f flaw) bool {
		seeds := uint64(8000)
		if f == none {
			seeds = 4000
		}
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(f, int64(1+r.IntN(40)), 1+r.IntN(4))
			for range 300 {
				w.step(r.IntN)
				if w.clicks > w.limit {
					return true
				}
			}
		}
		return false
	}
	require.False(t, exceeds(none))
	for name, f := range map[string]flaw{
		"a grant is spent before it is durable": spendsFirst, "clicks are returned while they can be spent": returnsAlive,
		"accounts of earlier boots are not reported": forgetsBoots, "a restored history grants at once": grantsFrozen,
		"clicks of a silent edge are reclaimed": reclaimsOfOthers, "a new disk is taken for a whole report": trustsNewDisks,
		"accounts of earlier boots are forgotten with the clicks that they have spent": forgetsSpent,
	} {
		require.True(t, exceeds(f), name)
	}
}
