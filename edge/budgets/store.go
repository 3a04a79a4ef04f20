package budgets

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost"
	"waypost/internal/failpoint"
	"waypost/rules/budget"
)

// Config configures a Store. Zero fields mean the default.
type Config struct {
	Dir    string         // required; made if it is missing
	Node   string         // required
	Boot   waypost.BootID // this start of the edge; required
	URL    string         // of the control plane, scheme and host; required
	Client *http.Client   // required; adds the credential

	// Shared says that another process of this edge still spends its grants, whose file is
	// left alone until Adopt.
	Shared bool

	// Epoch returns the newest epoch of the changelog that the replica has. Default: none.
	Epoch func() uint32

	Patience time.Duration // of a visitor, with the control plane; default 150 ms
	Timeout  time.Duration // for one request; default 2 s
	Interval time.Duration // between reports; default 1 s
	Idle     time.Duration // after which unspent clicks are given back; default 30 s

	MaxAccounts int // of which clicks may be left; default 250,000
	MaxClosed   int // that are remembered besides; default 1,000,000, in about 150 MB

	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: metrics are not registered
}

func (c Config) withDefaults() Config {
	if c.Epoch == nil {
		c.Epoch = func() uint32 { return 0 }
	}
	if c.Patience == 0 {
		c.Patience = 150 * time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.Idle == 0 {
		c.Idle = 30 * time.Second
	}
	if c.MaxAccounts == 0 {
		c.MaxAccounts = 250_000
	}
	if c.MaxClosed == 0 {
		c.MaxClosed = 1_000_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return c
}

const (
	shards    = 256
	maxKey    = 4 + waypost.MaxName
	maxDue    = 4096            // accounts that wait to be asked for
	failedFor = time.Second / 4 // no answer holds
	usedFor   = time.Second     // an answer that nothing is left holds
	heldFor   = time.Second / 4 // an answer that nothing is granted at the moment holds
	fast      = 5 * time.Second // a grant that is spent sooner is followed by a larger one
	slow      = time.Minute     // and one that lasts longer by a smaller one
	roomy     = 4 << 20         // bytes of records after which the file may be rewritten
	closing   = time.Second     // for the last reports
	mendEach  = 5 * time.Second // between tries to write a file that could not be written
	sayEach   = time.Minute     // between log lines about links that are refused

	closeAtOnce = 20_000 // accounts, for which visitors of links without a click wait
)

// Store holds the grants of one boot of an edge. Spend and Ask may be called by many
// goroutines at once.
type Store struct {
	cfg     Config
	dir     directory
	seed    maphash.Seed
	started time.Time

	tables [shards]atomic.Pointer[map[string]*account]
	due    chan *account // asks for clicks ahead of need
	broken atomic.Bool   // the file cannot be written: nothing is spent
	over   atomic.Bool   // the store is closed

	failures prometheus.Counter
	granted  prometheus.Counter
	refused  prometheus.Counter

	mu       sync.Mutex
	accounts map[name]*account
	closed   closed
	boot     waypost.BootID // of new accounts; see renew
	full     time.Time      // of the last log line about links that are refused
	file     *os.File
	size     int64 // of the file
	mended   time.Time
	epoch    uint32
	disk     diskID // zero before the files of earlier boots were read

	adopted   bool     // the accounts of earlier boots are in this boot's file
	adopting  bool     // they are to be put there, and their files to be removed
	unread    bool     // these files are to be read
	inherited []string // those that were read
	damaged   []string // those that could not be read

	allReported uint32 // epoch in which all accounts were reported
	adoptions   int    // counts them
}

// account is the budget of one link. The store's lock guards the fields below the blank
// line.
type account struct {
	budget.Holding

	entry
	queue atomic.Bool  // it is in the channel
	low   atomic.Int64 // at that number of clicks left, more are asked for
	dry   atomic.Int64 // nanoseconds of Store.clock until which asking is of no use

	visitors atomic.Int64 // that wait for a click
	used     atomic.Bool  // by the last answer nothing was left

	waiting  chan struct{} // closed by the next answer; nil: none waits
	want     int64         // size of the next grant
	since    time.Time     // of the last grant
	reported budget.Account
	left     int64     // clicks at the last look
	moved    time.Time // when it changed
}

// Open opens the store. Accounts of earlier boots stay known, and none of their clicks is
// spent any more. While the disk fails, nothing is spent, and Run tries again.
func Open(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if cfg.Client == nil || cfg.URL == "" || !waypost.ValidNode(cfg.Node) || cfg.Boot == (waypost.BootID{}) {
		return nil, errors.New("budgets: node, boot, URL and client are required")
	}
	f := promauto.With(cfg.Metrics)
	s := &Store{
		cfg: cfg, dir: directory{cfg.Dir}, seed: maphash.MakeSeed(), due: make(chan *account, maxDue),
		started: time.Now(), boot: cfg.Boot,
		accounts: make(map[name]*account), closed: newClosed(cfg.MaxClosed),
		granted: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_budget_granted_clicks_total", Help: "Clicks of budgets that this edge was granted.",
		}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_budget_failures_total", Help: "Failed tries to get clicks of budgets, or to keep them on the disk.",
		}),
		refused: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_budget_refusals_total", Help: "Visits that got no click of a budget because this edge holds clicks of too many links.",
		}),
	}
	for i := range s.tables {
		s.tables[i].Store(&map[string]*account{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopting, s.unread = !cfg.Shared, !cfg.Shared
	s.broken.Store(true) // until there is a file
	if err := s.save(); err != nil {
		s.fail("cannot open the grants of click budgets; links with exact budgets are not redirected", err)
	}
	return s, nil
}

// Adopt takes over the accounts of processes that have ended. While the disk fails, Run
// tries again.
func (s *Store) Adopt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return
	}
	s.adopted, s.adopting, s.unread = false, true, true
	if err := s.save(); err != nil {
		s.fail("cannot take over grants of click budgets", err)
	}
}

