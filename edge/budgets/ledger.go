package budgets

import (
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/api"
	"waypost/rules/budget"
)

// ledger holds the accounts of an edge in memory. Visitors take its lock, so that no
// goroutine holds the lock while it waits for the disk or the network.
type ledger struct {
	table   *table
	started time.Time
	most    int // open accounts

	mu     sync.Mutex
	open   map[name]*account
	closed closed

	expected []name // links to ask for clicks of before a visitor comes
	holding  int    // accounts with clicks left, at the last tick
}

// account is the open account of a link. Its totals change while the locks of both the
// log and the ledger are held.
type account struct {
	budget.Holding

	entry
	queued      atomic.Bool  // to be asked for
	refillAt    atomic.Int64 // at that number of clicks left, more are asked for; -1: at none
	pausedUntil atomic.Int64 // nanoseconds of ledger.clock until which no answer can be another one
	visitors    atomic.Int64 // in [Store.SpendOrAsk]
	waiting     atomic.Int64 // visitors without a click whom the next answer wakes

	// The lock of the ledger guards these.
	last     bool          // all clicks of the budget are spent, except the clicks that are left here
	answered chan struct{} // closed by the next answer; nil: no visitor waits
	want     int64         // size of the next grant
	since    time.Time     // of the last grant
	reported budget.Account
	left     int64     // clicks at the last tick
	moved    time.Time // when their number changed
}

// unknown differs from every account.
var unknown = budget.Account{Granted: -1}

func newLedger(mostOpen, mostClosed int) *ledger {
	return &ledger{
		table: newTable(), started: time.Now(), most: mostOpen,
		open: make(map[name]*account), closed: newClosed(mostClosed),
	}
}

// clock returns the time since the start, which no step of the machine's clock changes.
func (l *ledger) clock() time.Duration { return time.Since(l.started) }

func (l *ledger) isPaused(a *account) bool { return int64(l.clock()) < a.pausedUntil.Load() }

func (l *ledger) pause(a *account, d time.Duration) { a.pausedUntil.Store(int64(l.clock() + d)) }

// enter returns the account of a link for a visitor, who must leave it. An account is not
// closed while it has a visitor. Nil: there are too many accounts.
func (l *ledger) enter(n name) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.open[n]
	if a == nil {
		if len(l.open) >= l.most {
			return nil
		}
		a = l.openAccount(n)
	}
	a.visitors.Add(1)
	return a
}

func (a *account) leave() { a.visitors.Add(-1) }

// isExhausted reports whether all clicks of the budget are spent, as far as is known.
func (l *ledger) isExhausted(a *account) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.last && a.Left() == 0
}

// withdraw takes back the clicks of an account beyond keep, and returns their number.
// These clicks are not spent. The lock of the ledger is held.
func (a *account) withdraw(keep int64) int64 {
	n := a.Withdraw(keep)
	a.last = a.last && n == 0
	return n
}

// openAccount makes an account with an id that no other account ever has, because the
// control plane would treat a reused id as an account that lost its grants on the way.
func (l *ledger) openAccount(n name) *account {
	a := &account{entry: entry{name: n}, want: 1}
	_, _ = rand.Read(a.id[:]) // never fails
	a.refillAt.Store(-1)
	l.open[n] = a
	l.table.insert(a)
	return a
}

// nextAnswer returns a channel that the next answer closes.
func (l *ledger) nextAnswer(a *account) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.answered == nil {
		a.answered = make(chan struct{})
	}
	return a.answered
}

// wakeVisitors ends the wait of visitors.
func (l *ledger) wakeVisitors(all []*account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range all {
		if a.answered != nil {
			close(a.answered)
			a.answered = nil
		}
	}
}

// question is an account in a report.
type question struct {
	account *account
	shown   budget.Account
	want    int64
	waiting int64 // visitors
}

// changed is an account with totals that are to become durable.
type changed struct {
	account *account
	totals  budget.Totals
	ahead   bool // the grant came before a visitor waited
	last    bool // no other click can be spent
}

