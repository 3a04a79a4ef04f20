// Package budget has the arithmetic of click budgets: limits on the clicks of links that
// edges redirect without asking one another.
//
// It is escrow. The control plane grants an edge some of the clicks that are left, the
// edge spends them alone, and the control plane counts them as used from the moment of
// the grant. An edge keeps, for every budget, an account of its present start (boot).
// The totals of an account only grow, so that a message may be lost, repeated or late:
// the greatest value of each total is the newest one.
//
// Three rules keep the limit, whatever dies:
//
//   - A grant is durable on the edge before it is spent, see [Holding.Plan].
//   - Only the boot that took clicks returns some, and it stops spending them before
//     it says so ([Holding.Withdraw]). The clicks of a boot that has died count as spent.
//   - A history of PostgreSQL that was restored grants nothing before the edges have
//     reported their accounts, because it may have forgotten grants.
//
// The package is pure: it has no clock, no files and no network.
package budget

import "sync/atomic"

const (
	// MaxLimit bounds the limit of a budget, and every total of an account.
	MaxLimit = 1_000_000_000_000

	// MaxGrant bounds the clicks of one grant.
	MaxGrant = 10_000

	// share bounds the grants that no visitor waits for: all edges together hold at most
	// 1/share of the clicks that were left.
	share = 4
)

// Pool is the control plane's side of a budget at one moment.
type Pool struct {
	Limit int64
	Used  int64 // clicks that edges have spent, or may spend
	Edges int64 // that may ask for clicks; 0 is 1
}

// Left returns how many clicks can still be granted.
func (p Pool) Left() int64 { return max(0, p.Limit-p.Used) }

// Ahead returns how many clicks an edge gets at most before a visitor waits for them.
func (p Pool) Ahead() int64 { return p.Left() / (share * max(1, p.Edges)) }

// Grant returns how many of the wanted clicks an edge gets: the clicks for which visitors
// wait while any is left, or as many as [Pool.Ahead] allows if that is more.
func (p Pool) Grant(want, waiting int64) int64 {
	return max(0, min(want, p.Left(), MaxGrant, max(waiting, p.Ahead())))
}

// Account holds the totals of a budget that one boot of an edge and the control plane
// report to each other. Totals only grow.
type Account struct {
	Granted  int64 // clicks taken
	Returned int64 // clicks given back unspent
	Spent    int64 // clicks redirected, as far as is known
}

// Used returns the clicks that count as used.
func (a Account) Used() int64 { return a.Granted - a.Returned }

// Valid reports whether the totals are possible.
func (a Account) Valid() bool {
	return 0 <= a.Returned && a.Returned <= a.Granted && a.Granted <= MaxLimit && 0 <= a.Spent && a.Spent <= a.Used()
}

// Within returns the account as far as its totals are possible with that many clicks
// taken.
func (a Account) Within(granted int64) Account {
	a.Granted = min(a.Granted, granted)
	a.Returned = min(a.Returned, a.Granted)
	a.Spent = min(a.Spent, a.Used())
	return a
}

// Merge returns the newer value of each total.
func (a Account) Merge(b Account) Account {
	return Account{max(a.Granted, b.Granted), max(a.Returned, b.Returned), max(a.Spent, b.Spent)}
}

// Totals are the part of a holding that an edge makes durable.
type Totals struct {
	Granted, Returned int64
}

// Holding is an edge's side of a budget: the clicks that its present boot may spend. Any
// number of goroutines call Spend. One goroutine calls everything else.
type Holding struct {
	left atomic.Int64
	Totals
}

// Spend takes one click, and reports whether there was one and how many are left.
func (h *Holding) Spend() (left int64, ok bool) {
	for {
		n := h.left.Load()
		if n <= 0 {
			return 0, false
		}
		if h.left.CompareAndSwap(n, n-1) {
			return n - 1, true
		}
	}
}

// Left returns how many clicks can be spent.
func (h *Holding) Left() int64 { return h.left.Load() }

// Account returns the totals for the control plane.
func (h *Holding) Account() Account {
	return Account{h.Granted, h.Returned, h.Granted - h.Returned - h.left.Load()}
}

// Plan returns the totals after a grant. They must be durable before [Holding.Apply]. A
// total that is not above the present one is an old message, and changes nothing.
func (h *Holding) Plan(granted int64) Totals {
	t := h.Totals
	t.Granted = max(t.Granted, granted)
	return t
}

// Apply lets the clicks be spent that durable totals have more than the present ones.
func (h *Holding) Apply(t Totals) {
	more := t.Granted - t.Returned - (h.Granted - h.Returned)
	h.Totals = t
	h.left.Add(more)
}

// Withdraw takes back the clicks that are left beyond keep, and returns their number. No
// goroutine can spend them afterwards. The totals say so at once; they must be durable
// before the control plane hears of them.
func (h *Holding) Withdraw(keep int64) int64 {
	for {
		n := h.left.Load()
		if n <= keep {
			return 0
		}
		if h.left.CompareAndSwap(n, keep) {
			h.Returned += n - keep
			return n - keep
		}
	}
}
