package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"waypost"
	"waypost/controlplane"
	"waypost/keyrange"
)

// Lease is a block of counters [Lo, Hi) of a prefix that one process may issue,
// until its epoch ends or it is fenced.
type Lease struct {
	ID         int64
	Range      int64
	Prefix     int
	Lo, Hi     int64
	Epoch      uint32
	Generation int64
}

// LeaseStore leases blocks of counters. A lease is durable before it is
// returned, and no counter is ever in two leases.
type LeaseStore interface {
	// TakeLease leases up to size counters of the region's ranges to node, a block that a
	// clean stop returned first, and stores that the finished leases are used up. A
	// region that runs low takes a free prefix. TakeLease returns EExhausted when no
	// counter is left, EUnavailable when no key may be issued at present.
	TakeLease(ctx context.Context, region waypost.Region, node string, size int64, finished []int64) (Lease, error)

	// ReturnLease returns the counters from next on, which were never issued.
	ReturnLease(ctx context.Context, l Lease, next int64) error

	// Unleased counts the counters of the region's live ranges that are in no held
	// lease and not used up.
	Unleased(ctx context.Context, region waypost.Region) (int64, error)
}

// Minter turns leased counters into codes. Leases are taken ahead in the
// background, so that minting touches no database while it runs steadily; when a
// burst empties the lease, callers wait for the next one. The faster leases are used
// up, the larger the next ones are. It implements [controlplane.Minter].
//
// A crash burns the remaining counters. Close returns them.
type Minter struct {
	store   LeaseStore
	coder   *keyrange.Coder
	region  waypost.Region
	node    string
	log     *slog.Logger
	metrics *minterMetrics
	now     func() time.Time
	patient time.Duration
	after   <-chan struct{}
	seldom  rate.Sometimes // limits the warnings while the database is away

	mu       sync.Mutex
	size     int64            // counters to lease at a time
	most     int64            // size never exceeds it
	taken    time.Time        // when the newest lease came
	used     int64            // of minted, at that time
	leases   []heldLease      // the first is being issued from; its Lo is the next counter
	left     int64            // counters in leases
	finished []int64          // used up, to be reported with the next lease
	issued   map[int64]int64  // keys since TakeIssued, by range, except keys of held leases
	minted   int64            // keys ever
	floor    uint32           // leases of epochs below are dead
	void     map[int64]uint32 // leases that were found fenced, with their epoch
	refilled chan struct{}    // closed when a lease came, or taking one failed; then renewed
	lastErr  error            // of the last attempt, nil after a success
	least    int64            // size never falls below it

	wanted chan struct{} // asks the refill goroutine for a lease
	stop   context.CancelFunc
	done   chan struct{}
}

// heldLease is a lease. Its counters below counted are in issued already.
type heldLease struct {
	Lease
	counted int64
}

// MinterConfig configures a Minter.
type MinterConfig struct {
	Store  LeaseStore
	Coder  *keyrange.Coder
	Region waypost.Region
	Node   string           // names the process, differently at every start
	Size   int64            // counters in a lease, at least; 0 means 10,000; in a small space it is a thousandth of a prefix
	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil: nothing is logged
	// Metrics takes kgs_generated_total and kgs_allocations_total; nil: none.
	Metrics prometheus.Registerer

	Patience time.Duration   // with the store, for one lease; default 4 s
	After    <-chan struct{} // nothing is leased before it is closed; nil: at once
}

const (
	defaultLeaseSize = 10_000
	maxLeaseSize     = 1_000_000
	leasesInPrefix   = 1000 // at least, to bound the counters that a crash or a failover burns
	leaseTimeout     = 4 * time.Second
	refillPause      = 100 * time.Millisecond // between attempts that fail
	// A lease that lasted for less than leaseShort is followed by a lease of twice its
	// size. A lease that lasted for more than leaseLong is followed by a lease of half
	// its size.
	leaseShort = 30 * time.Second
	leaseLong  = 10 * time.Minute
)