// questionsFor lists accounts that need clicks.
func (l *ledger) questionsFor(due []*account) (report []question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, a := range due {
		if l.open[a.name] != a {
			continue
		}
		switch last := now.Sub(a.since); {
		case last < quickGrant:
			a.want = min(2*a.want, budget.MaxGrant)
		case last > slowGrant:
			a.want = max(1, a.want/2)
		}
		// The clicks that are left are for visitors who wait and have not been woken yet.
		waiting := min(max(0, a.waiting.Load()-a.Left()), budget.MaxGrant)
		report = append(report, question{a, a.Account(), max(a.want, waiting), waiting})
	}
	return report
}

// withdrawIdle takes back the clicks that no visitor has taken for that long. It leaves
// one for the next visitor, for much longer. The lock of the log is held.
func (l *ledger) withdrawIdle(idle time.Duration) (withdrawn []changed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.holding = 0
	for _, a := range l.open {
		left := a.Left()
		if left > 0 {
			l.holding++
		}
		quiet, keep := now.Sub(a.moved), int64(1)
		if left != a.left {
			a.left, a.moved = left, now
			continue
		}
		if quiet > lastIdle*idle {
			keep = 0
		}
		if quiet > idle && a.withdraw(keep) > 0 {
			a.left = keep // its time goes on
			withdrawn = append(withdrawn, changed{account: a, totals: a.Totals})
		}
	}
	return withdrawn
}

// withdrawRecalled takes back the clicks of links that visitors of other edges wait for,
// unless visitors of this edge do. The lock of the log is held.
func (l *ledger) withdrawRecalled(links []api.EdgeLink) (withdrawn []changed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range links {
		a := l.open[name{waypost.DomainID(n.Domain), n.Code}]
		if a != nil && a.visitors.Load() == 0 && a.withdraw(0) > 0 {
			withdrawn = append(withdrawn, changed{account: a, totals: a.Totals})
		}
	}
	return withdrawn
}

// isHolding reports whether the edge has clicks that may be recalled.
func (l *ledger) isHolding() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holding > 0
}

// expect notes a link that visitors may come to, unless the edge has clicks of it, or
// holds clicks of very many links.
func (l *ledger) expect(n name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holding+len(l.expected) < min(maxExpected, l.most/2) && len(l.open) < l.most/2 {
		l.expected = append(l.expected, n)
	}
}

// openExpected returns accounts to ask for clicks of, up to most. The accounts are
// queued. Links whose last question has just failed are still expected.
func (l *ledger) openExpected(most int) (due []*account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(most, len(l.expected))
	left := l.expected[n:]
	for _, e := range l.expected[:n] {
		a := l.open[e]
		if a == nil {
			a = l.openAccount(e)
		}
		if l.isPaused(a) {
			left = append(left, e)
		} else if a.Left() == 0 && a.queued.CompareAndSwap(false, true) {
			due = append(due, a)
		}
	}
	if l.expected = left; len(l.expected) == 0 {
		l.expected = nil
	}
	return due
}

// dropUnused closes accounts that were granted nothing.
func (l *ledger) dropUnused(due []*account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropAccounts(slices.DeleteFunc(due, func(a *account) bool {
		return l.open[a.name] != a || a.Granted > 0 || !a.isFinished()
	}))
}

// withdrawAll takes back all clicks. The lock of the log is held.
func (l *ledger) withdrawAll() (withdrawn []changed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.open {
		if a.withdraw(0) > 0 {
			withdrawn = append(withdrawn, changed{account: a, totals: a.Totals})
		}
	}
	return withdrawn
}

// news lists the accounts that changed since their last report, except accounts with a
// question under way. The lock of the log is held.
func (l *ledger) news() (report []question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.open {
		if shown := a.Account(); shown != a.reported && !a.queued.Load() {
			report = append(report, question{account: a, shown: shown})
		}
	}
	return report
}

// doubt notes that an answer was lost, which may have been a grant: the next one repeats
// it.
func (l *ledger) doubt(report []question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range report {
		q.account.reported = unknown
	}
}

