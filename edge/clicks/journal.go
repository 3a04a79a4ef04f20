package clicks

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// Journal is open on one directory, for one start of an edge.
//
//	Record ─▶ shards ─▶ segments ──keeper──▶ batches ──Ship──▶ control plane
//	             ▲ a spare one, when one is full
//	             └──── maker
//
// The keeper and the maker are goroutines of the journal's own, Ship is the
// caller's.
type Journal struct {
	cfg  Config
	log  *slog.Logger
	dir  *directory
	zstd *zstd.Encoder

	shards  []shard
	spares  chan *segment // the maker offers one
	dropped atomic.Uint64

	mu      sync.Mutex // of the lanes; never taken while a click is recorded
	lanes   []*lane    // in the order of their boots
	current *lane

	wake   chan struct{} // has a token when a batch may wait to be shipped
	freed  chan struct{} // has a token when there may be room for a segment
	hold   atomic.Bool   // the disk is full: no spares
	counts counts

	keeper keeperState

	seal    func() error // once
	close   func() error // once
	stop    chan struct{}
	work    sync.WaitGroup
	sealed  chan struct{} // closed when nothing is recorded or fixed any more
	closing chan struct{}
	ship    chan struct{} // has a token while Ship runs, and for good once closed
}

// Open opens the journal of a new boot, and takes over what earlier ones left: it
// becomes batches of the boots that recorded it. A full disk is no error: clicks
// are dropped, and counted, until there is room.
func Open(cfg Config) (*Journal, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	j := &Journal{
		cfg: cfg, log: cfg.Logger,
		shards: make([]shard, cfg.Shards), spares: make(chan *segment),
		wake: make(chan struct{}, 1), freed: make(chan struct{}, 1),
		stop: make(chan struct{}), sealed: make(chan struct{}), closing: make(chan struct{}), ship: make(chan struct{}, 1),
	}
	j.keeper.sums = newTotals()
	j.seal, j.close = sync.OnceValue(j.sealNow), sync.OnceValue(j.closeNow)
	j.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest)) // codes are as good as random
	if err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	if j.dir, err = openDirectory(cfg.Dir, cfg.disk); err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	if err := j.start(); err != nil {
		return nil, fmt.Errorf("click journal in %s: %w", cfg.Dir, errors.Join(err, j.dir.close()))
	}
	return j, nil
}

func (j *Journal) start() error {
	ordinal, err := j.recover()
	if err != nil {
		return err
	}
	boot := bootName{ordinal: ordinal}
	rand.Read(boot.id[:]) // which does not fail
	j.current = &lane{boot: boot, node: j.cfg.Node, next: 1}
	j.lanes = append(j.lanes, j.current)
	if j.cfg.Metrics != nil {
		if err := j.cfg.Metrics.Register(collector{j}); err != nil {
			return errors.Join(err, j.closeSegments())
		}
	}
	// One segment is enough to begin with; the rest comes in time.
	first, err := j.newSegment()
	if errors.Is(err, errQuota) {
		if err = j.fixLeftovers(); err == nil { // batches are smaller
			first, err = j.newSegment()
		}
	}
	if err != nil {
		j.diskFailed("a segment of the click journal could not be made", err)
	}
	j.shards[0].segment = first
	j.signal(j.wake)
	j.work.Go(j.keepSegments)
	j.work.Go(j.makeSegments)
	return nil
}

// Seal ends the recording: clicks that come later are dropped and counted. What was
// recorded is fixed in batches, durably; when that fails it stays in the journal for
// the next start. Ship ends once it has shipped all of them.
func (j *Journal) Seal() error { return j.seal() }

func (j *Journal) sealNow() error {
	for i := range j.shards {
		j.shards[i].close()
	}
	close(j.stop)
	j.work.Wait()
	j.mu.Lock()
	for _, s := range j.current.segments {
		s.done.Store(true) // the spare one too
	}
	j.mu.Unlock()
	err := errors.Join(j.fixLeftovers(), j.exhaust(j.current))
	if err != nil {
		j.syncSegments()
		err = fmt.Errorf("seal the click journal: %w", err)
	}
	close(j.sealed)
	j.signal(j.wake)
	return err
}

// Close seals the journal, ends Ship, and lets go of the directory.
func (j *Journal) Close() error { return j.close() }

func (j *Journal) closeNow() error {
	err := j.Seal()
	close(j.closing)
	j.ship <- struct{}{}
	return errors.Join(err, j.closeSegments(), j.zstd.Close(), j.dir.close())
}

func (j *Journal) closeSegments() error {
	var errs []error
	for _, l := range j.lanes {
		for _, s := range l.segments {
			errs = append(errs, s.unmap(), s.file.Close())
		}
		l.segments = nil
	}
	return errors.Join(errs...)
}

// signal leaves a token, unless there is one.
func (j *Journal) signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// diskFailed notes that the disk did not do what it should.
func (j *Journal) diskFailed(what string, err error) {
	j.counts.diskErrors.Add(1)
	j.log.Error(what, slog.Any("error", err))
}