// NewMinter starts the background refill at once.
func NewMinter(cfg MinterConfig) *Minter {
	if cfg.Size == 0 {
		cfg.Size = defaultLeaseSize
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Patience == 0 {
		cfg.Patience = leaseTimeout
	}
	if cfg.After == nil {
		now := make(chan struct{})
		close(now)
		cfg.After = now
	}
	most := cfg.Coder.Space().Suffixes() / leasesInPrefix
	cfg.Size = min(cfg.Size, most)
	ctx, stop := context.WithCancel(context.Background())
	m := &Minter{
		store: cfg.Store, coder: cfg.Coder, region: cfg.Region, node: cfg.Node, now: cfg.Now, patient: cfg.Patience, after: cfg.After,
		log:  cfg.Logger,
		size: cfg.Size, least: cfg.Size, most: min(most, max(cfg.Size, maxLeaseSize)),
		seldom: rate.Sometimes{Interval: time.Second}, issued: make(map[int64]int64), void: make(map[int64]uint32),
		refilled: make(chan struct{}), wanted: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
	}
	m.metrics = newMinterMetrics(cfg.Metrics, cfg.Region, m)
	m.wanted <- struct{}{}
	go m.refill(ctx)
	return m
}

// Mint returns the next code. Without a leased counter it waits for one, until ctx ends
// (EUnavailable) or the region has none left (EExhausted).
func (m *Minter) Mint(ctx context.Context) (controlplane.Key, error) {
	var part [1]portion
	got, err := m.draw(ctx, 1, part[:0])
	if err != nil {
		return controlplane.Key{}, err
	}
	p := &got[0]
	return controlplane.Key{Code: m.coder.Encode(p.prefix, p.lo), Epoch: p.epoch, Lease: p.lease}, nil
}

// MintMany returns n codes like Mint, or none.
func (m *Minter) MintMany(ctx context.Context, n int) ([]controlplane.Key, error) {
	minted := make([]controlplane.Key, 0, n)
	var parts [4]portion // there are seldom more
	for len(minted) < n {
		got, err := m.draw(ctx, int64(n-len(minted)), parts[:0])
		if err != nil {
			return nil, err
		}
		for _, p := range got {
			for counter := p.lo; counter < p.hi; counter++ {
				minted = append(minted, controlplane.Key{Code: m.coder.Encode(p.prefix, counter), Epoch: p.epoch, Lease: p.lease})
			}
		}
	}
	return minted, nil
}

// Counter returns the counter that a code encodes; false for a code that is never minted.
func (m *Minter) Counter(code waypost.Code) (controlplane.Counter, bool) {
	prefix, n, ok := m.coder.Decode(code)
	return controlplane.Counter{Prefix: prefix, N: n}, ok
}

// portion is counters [lo, hi) that were drawn from one lease.
type portion struct {
	prefix int
	lo, hi int64
	epoch  uint32
	lease  int64
}

// draw appends leased counters to parts: at least one, at most n.
func (m *Minter) draw(ctx context.Context, n int64, parts []portion) ([]portion, error) {
	for waited := false; ; waited = true {
		m.mu.Lock()
		if len(m.leases) > 0 {
			for n > 0 && len(m.leases) > 0 {
				p := m.cut(n)
				n -= p.hi - p.lo
				parts = append(parts, p)
			}
			if m.low() {
				m.want()
			}
			m.mu.Unlock()
			return parts, nil
		}
		if waited && m.lastErr != nil {
			err := m.lastErr
			m.mu.Unlock()
			return nil, err
		}
		refilled := m.refilled
		m.want()
		m.mu.Unlock()
		select {
		case <-refilled:
		case <-ctx.Done():
			return nil, waypost.WrapError(waypost.EUnavailable, m.late(), ctx.Err())
		case <-m.done:
			return nil, waypost.Errorf(waypost.EUnavailable, "this control plane is shutting down")
		}
	}
}

// late says why no lease came in time.
func (m *Minter) late() string {
	select {
	case <-m.after:
		return "no key could be leased in time"
	default:
		return "no key is issued yet: this control plane was just started, and waits for an edge to connect, for ten seconds at most"
	}
}

// cut takes up to n counters off the first lease. The caller holds the lock.
func (m *Minter) cut(n int64) portion {
	l := &m.leases[0]
	p := portion{prefix: l.Prefix, lo: l.Lo, hi: min(l.Lo+n, l.Hi), epoch: l.Epoch, lease: l.ID}
	n = p.hi - p.lo
	l.Lo = p.hi
	m.left -= n
	m.minted += n
	if l.Lo == l.Hi {
		m.issued[l.Range] += l.Hi - l.counted
		m.finished = append(m.finished, l.ID)
		m.leases = m.leases[1:]
	}
	return p
}

// Discard drops the leases of every epoch before epoch, because the changelog has
// moved on to it. It is cheap when there is nothing to drop.
func (m *Minter) Discard(epoch uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if epoch <= m.floor {
		return
	}
	m.floor = epoch
	m.finished = nil
	clear(m.void)
	m.drop(func(l heldLease) bool { return l.Epoch < epoch })
}

// Revoke drops leases that were found void.
func (m *Minter) Revoke(ids []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.void[id] = m.floor
	}
	m.drop(func(l heldLease) bool { return slices.Contains(ids, l.ID) })
}