// planGrants applies an answer to the accounts, and lists the grants and returns that
// have to become durable. The lock of the log is held.
func (l *ledger) planGrants(report []question, grants []api.EdgeGrant) (plans []changed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, g := range grants {
		a := report[i].account
		if l.open[a.name] != a {
			continue
		}
		a.reported = report[i].shown
		// Clicks that were given back in the meantime can be spent by other edges.
		last := g.State == "used" && a.Returned == report[i].shown.Returned
		pause := time.Duration(0)
		switch g.State {
		case "gone":
			l.pause(a, usedPause)
			a.withdraw(0)
			l.dropAccounts([]*account{a})
			continue
		case "none": // the budget may come back, and its spent clicks count
			l.pause(a, usedPause)
			a.withdraw(0)
			a.last = false
			t := a.Plan(g.Granted)
			t.Returned += t.Granted - a.Granted
			a.Apply(t)
			plans = append(plans, changed{account: a, totals: t})
			continue
		case "held":
			pause = heldPause
		case "used":
			pause = usedPause
		}
		l.pause(a, pause)
		if g.Granted > a.Granted && g.Granted <= budget.MaxLimit {
			a.last = false
			plans = append(plans, changed{a, a.Plan(g.Granted), report[i].waiting == 0, last})
			continue
		}
		a.last = last
		if report[i].want > 0 {
			a.refillAt.Store(-1) // too few are left
		}
	}
	return plans
}

// applyGrants lets the clicks be spent that durable totals have more than the present
// ones, and returns their number. The lock of the log is held.
func (l *ledger) applyGrants(plans []changed) (granted int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, p := range plans {
		n := p.totals.Granted - p.account.Granted
		if n == 0 {
			continue
		}
		p.account.Apply(p.totals)
		p.account.last = p.last
		p.account.refillAt.Store(refillPoint(n, p.ahead))
		p.account.since = now
		granted += n
	}
	return granted
}

// refillPoint returns at how many clicks left more are asked for after a grant. A grant
// of one click to a visitor who waited may mean that few are left for all edges: then
// each visitor asks.
func refillPoint(granted int64, ahead bool) int64 {
	if granted == 1 && !ahead {
		return -1
	}
	return granted / 2
}

// closeFinished closes accounts when there is little room for other links.
func (l *ledger) closeFinished() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) <= l.most*3/4 {
		return
	}
	var all []*account
	for _, a := range l.open {
		if !a.isFinished() {
			continue
		}
		if a.Granted > a.Returned {
			l.closed.put(a.entry, a.Totals)
		}
		if all = append(all, a); len(all) == closeAtOnce {
			break
		}
	}
	l.dropAccounts(all)
}

// isFinished reports whether nothing of an account is left, for a visitor or to be
// reported.
func (a *account) isFinished() bool {
	return a.Left() == 0 && a.visitors.Load() == 0 && !a.queued.Load() && a.answered == nil && a.Account() == a.reported
}

func (l *ledger) dropAccounts(all []*account) {
	for _, a := range all {
		delete(l.open, a.name)
	}
	l.table.remove(all)
}

// inherit adds accounts of earlier boots.
func (l *ledger) inherit(accounts map[entry]budget.Totals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, t := range accounts {
		l.closed.put(e, t)
	}
}

// forgetClosed forgets an account of which nothing is to be reported again.
func (l *ledger) forgetClosed(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed.remove(e)
}

// entries lists all accounts.
func (l *ledger) entries() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]entry, 0, len(l.open)+l.closed.len())
	for e := range l.closed.all() {
		all = append(all, e)
	}
	for _, a := range l.open {
		all = append(all, a.entry)
	}
	return all
}

// page returns the first accounts of a list for a report, as far as they are still
// known. The clicks of an account that is closed are spent, or can never be. The lock of
// the log is held.
func (l *ledger) page(all []entry) (page []entry, wired []api.EdgeBudget, rest []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(all) > 0 && len(page) < api.MaxEdgeBudgets {
		e := all[0]
		all = all[1:]
		if a := l.open[e.name]; a != nil && a.entry == e {
			page, wired = append(page, e), append(wired, wire(e, a.Account()))
		} else if t, ok := l.closed.get(e); ok {
			page, wired = append(page, e), append(wired, wire(e, budget.Account{
				Granted: t.Granted, Returned: t.Returned, Spent: t.Granted - t.Returned,
			}))
		}
	}
	return page, wired, all
}

// appendTotals appends a record for each account, and returns the number of accounts. The
// lock of the log is held.
func (l *ledger) appendTotals(text []byte) ([]byte, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, t := range l.closed.all() {
		text = appendAccount(text, e, t)
	}
	for _, a := range l.open {
		if a.Totals != (budget.Totals{}) {
			text = appendAccount(text, a.entry, a.Totals)
		}
	}
	return text, len(l.open) + l.closed.len()
}
