package budgets

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"waypost"
)

// Config configures a Store. Zero fields mean the default.
type Config struct {
	Dir    string         // required; made if it is missing
	Node   string         // required
	Boot   waypost.BootID // this start of the edge; required
	URL    string         // of the control plane, scheme and host; required
	Client *http.Client   // required; adds the credential

	// Epoch returns the newest epoch of the changelog that the replica has. Default: none.
	Epoch func() uint32

	Patience time.Duration // of a visitor with the control plane; default 2 s
	Timeout  time.Duration // for one request; default 2 s
	Interval time.Duration // between reports; default 1 s
	Caution  time.Duration // after a kill, before clicks are asked for ahead of the first visitor; default 10 min
	Idle     time.Duration // after which unspent clicks are given back, except for one; default 30 s

	MaxAccounts int // bounds the accounts with clicks left; default 250,000
	MaxClosed   int // that are remembered besides; default 1,000,000, in about 150 MB

	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: metrics are not registered
}

func (c Config) withDefaults() Config {
	if c.Epoch == nil {
		c.Epoch = func() uint32 { return 0 }
	}
	c.Patience = cmp.Or(c.Patience, 2*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Caution = cmp.Or(c.Caution, 10*time.Minute)
	c.Idle = cmp.Or(c.Idle, 30*time.Second)
	c.MaxAccounts = cmp.Or(c.MaxAccounts, 250_000)
	c.MaxClosed = cmp.Or(c.MaxClosed, 1_000_000)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return c
}

const (
	maxAsks = 16384 // accounts that wait to be asked for
	askers  = 8     // questions at a time: at 300 ms, a visitor waits some 40 ms for one to end

	// An answer holds for this long: visitors who come within the pause get the same
	// answer.
	failurePause = time.Second / 4
	usedPause    = time.Second
	heldPause    = time.Second / 4

	quickGrant = 5 * time.Second // a grant that is spent sooner is followed by a larger one
	slowGrant  = time.Minute     // and one that lasts longer by a smaller one

	rewriteBytes    = 4 << 20         // of records, after which the file may be replaced
	rewriteInterval = 5 * time.Second // between tries to replace it
	logInterval     = time.Minute     // between log lines about links that are refused
	closeTimeout    = time.Second     // for the last reports

	lastIdle     = 120  // times Config.Idle, after which the last unspent click is given back
	maxExpected  = 2000 // links with clicks, beyond which no clicks are asked for before visitors come
	expectAtOnce = 100  // links in one question

	closeAtOnce = 20_000 // accounts, for which visitors of links without a click wait
)

// Store spends the grants of one boot of an edge. Visitors' goroutines call Spend and
// SpendOrAsk. Run's goroutines talk to the control plane.
type Store struct {
	cfg    Config
	ledger *ledger
	log    *grantLog
	asks   chan *account // gets accounts that need clicks
	over   atomic.Bool   // the store is closed

	granted prometheus.Counter
	refused prometheus.Counter
	logFull rate.Sometimes

	introduction introduction
	answers      answers // that are to be accepted
}

// introduction remembers in which epoch all accounts were reported.
type introduction struct {
	mu        sync.Mutex
	epoch     uint32 // 0: in no epoch
	adoptions int64  // adoptions with accounts in the report
}

// Open opens the store. It keeps the accounts of earlier boots, but spends no click of
// them. While the disk fails, the store spends nothing, and Run tries again.
func Open(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if cfg.Client == nil || cfg.URL == "" || !waypost.ValidNode(cfg.Node) || cfg.Boot == (waypost.BootID{}) {
		return nil, errors.New("budgets: node, boot, URL and client are required")
	}
	f := promauto.With(cfg.Metrics)
	s := &Store{
		cfg: cfg, ledger: newLedger(cfg.MaxAccounts, cfg.MaxClosed), asks: make(chan *account, maxAsks),
		logFull: rate.Sometimes{First: 1, Interval: logInterval},
		granted: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_budget_granted_clicks_total", Help: "Clicks of budgets that this edge was granted.",
		}),
		refused: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_budget_refusals_total", Help: "Visits that got no click of a budget because this edge holds clicks of too many links.",
		}),
	}
	s.log = &grantLog{
		dir: directory{cfg.Dir}, boot: cfg.Boot, ledger: s.ledger, logger: cfg.Logger, sync: (*os.File).Sync, adopting: true,
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_budget_failures_total", Help: "Failed tries to get clicks of budgets, or to keep them on the disk.",
		}),
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.broken.Store(true) // until there is a file
	if err := s.log.save(); err != nil {
		s.log.fail("cannot open the grants of click budgets; links with exact budgets are not redirected", err)
	}
	return s, nil
}

// Spend takes one click of a link's budget, and reports whether there was one. It neither
// waits nor allocates.
func (s *Store) Spend(domain waypost.DomainID, code []byte) bool {
	a := s.ledger.table.find(domain, code)
	return a != nil && s.spendOf(a)
}

func (s *Store) spendOf(a *account) bool {
	if s.log.broken.Load() || s.over.Load() {
		return false
	}
	left, ok := a.Spend()
	if ok && left <= a.refillAt.Load() {
		s.askFor(a)
	}
	return ok
}

// askFor puts an account into the queue.
func (s *Store) askFor(a *account) {
	if s.ledger.isPaused(a) || !a.queued.CompareAndSwap(false, true) {
		return
	}
	select {
	case s.asks <- a:
	default:
		a.queued.Store(false)
	}
}

// SpendOrAsk takes one click of a link's budget, and asks for clicks if this edge has
// none, until there is an answer, ctx is done, or the visitor's patience is over.
// exhausted reports that all clicks of the budget are spent. Concurrent calls share one
// request.
func (s *Store) SpendOrAsk(ctx context.Context, domain waypost.DomainID, code []byte) (spent, exhausted bool) {
	a := s.ledger.enter(name{domain, string(code)})
	if a == nil {
		s.refused.Inc()
		s.logFull.Do(func() {
			s.cfg.Logger.Error("refused a link with a click budget: this edge holds clicks of too many links", "most", s.cfg.MaxAccounts)
		})
		return false, false
	}
	defer a.leave()
	patience := time.NewTimer(s.cfg.Patience)
	defer patience.Stop()
	for {
		if s.spendOf(a) {
			return true, false
		}
		if s.ledger.isPaused(a) || s.over.Load() || s.log.broken.Load() {
			return false, s.ledger.isExhausted(a)
		}
		if !s.awaitAnswer(ctx, a, patience.C) {
			return false, s.ledger.isExhausted(a)
		}
	}
}

// awaitAnswer asks for clicks of an account, and reports whether there was an answer
// before ctx was done or the visitor's patience over. A visitor who was woken counts no
// longer, because a click granted for a visitor who has one would lie idle.
func (s *Store) awaitAnswer(ctx context.Context, a *account, patience <-chan time.Time) bool {
	answered := s.ledger.nextAnswer(a)
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	s.askFor(a)
	select {
	case <-answered:
		return true
	case <-ctx.Done():
	case <-patience:
	}
	return false
}