// DropRefused drops the leases for which a write was refused, and reports whether it was
// refused for its leases: the epoch has ended, or some of them are fenced.
func (m *Minter) DropRefused(err error, epoch uint32) bool {
	if errors.Is(err, controlplane.ErrEpoch) {
		m.Discard(epoch + 1)
		return true
	}
	fenced, ok := errors.AsType[*controlplane.FencedError](err)
	if ok {
		m.Revoke(fenced.Leases)
	}
	return ok
}

// drop removes leases. The caller holds the lock.
func (m *Minter) drop(dead func(heldLease) bool) {
	var alive []heldLease
	m.left = 0
	for _, l := range m.leases {
		if dead(l) {
			if n := l.Lo - l.counted; n > 0 {
				m.issued[l.Range] += n
			}
			continue
		}
		m.left += l.Hi - l.Lo
		alive = append(alive, l)
	}
	m.leases = alive
	m.want()
}

// Remaining counts the leased counters that are not issued yet.
func (m *Minter) Remaining() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left
}

// Minted counts the keys that were minted since the start.
func (m *Minter) Minted() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.minted
}

// TakeIssued returns the number of keys issued since the last call, by range.
func (m *Minter) TakeIssued() map[int64]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	issued := m.issued
	m.issued = make(map[int64]int64, len(issued))
	for i := range m.leases {
		l := &m.leases[i]
		if n := l.Lo - l.counted; n > 0 {
			issued[l.Range] += n
			l.counted = l.Lo
		}
	}
	return issued
}

// low reports whether the next lease is due. The caller holds the lock.
func (m *Minter) low() bool { return m.left < max(1, m.size/2) }

// want asks for a lease. A second call before the lease is taken has no effect.
func (m *Minter) want() {
	select {
	case m.wanted <- struct{}{}:
	default:
	}
}

func (m *Minter) refill(ctx context.Context) {
	defer close(m.done)
	select {
	case <-ctx.Done():
		return
	case <-m.after:
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wanted:
		}
		m.mu.Lock()
		finished, size, enough := m.finished, m.size, !m.low()
		m.mu.Unlock()
		if enough {
			continue
		}
		if err := m.takeLease(ctx, size, finished); err != nil && ctx.Err() == nil {
			m.seldom.Do(func() { m.log.Warn("cannot lease keys", "region", m.region, "error", err) })
			m.want()
			select {
			case <-ctx.Done():
				return
			case <-time.After(refillPause):
			}
		}
	}
}

