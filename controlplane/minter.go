package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"waypost"
	"waypost/keyrange"
)

// Key is a code that was never given out before, and the epoch in which it may
// be used.
type Key struct {
	Code  waypost.Code
	Epoch uint32
}

// Minter turns leased counters into codes. Leases are taken ahead in the
// background, so that minting touches no database while it runs steadily; when a
// burst empties the lease, callers wait for the next one.
//
// A crash burns what is left of the leases. Close gives it back.
type Minter struct {
	store  LeaseStore
	coder  *keyrange.Coder
	region waypost.Region
	node   string
	size   int64
	log    *slog.Logger
	seldom rate.Sometimes // bounds what a database that is away writes into the log

	mu       sync.Mutex
	leases   []Lease       // the first is being issued from; its Lo is the next counter
	finished []int64       // used up, to be noted with the next lease
	refilled chan struct{} // closed when a lease came, or taking one failed; then renewed
	lastErr  error         // of the last attempt, nil after a success
	floor    uint32        // leases of epochs below are dead

	wanted chan struct{} // asks the refill goroutine for a lease
	stop   context.CancelFunc
	done   chan struct{}
}

// MinterConfig is what a Minter is made of.
type MinterConfig struct {
	Store  LeaseStore
	Coder  *keyrange.Coder
	Region waypost.Region
	Node   string       // names the process: another one at every start
	Size   int64        // counters in a lease; 0 means 10,000
	Logger *slog.Logger // nil: nothing is logged
}

const (
	defaultLeaseSize = 10_000
	refillTimeout    = 4 * time.Second
	refillPause      = 100 * time.Millisecond // between attempts that fail
)

// NewMinter starts the background refill at once.
func NewMinter(cfg MinterConfig) *Minter {
	if cfg.Size == 0 {
		cfg.Size = defaultLeaseSize
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Minter{
		store: cfg.Store, coder: cfg.Coder, region: cfg.Region, node: cfg.Node, size: cfg.Size, log: cfg.Logger,
		seldom:   rate.Sometimes{Interval: time.Second},
		refilled: make(chan struct{}), wanted: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
	}
	m.wanted <- struct{}{}
	go m.refill(ctx)
	return m
}

// Mint gives the next code. It waits when no counter is at hand, until ctx is
// over (EUnavailable) or the region turns out to have none left (EExhausted).
func (m *Minter) Mint(ctx context.Context) (Key, error) {
	for waited := false; ; waited = true {
		m.mu.Lock()
		if len(m.leases) > 0 {
			l := &m.leases[0]
			prefix, counter, epoch := l.Prefix, l.Lo, l.Epoch
			l.Lo++
			if l.Lo == l.Hi {
				m.finished = append(m.finished, l.ID)
				m.leases = m.leases[1:]
			}
			if m.remaining() < m.size/2 {
				m.want()
			}
			m.mu.Unlock()
			return Key{Code: m.coder.Encode(prefix, counter), Epoch: epoch}, nil
		}
		if waited && m.lastErr != nil {
			err := m.lastErr
			m.mu.Unlock()
			return Key{}, err
		}
		refilled := m.refilled
		m.want()
		m.mu.Unlock()
		select {
		case <-refilled:
		case <-ctx.Done():
			return Key{}, waypost.WrapError(waypost.EUnavailable, "no key could be leased in time", ctx.Err())
		case <-m.done:
			return Key{}, waypost.Errorf(waypost.EUnavailable, "this control plane is shutting down")
		}
	}
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
	alive := m.leases[:0:0]
	for _, l := range m.leases {
		if l.Epoch >= m.floor {
			alive = append(alive, l)
		}
	}
	m.leases, m.finished = alive, nil
	m.want()
}

// Remaining counts the leased counters that are not issued yet.
func (m *Minter) Remaining() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.remaining()
}

func (m *Minter) remaining() (n int64) {
	for _, l := range m.leases {
		n += l.Hi - l.Lo
	}
	return n
}

// want asks for a lease; asking twice is asking once.
func (m *Minter) want() {
	select {
	case m.wanted <- struct{}{}:
	default:
	}
}

func (m *Minter) refill(ctx context.Context) {
	defer close(m.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wanted:
		}
		m.mu.Lock()
		finished, enough := m.finished, m.remaining() >= m.size/2
		m.mu.Unlock()
		if enough {
			continue
		}
		if err := m.take(ctx, finished); err != nil && ctx.Err() == nil {
			m.seldom.Do(func() { m.log.Warn("no key lease", "region", m.region, "error", err) })
			m.want()
			select {
			case <-ctx.Done():
				return
			case <-time.After(refillPause):
			}
		}
	}
}

func (m *Minter) take(ctx context.Context, finished []int64) error {
	ctx, cancel := context.WithTimeout(ctx, refillTimeout)
	defer cancel()
	l, err := m.store.TakeLease(ctx, m.region, m.node, m.size, finished)
	if err == nil && !m.coder.Space().Holds(keyrange.Block{Prefix: l.Prefix, Lo: l.Lo, Hi: l.Hi}) {
		err = fmt.Errorf("lease %d is outside the key space: prefix %d, counters %d to %d", l.ID, l.Prefix, l.Lo, l.Hi)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && l.Epoch < m.floor {
		err = waypost.Errorf(waypost.EUnavailable, "a lease of epoch %d came when it was over already", l.Epoch)
	}
	m.lastErr = err
	if err == nil {
		m.finished = m.finished[min(len(finished), len(m.finished)):]
		m.leases = append(m.leases, l)
		if m.remaining() < m.size/2 {
			m.want()
		}
	}
	close(m.refilled)
	m.refilled = make(chan struct{})
	return err
}

// Close stops the refill and gives back what was never issued. Without a
// database the rest is burned: no counter is issued twice either way.
func (m *Minter) Close(ctx context.Context) error {
	m.stop()
	<-m.done
	m.mu.Lock()
	leases := m.leases
	m.leases = nil
	m.mu.Unlock()
	var errs []error
	for _, l := range leases {
		errs = append(errs, m.store.ReturnLease(ctx, l, l.Lo))
	}
	return errors.Join(errs...)
}
