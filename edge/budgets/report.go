package budgets

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"waypost/api"
	"waypost/api/requestid"
	"waypost/internal/failpoint"
	"waypost/rules/budget"
)

// Run asks for clicks and reports what was spent, until ctx ends. Then it
// returns everything that is left, and closes the store.
func (s *Store) Run(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	defer s.close(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-s.due:
			s.round(ctx, a, false)
		case <-ticker.C:
			s.round(ctx, nil, true)
		}
	}
}

// round makes one report, or several if one does not hold everything.
func (s *Store) round(ctx context.Context, first *account, all bool) {
	due := s.gather(first)
	ok := s.reportAll(ctx)
	if !ok { // the answer may have named another epoch
		ok = s.reportAll(ctx)
	}
	for report := s.collect(due, all); ok && len(report) > 0; {
		n := min(len(report), api.MaxEdgeBudgets)
		ok = s.send(ctx, report[:n])
		report = report[n:]
	}
	for _, a := range due {
		if !ok {
			a.dry.Store(int64(s.clock() + failedFor))
		}
		a.queue.Store(false)
	}
	s.release(due)
}

// gather takes everything out of the queue.
func (s *Store) gather(first *account) (due []*account) {
	if first != nil {
		due = append(due, first)
	}
	for {
		select {
		case a := <-s.due:
			due = append(due, a)
		default:
			return due
		}
	}
}

// release ends the wait of visitors.
func (s *Store) release(due []*account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range due {
		if a.waiting != nil {
			close(a.waiting)
			a.waiting = nil
		}
	}
}

// unknown differs from every account.
var unknown = budget.Account{Granted: -1}

// asking is an account in a report.
type asking struct {
	account *account
	shown   budget.Account
	want    int64
}

// collect lists the accounts that ask, and if all, those with news. Clicks that were idle
// for long are taken back first.
func (s *Store) collect(due []*account, all bool) (report []asking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	asks := make(map[*account]bool, len(due))
	for _, a := range due {
		if s.accounts[a.name] != a {
			continue
		}
		asks[a] = true
		switch last := now.Sub(a.since); {
		case last < fast:
			a.want = min(2*a.want, budget.MaxGrant)
		case last > slow:
			a.want = max(1, a.want/2)
		}
		report = append(report, asking{a, a.Account(), min(max(a.want, a.visitors.Load()), budget.MaxGrant)})
	}
	if !all {
		return report
	}
	s.mend(now)
	s.closeFinished()
	var returned []byte
	for _, a := range s.accounts {
		if left := a.Left(); left != a.left {
			a.left, a.moved = left, now
		} else if left > 0 && now.Sub(a.moved) > s.cfg.Idle && !s.broken.Load() {
			a.Withdraw()
			a.left = 0
			returned = appendAccount(returned, a.entry, a.Totals)
		}
		if shown := a.Account(); shown != a.reported && !asks[a] {
			report = append(report, asking{a, shown, 0})
		}
	}
	if len(returned) > 0 && !s.append(returned) {
		return nil // the control plane must not hear of it
	}
	return report
}

// mend writes a new file when the present one has failed, or has become large, or when
// accounts of earlier boots could not be adopted. The lock is held.
func (s *Store) mend(now time.Time) {
	if !s.broken.Load() && !s.adopting && s.size < roomy+8*int64(len(s.accounts)+s.closed.len())*maxBody || now.Sub(s.mended) < mendEach {
		return
	}
	s.mended = now
	if err := s.save(); err != nil {
		s.fail("cannot write the grants of click budgets", err)
	}
}

// newest adopts the replica's epoch, and returns the newest. The lock is held.
func (s *Store) newest(epoch uint32) uint32 {
	if epoch > s.epoch && s.append(appendEpoch(nil, epoch)) {
		s.epoch = epoch
	}
	return s.epoch
}

