package budgets

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"waypost"
	"waypost/api"
	"waypost/api/requestid"
	"waypost/internal/failpoint"
	"waypost/rules/budget"
)

// Run asks for clicks and reports spent clicks, until ctx ends. Then it returns all
// clicks that are left, and closes the store.
func (s *Store) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range askers {
		running.Go(func() { s.runAsks(ctx) })
	}
	running.Go(func() { s.runReports(ctx) })
	running.Go(func() { s.runAhead(ctx) })
	running.Wait()
	s.close(ctx)
}

// runAsks asks for clicks that visitors wait for. Several goroutines do, so that no
// visitor waits until a report or the question of another visitor was answered.
func (s *Store) runAsks(ctx context.Context) {
	s.introduce(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-s.asks:
			s.ask(ctx, s.gatherAsks([]*account{a}))
		}
	}
}

// Expect asks for a click of a link before its first visitor comes, if the link is in no
// account yet. The control plane grants it when many clicks are left.
func (s *Store) Expect(domain waypost.DomainID, code []byte) {
	s.ledger.expect(name{domain, string(code)})
}

// runAhead asks for clicks of links that are expected, a few at a time, because each
// question holds the head of the changelog. After a kill it waits, because each kill of
// an edge that is killed again and again costs the clicks that it was given.
func (s *Store) runAhead(ctx context.Context) {
	if s.log.followsKill() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.cfg.Caution):
		}
	}
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		due := s.ledger.openExpected(expectAtOnce)
		if len(due) == 0 {
			continue
		}
		if s.ask(ctx, due) {
			s.ledger.dropUnused(due)
			continue
		}
		for _, a := range due {
			s.ledger.expect(a.name)
		}
	}
}

// gatherAsks takes all accounts out of the queue.
func (s *Store) gatherAsks(due []*account) []*account {
	for {
		select {
		case a := <-s.asks:
			due = append(due, a)
		default:
			return due
		}
	}
}

// ask asks for clicks of accounts, and wakes the visitors who wait for them. A question
// that fails is put once more, perhaps to another control plane.
func (s *Store) ask(ctx context.Context, due []*account) (ok bool) {
	ok = s.introduce(ctx)
	for page := range slices.Chunk(s.ledger.questionsFor(due), api.MaxEdgeBudgets) {
		for tries := 0; ok; tries++ {
			if answered := s.report(ctx, page); answered || tries == 1 {
				ok = answered
				break
			}
		}
	}
	for _, a := range due {
		if !ok {
			s.ledger.pause(a, failurePause)
		}
		a.queued.Store(false)
	}
	s.ledger.wakeVisitors(due)
	return ok
}

// runReports reports spent and idle clicks at each tick. While the edge holds clicks, it
// sends an empty report every second tick without news, because the answer may recall
// some.
func (s *Store) runReports(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	s.introduce(ctx)
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		ok := s.introduce(ctx)
		report, durable := s.collectNews()
		if !ok || !durable {
			continue
		}
		if len(report) == 0 && s.ledger.isHolding() && time.Since(last) > s.cfg.Interval {
			s.report(ctx, nil)
			last = time.Now()
		}
		for page := range slices.Chunk(report, api.MaxEdgeBudgets) {
			if last = time.Now(); !s.report(ctx, page) {
				break
			}
		}
	}
}

// collectNews takes idle clicks back, and lists the accounts with news. It reports false
// when the control plane must not hear of them, because they are not durable.
func (s *Store) collectNews() (report []question, durable bool) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.mend()
	s.ledger.closeFinished()
	if !s.log.broken.Load() && !s.log.keep(s.ledger.withdrawIdle(s.cfg.Idle)) {
		return nil, false
	}
	return s.ledger.news(), true
}

// report sends one report, and takes the grants in the answer.
func (s *Store) report(ctx context.Context, page []question) bool {
	ctx = requestid.New(ctx)
	message := api.EdgeBudgets{Node: s.cfg.Node, Epoch: s.log.seeEpoch(s.cfg.Epoch())}
	for _, q := range page {
		w := wire(q.account.entry, q.shown)
		w.Want, w.Waiting = q.want, q.waiting
		message.Accounts = append(message.Accounts, w)
	}
	answer, err := s.exchange(ctx, &message)
	if err != nil {
		s.failExchange(ctx, "cannot get clicks of budgets", err)
		s.ledger.doubt(page)
		return false
	}
	failpoint.Hit("grants: answered")
	s.log.seeEpoch(answer.Epoch)
	s.acceptGrants(answered{page, &answer})
	if len(answer.Recalled) > 0 {
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		s.log.keep(s.ledger.withdrawRecalled(answer.Recalled))
	}
	return true
}

