// Package blocks keeps the blocks of codes on an edge: the statements that a control
// plane has signed, in a small file next to the replica, which no snapshot and no repair
// touches, and the addresses that the operator of this edge has listed by hand.
//
// Statements come with the stream, by gossip and in exchange for reports. The package
// verifies every statement that no other package has verified, and opens no connection.
package blocks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/replication"
)

// Config configures Blocks. Check is required.
type Config struct {
	// Check verifies the signature of a statement.
	Check func(*replication.SignedBlock) error
	// Pass receives each new statement, encoded, for other nodes. It must not block.
	// Default: statements are not passed on.
	Pass func(encoded []byte)

	Look    time.Duration         // between looks at the list made by hand; default 1 s
	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: metrics are not registered
}

// Blocks holds the blocks of an edge. All methods may be called by many goroutines at
// once, except Open.
type Blocks struct {
	replication.BlockSet
	cfg     Config
	refused prometheus.Counter
	logged  atomic.Int64                                   // Unix second of the last refusal in the log
	local   atomic.Pointer[map[string]waypost.BlockPolicy] // made by hand; nil: none
	opened  chan struct{}
	dirty   chan struct{} // has a token when the set has changed

	mu   sync.Mutex // orders writes of the file
	file string
	list localList // Open, and then Run, own it

	known uint64 // place of the last statement that was in the file; of opened
}

// New returns Blocks without a block. A block has effect even before Open, and is kept on
// the disk from Open on.
func New(cfg Config) *Blocks {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Pass == nil {
		cfg.Pass = func([]byte) {}
	}
	cfg.Look = cmp.Or(cfg.Look, time.Second)
	b := &Blocks{cfg: cfg, opened: make(chan struct{}), dirty: make(chan struct{}, 1)}
	b.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waypost_blocks_refused_total", Help: "Blocks of codes that were not signed by the control plane, or could not be read.",
	})
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(b.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waypost_blocks", Help: "Codes that are blocked on this node.",
		}, func() float64 { return float64(b.Active() + b.byHand()) }))
	}
	b.OnChange(func() {
		select {
		case b.dirty <- struct{}{}:
		default:
		}
	})
	return b
}

// Policy implements [server.Blocks].
func (b *Blocks) Policy(host, code []byte, folded bool) waypost.BlockPolicy {
	if policy := b.BlockSet.Policy(host, code, folded); policy != 0 {
		return policy
	}
	if list := b.local.Load(); list != nil {
		return policyIn(*list, host, code, folded)
	}
	return 0
}

func policyIn(list map[string]waypost.BlockPolicy, host, code []byte, folded bool) waypost.BlockPolicy {
	var buf [waypost.MaxHostLength + 3 + waypost.MaxCodeLength]byte
	if len(host) > waypost.MaxHostLength || len(code) > waypost.MaxCodeLength {
		return 0
	}
	return list[string(waypost.AppendBlockKey(buf[:0], host, code, folded))]
}

// byHand counts the addresses of the list. Each has a second key.
func (b *Blocks) byHand() (n int) {
	if list := b.local.Load(); list != nil {
		for key := range *list {
			if !strings.Contains(key, "/\x00") {
				n++
			}
		}
	}
	return n
}

// Hear takes encoded statements of any origin, and leaves out statements without a
// valid signature. The others have effect when Hear returns.
func (b *Blocks) Hear(encoded ...[]byte) {
	sound := make([]replication.SignedBlock, 0, len(encoded))
	var refused error
	for _, e := range encoded {
		block, err := replication.DecodeBlock(e)
		if err == nil {
			if held, known := b.Get(block.Host, block.Code); known && !block.Newer(&held) {
				continue // costs no verification
			}
			err = b.cfg.Check(&block)
		}
		if err != nil {
			b.refused.Inc()
			refused = err
			continue
		}
		sound = append(sound, block)
	}
	_, err := b.Take(sound...)
	if err := errors.Join(refused, err); err != nil && b.mayLog() {
		b.cfg.Logger.Error("refused a block of a code", "error", err)
	}
}

// mayLog reports whether one of many refusals may be logged, once a second: anyone in the
// gossip can send any number. The metric counts all.
func (b *Blocks) mayLog() bool {
	second := time.Now().Unix()
	last := b.logged.Load()
	return last != second && b.logged.CompareAndSwap(last, second)
}

// Shards returns the digests of the shards, for a report.
func (b *Blocks) Shards() []uint64 {
	d := b.Digests()
	return d[:]
}

// Lacking returns the statements that another node lacks: digests are the digests of its
// shards, and known are the encoded statements of the differing shards that the node has
// sent.
func (b *Blocks) Lacking(digests []uint64, known [][]byte) (lacking [][]byte) {
	if len(digests) != replication.BlockShards {
		return nil
	}
	versions := make(map[string]uint64, len(known))
	key := func(b *waypost.Block) string {
		return string(waypost.AppendBlockKey(nil, []byte(b.Host), []byte(b.Code), false))
	}
	for _, e := range known {
		if theirs, err := replication.DecodeBlock(e); err == nil {
			versions[key(&theirs.Block)] = theirs.Version
		}
	}
	for _, own := range b.Differing((*[replication.BlockShards]uint64)(digests)) {
		if own.Version > versions[key(&own.Block)] {
			lacking = append(lacking, replication.AppendBlock(nil, &own))
		}
	}
	return lacking
}

// saveRetry is the pause after a failed write of the file.
const saveRetry = time.Second

// Run keeps the file, passes news on, and reads the list made by hand, until ctx ends.
func (b *Blocks) Run(ctx context.Context) {
	select {
	case <-b.opened:
	case <-ctx.Done():
		select {
		case <-b.opened: // blocks that came before the stop are kept below
		default:
			return
		}
	}
	look := time.NewTicker(b.cfg.Look)
	defer look.Stop()
	passed := b.known
	if err := b.save(); err != nil { // the blocks that came before Open
		b.cfg.Logger.Error("cannot keep the blocks of codes", "error", err)
	}
	var retry <-chan time.Time
	failing := false
	for {
		select {
		case <-ctx.Done():
			if err := b.save(); err != nil {
				b.cfg.Logger.Error("cannot keep the blocks of codes", "error", err)
			}
			return
		case <-look.C:
			b.readList()
			continue
		case <-b.dirty:
			passed = b.pass(passed)
		case <-retry:
		}
		err := b.save()
		if retry = nil; err != nil {
			retry = time.After(saveRetry)
			if !failing {
				b.cfg.Logger.Error("cannot keep the blocks of codes, which are in effect until this edge stops", "error", err)
			}
		}
		failing = err != nil
	}
}

// maxPassed bounds the statements that are passed on after one change. Others come with
// the stream, and in exchange for reports.
const maxPassed = 256

func (b *Blocks) pass(passed uint64) uint64 {
	all, _ := b.Since(passed, maxPassed)
	for i := range all {
		b.cfg.Pass(replication.AppendBlock(nil, &all[i]))
	}
	return b.Order()
}