// send makes one report, and takes the grants in the answer.
func (s *Store) send(ctx context.Context, report []asking) bool {
	ctx = requestid.New(ctx)
	s.mu.Lock()
	message := api.EdgeBudgets{Node: s.cfg.Node, Epoch: s.newest(s.cfg.Epoch())}
	s.mu.Unlock()
	for _, r := range report {
		w := wire(r.account.entry, r.shown)
		w.Want = r.want
		message.Accounts = append(message.Accounts, w)
	}
	answer, err := s.exchange(ctx, &message)
	if err != nil {
		if ctx.Err() == nil {
			s.failed(ctx, "cannot get clicks of budgets", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range report { // the answer may have been a grant, which the next one repeats
			r.account.reported = unknown
		}
		return false
	}
	failpoint.Hit("grants: answered")
	s.take(report, &answer)
	return true
}

func wire(e entry, a budget.Account) api.EdgeBudget {
	return api.EdgeBudget{
		Domain: uint32(e.domain), Code: e.code, Boot: hex.EncodeToString(e.boot[:]),
		Granted: a.Granted, Returned: a.Returned, Spent: a.Spent,
	}
}

// take makes grants durable, and then lets their clicks be spent. An answer of an older
// epoch than the edge has seen is of a history that was given up.
func (s *Store) take(report []asking, answer *api.EdgeGrants) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer.Epoch < s.newest(answer.Epoch) {
		s.fail("ignored an answer", errors.New("the control plane's database is of an older epoch than this edge has seen"))
		return
	}
	type planned struct {
		account *account
		totals  budget.Totals
	}
	now := time.Now()
	var plans []planned
	var paused []*account
	var records []byte
	for i, g := range answer.Grants {
		r := &report[i]
		a := r.account
		if s.accounts[a.name] != a {
			continue
		}
		a.reported = r.shown
		dry := time.Duration(0)
		switch g.State {
		case "gone":
			a.dry.Store(int64(s.clock() + usedFor))
			s.forget(a)
			continue
		case "none":
			dry = usedFor
			paused = append(paused, a)
		case "held":
			dry = heldFor
		case "used":
			dry = usedFor
		}
		a.dry.Store(int64(s.clock() + dry))
		a.used.Store(g.State == "used")
		if g.Granted <= a.Granted || g.Granted > budget.MaxLimit {
			continue
		}
		p := planned{a, a.Plan(g.Granted)}
		plans = append(plans, p)
		records = appendAccount(records, a.entry, p.totals)
	}
	if len(records) > 0 && s.append(records) {
		for _, p := range plans {
			n := p.totals.Granted - p.account.Granted
			p.account.Apply(p.totals)
			p.account.low.Store(ahead(n))
			p.account.since = now
			s.granted.Add(float64(n))
		}
	}
	s.pause(paused)
}

// pause takes back the clicks of links that have no budget at the moment. The accounts
// stay: the budget may come back, and what they have spent of it counts. The lock is
// held.
func (s *Store) pause(all []*account) {
	var returned []byte
	for _, a := range all {
		if a.Withdraw() > 0 {
			returned = appendAccount(returned, a.entry, a.Totals)
		}
	}
	if len(returned) > 0 {
		s.append(returned)
	}
}

// ahead returns at how many clicks left more are asked for after a grant. A grant of one
// click means that few are left for all edges, or that visitors are few: then each
// visitor asks, so that no edge holds clicks that it does not need.
func ahead(granted int64) int64 {
	if granted <= 1 {
		return -1
	}
	return granted / 2
}

// reportAll reports all accounts, of all boots, once in every epoch. It returns false
// while it could not.
func (s *Store) reportAll(ctx context.Context) bool {
	s.mu.Lock()
	epoch := s.newest(s.cfg.Epoch())
	if s.allReported == epoch && epoch != 0 || !s.adopted {
		s.mu.Unlock()
		return true
	}
	message := api.EdgeBudgets{Node: s.cfg.Node, Epoch: epoch, Disk: hex.EncodeToString(s.disk[:])}
	adoptions := s.adoptions
	all := make([]entry, 0, len(s.accounts)+s.closed.len())
	for e := range s.closed.all() {
		all = append(all, e)
	}
	for _, a := range s.accounts {
		all = append(all, a.entry)
	}
	s.mu.Unlock()
	for {
		ctx := requestid.New(ctx)
		var page []entry
		page, message.Accounts, all = s.page(all)
		message.Complete = len(all) == 0
		answer, err := s.exchange(ctx, &message)
		if err != nil {
			if ctx.Err() == nil {
				s.failed(ctx, "cannot report the accounts of click budgets", err)
			}
			return false
		}
		if s.heard(epoch, page, &answer); answer.Epoch != epoch {
			return false
		}
		if len(all) == 0 {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.adoptions == adoptions {
				s.allReported = epoch
			}
			return true
		}
	}
}

// page takes the first accounts off a list, as far as they are still known.
func (s *Store) page(all []entry) (page []entry, wired []api.EdgeBudget, rest []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(all) > 0 && len(page) < api.MaxEdgeBudgets {
		e := all[0]
		all = all[1:]
		if a := s.accounts[e.name]; a != nil && a.entry == e {
			page, wired = append(page, e), append(wired, wire(e, a.Account()))
		} else if t, ok := s.closed.get(e); ok {
			page, wired = append(page, e), append(wired, wire(e, budget.Account{Granted: t.Granted, Returned: t.Returned}))
		}
	}
	return page, wired, all
}

// heard takes the answer to a page of accounts: those of links that are gone are
// forgotten.
func (s *Store) heard(epoch uint32, page []entry, answer *api.EdgeGrants) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest(answer.Epoch)
	for i, g := range answer.Grants {
		if g.State != "gone" || answer.Epoch != epoch {
			continue
		}
		if _, ok := s.closed.take(page[i]); ok && page[i].boot == s.boot {
			s.renew()
		}
	}
}

// close returns the clicks that are left, so that other edges can have them.
func (s *Store) close(ctx context.Context) {
	if s.over.Swap(true) {
		return
	}
	s.release(s.gather(nil))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	// An answer may bring a grant of which the edge had not heard.
	for range 3 {
		report, ok := s.giveUp()
		if !ok || len(report) == 0 || !s.send(ctx, report) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close() // everything in it is synced
		s.file = nil
	}
}

// giveUp withdraws everything, durably, and returns the accounts with news. It reports
// false when the control plane must not hear of it.
func (s *Store) giveUp() (report []asking, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []byte
	for _, a := range s.accounts {
		if a.Withdraw() > 0 {
			records = appendAccount(records, a.entry, a.Totals)
		}
		if shown := a.Account(); shown != a.reported && len(report) < api.MaxEdgeBudgets {
			report = append(report, asking{a, shown, 0})
		}
	}
	return report, len(records) == 0 || s.append(records)
}