// failExchange logs a failure of a question to the control plane with its id.
func (s *Store) failExchange(ctx context.Context, message string, err error) {
	if ctx.Err() == nil {
		s.log.failures.Inc()
		s.cfg.Logger.WarnContext(ctx, message, "error", err)
	}
}

func wire(e entry, a budget.Account) api.EdgeBudget {
	return api.EdgeBudget{
		Domain: uint32(e.domain), Code: e.code, ID: hex.EncodeToString(e.id[:]),
		Granted: a.Granted, Returned: a.Returned, Spent: a.Spent,
	}
}

// acceptGrants makes grants durable, and then lets their clicks be spent. Answers that
// come while the disk works are accepted together. An answer of an older epoch than the
// edge has seen is of a history that was given up.
func (s *Store) acceptGrants(a answered) {
	s.answers.put(a)
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	var plans []changed
	for _, a := range s.answers.takeAll() { // empty: another goroutine has accepted this one
		if a.answer.Epoch < s.log.epoch.Load() {
			s.log.fail("ignored an answer", errors.New("the control plane's database is of an older epoch than this edge has seen"))
			continue
		}
		plans = append(plans, s.ledger.planGrants(a.page, a.answer.Grants)...)
	}
	if s.log.keep(plans) {
		s.granted.Add(float64(s.ledger.applyGrants(plans)))
	}
}

// answered is a report with its answer.
type answered struct {
	page   []question
	answer *api.EdgeGrants
}

// answers holds answers until the log can take them.
type answers struct {
	mu  sync.Mutex
	all []answered
}

func (a *answers) put(one answered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, one)
}

func (a *answers) takeAll() []answered {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all
	a.all = nil
	return all
}

// introduce reports all accounts, of all boots, once in every epoch. It returns false
// while it could not. A first failure may be due to an epoch that the answer named.
func (s *Store) introduce(ctx context.Context) bool {
	s.introduction.mu.Lock()
	defer s.introduction.mu.Unlock()
	if s.reportAll(ctx) {
		return true
	}
	return s.reportAll(ctx)
}

func (s *Store) reportAll(ctx context.Context) bool {
	epoch, adoptions := s.log.seeEpoch(s.cfg.Epoch()), s.log.adoptions.Load()
	if in := &s.introduction; adoptions == 0 || epoch != 0 && in.epoch == epoch && in.adoptions == adoptions {
		return true
	}
	s.log.mu.Lock()
	message := api.EdgeBudgets{Node: s.cfg.Node, Epoch: epoch, Disk: hex.EncodeToString(s.log.disk[:])}
	s.log.mu.Unlock()
	for all := s.ledger.entries(); ; {
		ctx := requestid.New(ctx)
		var page []entry
		s.log.mu.Lock()
		page, message.Accounts, all = s.ledger.page(all)
		s.log.mu.Unlock()
		message.Complete = len(all) == 0
		answer, err := s.exchange(ctx, &message)
		if err != nil {
			s.failExchange(ctx, "cannot report the accounts of click budgets", err)
			return false
		}
		if s.log.seeEpoch(answer.Epoch); answer.Epoch != epoch {
			return false
		}
		for i, g := range answer.Grants {
			if a := &message.Accounts[i]; g.State == "gone" || a.Granted == a.Returned {
				s.ledger.forgetClosed(page[i])
			}
		}
		if message.Complete {
			s.introduction.epoch, s.introduction.adoptions = epoch, adoptions
			return true
		}
	}
}

// close returns the clicks that are left, so that other edges can have them.
func (s *Store) close(ctx context.Context) {
	if s.over.Swap(true) {
		return
	}
	due := s.gatherAsks(nil)
	for _, a := range due {
		a.queued.Store(false)
	}
	s.ledger.wakeVisitors(due)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	// An answer may bring a grant that was new to the edge.
	for {
		s.log.mu.Lock()
		durable := s.log.keep(s.ledger.withdrawAll())
		report := s.ledger.news()
		s.log.mu.Unlock()
		if !durable || len(report) == 0 || !s.report(ctx, report[:min(len(report), api.MaxEdgeBudgets)]) {
			break
		}
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.keep(s.ledger.withdrawAll())
	s.log.close()
}
