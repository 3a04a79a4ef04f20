package gossip

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"waypost"
)

// Gossip is this node's part in the conversation. All methods may be called by
// many goroutines at once.
type Gossip struct {
	cfg     Config
	card    card // with the first news
	started time.Time
	table   *table
	metrics metrics
	notes   chan note
	queue   *memberlist.TransmitLimitedQueue
	spread  *memberlist.TransmitLimitedQueue // goes first
	inbox   chan []byte
	list    *memberlist.Memberlist

	telling sync.Mutex // orders this node's news
	last    atomic.Pointer[news]
	leaving atomic.Bool

	cancel context.CancelFunc
	done   sync.WaitGroup
	ending sync.Mutex // orders Leave and Close
	closed bool
}

// note is something that happened to a member, on its way to the log.
type note struct {
	text string
	card card
}

// Start opens the listeners and begins to talk. It does not wait for any seed: one
// that is away is tried until it is there. The caller must Close it. After an error Start
// may be called again with the same Config.
func Start(cfg Config) (*Gossip, error) {
	cfg = cfg.withDefaults()
	g := &Gossip{cfg: cfg, started: time.Now(), notes: make(chan note, 64), inbox: make(chan []byte, maxInbox)}
	g.card = card{
		role: cfg.Role, node: cfg.Node, region: cfg.Region, addr: cfg.Addr, version: cfg.Version,
		started: min(max(g.started.UnixMilli(), 0), maxMillis),
	}
	if g.card.news.boot = cfg.Boot; cfg.Boot == (waypost.BootID{}) {
		_, _ = rand.Read(g.card.news.boot[:]) // never fails, and ends the process where there is no randomness
	}
	if err := errors.Join(cfg.check(), g.card.check()); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g.card.news = g.observe()
	g.table = &table{
		self: g.card.news.boot, node: cfg.Node, max: cfg.MaxMembers, forget: forgetAfter, now: time.Now,
		members: make(map[waypost.BootID]*entry),
	}
	g.queue = &memberlist.TransmitLimitedQueue{NumNodes: g.size, RetransmitMult: retransmit}
	g.spread = &memberlist.TransmitLimitedQueue{NumNodes: g.size, RetransmitMult: spreadRetransmit}
	if err := g.listen(); err != nil {
		return nil, fmt.Errorf("gossip on %s: %w", cfg.Bind, err)
	}
	return g, nil
}

// forgetAfter is the time for which a dead member is remembered.
const forgetAfter = 24 * time.Hour

// retransmit times the logarithm of the fleet's size is the number of times each member
// passes a message on.
const retransmit = 4

// listen starts memberlist and the goroutines that go with it.
func (g *Gossip) listen() error {
	bind, err := g.cfg.bind()
	if err != nil {
		return err
	}
	advertise, err := g.cfg.advertise()
	if err != nil {
		return err
	}
	g.metrics = newMetrics()
	lines := protocolLog(g.cfg.Logger, g.metrics.faults)
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	t, err := listen(ctx, bind, lines)
	if err != nil {
		cancel()
		return err
	}

	c := memberlist.DefaultLANConfig()
	c.Name = g.card.name()
	c.Transport = t
	c.BindPort = t.GetAutoBindPort()
	c.AdvertisePort = c.BindPort
	if advertise.IsValid() {
		c.AdvertiseAddr = advertise.Addr().String()
		if advertise.Port() != 0 {
			c.AdvertisePort = int(advertise.Port())
		}
	}
	c.Label = "waypost"
	if c.Keyring, err = keyring(g.cfg.Keys); err != nil {
		cancel()
		return errors.Join(err, t.Shutdown())
	}
	c.Logger = lines
	c.Delegate, c.Events, c.Alive = delegate{g}, delegate{g}, delegate{g}
	c.EnableCompression = false // messages are small and hardly repeat themselves
	c.TCPTimeout = 5 * time.Second
	c.RetransmitMult = retransmit
	// A dead node is found within about two probes, suspected for three to six
	// more (times the logarithm of a large fleet), and can refute that as long.
	c.ProbeInterval, c.ProbeTimeout = g.cfg.Probe, g.cfg.Probe/2
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = 3, 2
	if g.list, err = memberlist.Create(c); err != nil {
		cancel()
		return errors.Join(err, t.Shutdown())
	}
	g.metrics.register(g.cfg.Metrics, func() int { return g.table.alive() })
	g.done.Go(func() { g.publish(ctx) })
	g.done.Go(func() { g.rejoin(ctx) })
	g.done.Go(func() { g.receive(ctx) })
	return nil
}