func (m *Minter) takeLease(ctx context.Context, size int64, finished []int64) error {
	ctx, cancel := context.WithTimeout(ctx, m.patient)
	defer cancel()
	l, err := m.store.TakeLease(ctx, m.region, m.node, size, finished)
	if err == nil && !m.coder.Space().Holds(keyrange.Block{Prefix: l.Prefix, Lo: l.Lo, Hi: l.Hi}) {
		err = fmt.Errorf("lease %d is outside the key space: prefix %d, counters %d to %d", l.ID, l.Prefix, l.Lo, l.Hi)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && l.Epoch < m.floor {
		err = waypost.Errorf(waypost.EUnavailable, "a lease of epoch %d came when it was over already", l.Epoch)
	}
	if _, void := m.void[l.ID]; err == nil && void {
		err = waypost.Errorf(waypost.EUnavailable, "lease %d was void before it came", l.ID)
	}
	m.metrics.took(err)
	m.lastErr = err
	if err == nil {
		m.finished = slices.DeleteFunc(m.finished, func(id int64) bool { return slices.Contains(finished, id) })
		m.leases = append(m.leases, heldLease{l, l.Lo})
		m.left += l.Hi - l.Lo
		m.adapt()
		if m.low() {
			m.want()
		}
	}
	close(m.refilled)
	m.refilled = make(chan struct{})
	return err
}

// adapt sizes the next lease by the time since the last lease was taken. Small leases,
// such as the rests that other processes returned, lead to the next lease at once
// although few keys were issued, so they do not increase the size.
func (m *Minter) adapt() {
	now := m.now()
	issued := m.minted - m.used
	m.used = m.minted
	if !m.taken.IsZero() {
		switch lasted := now.Sub(m.taken); {
		case lasted < leaseShort:
			if issued >= m.size/2 {
				m.size = min(2*m.size, m.most)
			}
		case lasted > leaseLong:
			m.size = max(m.size/2, m.least)
		}
	}
	m.taken = now
}

// Close stops the refill and returns the unissued counters. Without a database they are
// burned: no counter is issued twice either way.
func (m *Minter) Close(ctx context.Context) error {
	m.stop()
	<-m.done
	m.mu.Lock()
	leases := m.leases
	m.leases, m.left = nil, 0
	m.mu.Unlock()
	var errs []error
	for _, l := range leases {
		errs = append(errs, m.store.ReturnLease(ctx, l.Lease, l.Lo))
	}
	return errors.Join(errs...)
}

type minterMetrics struct {
	allocations *prometheus.CounterVec
}

func newMinterMetrics(registerer prometheus.Registerer, region waypost.Region, m *Minter) *minterMetrics {
	labels := prometheus.Labels{"region": string(region)}
	generated := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "kgs_generated_total", Help: "Keys that this control plane has minted.", ConstLabels: labels,
	}, func() float64 { return float64(m.Minted()) })
	metrics := &minterMetrics{
		allocations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_allocations_total", ConstLabels: labels,
			Help: "Attempts of this control plane to lease counters: ok, exhausted (none are left), " +
				"unavailable (the database is away, or keys are held back) or error.",
		}, []string{"status"}),
	}
	for _, status := range []string{"ok", "exhausted", "unavailable", "error"} {
		metrics.allocations.WithLabelValues(status)
	}
	if registerer != nil {
		registerer.MustRegister(generated, metrics.allocations)
	}
	return metrics
}

func (m *minterMetrics) took(err error) {
	status := "error"
	switch {
	case err == nil:
		status = "ok"
	case waypost.CodeOf(err) == waypost.EExhausted:
		status = "exhausted"
	case waypost.CodeOf(err) == waypost.EUnavailable:
		status = "unavailable"
	}
	m.allocations.WithLabelValues(status).Inc()
}