// save writes the present state to a new file, with the accounts of earlier boots if
// they are to be adopted. The lock is held.
func (s *Store) save() error {
	if s.file == nil { // later the directory has to come back
		if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
			return err
		}
	}
	if s.adopting {
		return s.adopt()
	}
	return s.rewrite()
}

// adopt reads the files of other boots, writes their accounts into this boot's, and
// removes them. The lock is held.
func (s *Store) adopt() error {
	if s.unread {
		if err := s.inherit(); err != nil {
			return err
		}
		s.unread = false
	}
	if err := s.rewrite(); err != nil {
		return err
	}
	if !s.adopted {
		s.adopted, s.allReported = true, 0
		s.adoptions++
	}
	if err := errors.Join(s.dir.setAside(s.damaged), s.dir.remove(s.inherited)); err != nil {
		return err
	}
	s.adopting, s.inherited, s.damaged = false, nil, nil
	return nil
}

// inherit reads the files of other boots, each once. The lock is held.
func (s *Store) inherit() error {
	read, files, damaged, lost, err := s.dir.readOthers(s.cfg.Boot, slices.Concat(s.inherited, s.damaged))
	if err != nil {
		return err
	}
	if lost != nil {
		s.cfg.Logger.Error("grants of click budgets cannot be read; all of them count as spent", "error", lost)
	}
	s.inherited, s.damaged = append(s.inherited, files...), append(s.damaged, damaged...)
	s.epoch = max(s.epoch, read.epoch)
	if s.disk == (diskID{}) {
		s.disk = read.disk
	}
	if s.disk == (diskID{}) || lost != nil {
		_, _ = rand.Read(s.disk[:]) // never fails
	}
	for e, t := range read.accounts {
		if t.Granted > t.Returned {
			s.keep(e, t)
		}
	}
	return nil
}

// key returns the key of a link in a table.
func key(buf *[maxKey]byte, domain waypost.DomainID, code []byte) []byte {
	buf[0], buf[1], buf[2], buf[3] = byte(domain), byte(domain>>8), byte(domain>>16), byte(domain>>24)
	return buf[:4+copy(buf[4:], code)]
}

// Spend takes one click of a link's budget, and reports whether there was one. It neither
// waits nor allocates.
func (s *Store) Spend(domain waypost.DomainID, code []byte) bool {
	var buf [maxKey]byte
	k := key(&buf, domain, code)
	a := (*s.tables[maphash.Bytes(s.seed, k)%shards].Load())[string(k)]
	if a == nil || s.broken.Load() || s.over.Load() {
		return false
	}
	left, ok := a.Spend()
	if ok && left <= a.low.Load() {
		s.ask(a)
	}
	return ok
}

// clock returns the time since the store was opened, which no step of the machine's clock
// changes.
func (s *Store) clock() time.Duration { return time.Since(s.started) }

// dry reports whether to ask for more clicks of an account is of no use at the moment.
func (s *Store) dry(a *account) bool { return int64(s.clock()) < a.dry.Load() }

// ask puts an account into the queue.
func (s *Store) ask(a *account) {
	if s.dry(a) || !a.queue.CompareAndSwap(false, true) {
		return
	}
	select {
	case s.due <- a:
	default:
		a.queue.Store(false)
	}
}

// Ask tries to get a click of a link's budget and to spend it, until the visitor's
// patience is over; used reports that the control plane has nothing left to grant.
// Concurrent calls share one request.
func (s *Store) Ask(ctx context.Context, domain waypost.DomainID, code []byte) (spent, used bool) {
	a := s.enter(name{domain, string(code)})
	if a == nil {
		return false, false
	}
	defer a.visitors.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	for {
		if s.Spend(domain, code) {
			return true, false
		}
		if s.dry(a) || ctx.Err() != nil || s.over.Load() || s.broken.Load() {
			return false, a.used.Load()
		}
		waiting := s.wait(a)
		s.ask(a)
		select {
		case <-waiting:
		case <-ctx.Done():
		}
	}
}