// keyring returns a ring of keys; the first key encrypts.
func keyring(keys []Key) (*memberlist.Keyring, error) {
	others := make([][]byte, 0, len(keys))
	for _, k := range keys {
		others = append(others, k[:])
	}
	return memberlist.NewKeyring(others, others[0])
}

// Addr returns the address at which other nodes reach this one, IP:PORT.
func (g *Gossip) Addr() string { return g.list.LocalNode().Address() }

// Members returns all known members, this node included, ordered by node.
func (g *Gossip) Members() []Member {
	self := g.card.member()
	latest := g.latest()
	self.Self, self.State, self.Since, self.LastHeard = true, StateAlive, g.started, time.Now()
	self.Position = latest.position
	if g.leaving.Load() {
		self.State = StateLeft
	}
	return g.table.list(self)
}

// Leave announces that this node goes away on purpose, and returns when enough others
// have heard it, or at the deadline of ctx (at most 5 s). The node hears the others
// until Close. After Close, Leave does nothing.
func (g *Gossip) Leave(ctx context.Context) error {
	limit := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	g.ending.Lock()
	defer g.ending.Unlock()
	if g.closed {
		return nil
	}
	g.leaving.Store(true)
	g.tell()
	if err := g.list.Leave(max(limit, time.Millisecond)); err != nil {
		return fmt.Errorf("leave the gossip: %w", err)
	}
	return nil
}

// Close ends everything and waits for it, except a probe under way, which memberlist
// lets run out. Without a Leave before it, the others find this node dead.
func (g *Gossip) Close() error {
	g.ending.Lock()
	defer g.ending.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	g.cancel()
	err := g.list.Shutdown()
	g.done.Wait()
	if err != nil {
		return fmt.Errorf("close the gossip: %w", err)
	}
	return nil
}

// publish sends this node's news again and again, and does the work that delegates must
// not do.
func (g *Gossip) publish(ctx context.Context) {
	timer := time.NewTimer(g.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-g.notes:
			g.cfg.Logger.Info(n.text, "member", n.card.node, "region", string(n.card.region),
				"role", string(n.card.role), "version", n.card.version)
		case <-timer.C:
			g.table.expire()
			g.tell()
			timer.Reset(g.interval())
		}
	}
}

// fleetPerInterval is the size of a fleet up to which every node speaks once per
// interval. Nodes of larger fleets speak less often, so that each node passes on at most
// a few kilobytes per second.
const fleetPerInterval = 32

func (g *Gossip) interval() time.Duration {
	return time.Duration(float64(g.cfg.Interval) * math.Max(1, float64(g.size())/fleetPerInterval))
}

// tell broadcasts where this node stands now.
func (g *Gossip) tell() {
	g.telling.Lock()
	defer g.telling.Unlock()
	g.queue.QueueBroadcast(broadcast{g.observe()})
}

// observe makes news of where this node stands. One goroutine at a time does.
func (g *Gossip) observe() news {
	n := news{boot: g.card.news.boot, counter: 1, leaves: g.leaving.Load(), position: g.cfg.Position()}
	if last := g.last.Load(); last != nil {
		n.counter = last.counter + 1
	}
	g.last.Store(&n)
	return n
}

func (g *Gossip) latest() news { return *g.last.Load() }

// size returns the number of live nodes in the fleet, including this one.
func (g *Gossip) size() int { return g.table.alive() + 1 }

// logLater leaves something for the log; when that is too slow, it is not written.
func (g *Gossip) logLater(text string, c card) {
	select {
	case g.notes <- note{text, c}:
	default:
	}
}