// wait returns a channel that the next answer closes.
func (s *Store) wait(a *account) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.waiting == nil {
		a.waiting = make(chan struct{})
	}
	return a.waiting
}

// enter returns the account of a link, which is not closed while the visitor waits; nil:
// there are too many.
func (s *Store) enter(n name) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.accounts) >= s.cfg.MaxAccounts && s.accounts[n] == nil {
		s.refused.Inc()
		if now := time.Now(); s.full.IsZero() || now.Sub(s.full) >= sayEach {
			s.full = now
			s.cfg.Logger.Error("refused a link with a click budget: this edge holds clicks of too many links", "most", s.cfg.MaxAccounts)
		}
		return nil
	}
	a := s.open(n)
	a.visitors.Add(1)
	return a
}

// open finds or makes the account of a link. One that was closed goes on with its totals.
// The lock is held.
func (s *Store) open(n name) *account {
	if a := s.accounts[n]; a != nil {
		return a
	}
	a := &account{entry: entry{n, s.boot}, want: 1}
	a.low.Store(-1)
	a.Totals, _ = s.closed.take(a.entry)
	s.accounts[n] = a
	s.change([]*account{a}, func(m map[string]*account, k string) { m[k] = a })
	return a
}

// finished reports whether nothing of an account is left, for a visitor or to be
// reported. The lock is held.
func (a *account) finished() bool {
	return a.Left() == 0 && a.visitors.Load() == 0 && !a.queue.Load() && a.waiting == nil && a.Account() == a.reported
}

// closeFinished makes room for other links when there is little. The lock is held.
func (s *Store) closeFinished() {
	if len(s.accounts) <= s.cfg.MaxAccounts*3/4 {
		return
	}
	var all []*account
	for _, a := range s.accounts {
		if !a.finished() {
			continue
		}
		if a.Granted > 0 {
			s.keep(a.entry, a.Totals)
		}
		if all = append(all, a); len(all) == closeAtOnce {
			break
		}
	}
	s.drop(all)
}

// keep remembers the totals of an account that is over, perhaps in place of others. The
// lock is held.
func (s *Store) keep(e entry, t budget.Totals) {
	if s.closed.put(e, t) {
		s.renew()
	}
}

// renew puts the accounts that are opened from now on under another boot, because totals
// of the present one were forgotten: if such an account began again under its old boot,
// the control plane would take what it has spent for grants whose answers were lost. The
// lock is held.
func (s *Store) renew() {
	_, _ = rand.Read(s.boot[:]) // never fails
}

// forget drops the account of a link that is gone. The lock is held.
func (s *Store) forget(a *account) {
	a.Withdraw()
	s.drop([]*account{a})
	s.renew()
}

// drop removes accounts. The lock is held.
func (s *Store) drop(all []*account) {
	for _, a := range all {
		delete(s.accounts, a.name)
	}
	s.change(all, func(m map[string]*account, k string) { delete(m, k) })
}

// change replaces the tables of accounts, which readers read without a lock.
func (s *Store) change(all []*account, f func(m map[string]*account, k string)) {
	tables := make(map[uint64]map[string]*account)
	var buf [maxKey]byte
	for _, a := range all {
		k := key(&buf, a.domain, []byte(a.code))
		i := maphash.Bytes(s.seed, k) % shards
		if tables[i] == nil {
			tables[i] = maps.Clone(*s.tables[i].Load())
		}
		f(tables[i], string(k))
	}
	for i, m := range tables {
		s.tables[i].Store(&m)
	}
}

// append makes records durable. It reports false when that failed: then nothing is spent
// before a whole new file could be written. The lock is held.
func (s *Store) append(records []byte) bool {
	if s.broken.Load() || s.file == nil {
		return false
	}
	_, err := s.file.Write(records)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		s.fail("cannot keep grants of click budgets; nothing of them is spent", err)
		s.broken.Store(true)
		return false
	}
	failpoint.Hit("grants: durable")
	s.size += int64(len(records))
	return true
}

// rewrite replaces the file by one with the present state. The lock is held.
func (s *Store) rewrite() error {
	text := appendEpoch([]byte(magic), s.epoch)
	if s.disk != (diskID{}) {
		text = appendDisk(text, s.disk)
	}
	for e, t := range s.closed.all() {
		text = appendAccount(text, e, t)
	}
	for _, a := range s.accounts {
		if a.Totals != (budget.Totals{}) {
			text = appendAccount(text, a.entry, a.Totals)
		}
	}
	f, err := s.dir.write(s.cfg.Boot, text)
	if err != nil {
		return err
	}
	if s.file != nil {
		_ = s.file.Close() // replaced
	}
	s.file, s.size = f, int64(len(text))
	s.broken.Store(false)
	return nil
}

func (s *Store) fail(message string, err error) { s.failed(context.Background(), message, err) }

// failed logs a failure of a question to the control plane with its id.
func (s *Store) failed(ctx context.Context, message string, err error) {
	s.failures.Inc()
	s.cfg.Logger.WarnContext(ctx, message, "error", err)
}
