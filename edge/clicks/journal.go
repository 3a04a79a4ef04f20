package clicks

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Journal is open on one directory, for one start of an edge.
//
//	Record ─▶ shards ─▶ segments ──keeper──▶ batches ──Ship──▶ control plane
//	             ▲              └──keeper──▶ folds ──▲ keeper
//	             │ a spare one, when one is full ▲ └─┘
//	             └──── maker                     └── merger
//
// The keeper, the maker and the merger are goroutines of the journal's own, Ship is the
// caller's.
type Journal struct {
	cfg Config
	log *slog.Logger
	dir *directory

	zstd, mergeZstd *zstd.Encoder // the fixer's, the merger's
	unzip           *zstd.Decoder // anybody's

	shards  []shard
	seed    maphash.Seed  // of the shards' texts
	spares  chan *segment // what the maker has ready
	dropped atomic.Uint64

	mu       sync.Mutex // of the lanes; never taken while a click is recorded
	lanes    []*lane    // in the order of their boots
	current  *lane
	progress progressState // guarded by mu
	worn     []*segment    // to be used again; guarded by mu
	likely   int           // how many of them; guarded by mu

	wake   chan struct{} // has a token when a batch may wait to be shipped
	turn   chan struct{} // has a token when another batch may be made
	folded chan struct{} // has a token when there is another fold
	freed  chan struct{} // has a token when there may be room for a segment
	taken  chan struct{} // has a token when a spare segment was taken
	hold   atomic.Bool   // the disk is full: no spares
	plenty time.Time     // when there was room for many segments; the maker's own
	takes  atomic.Uint64 // of spares
	counts counts

	fixing sync.Mutex // held while batches and folds are made; taken before mu
	fixer  fixer

	adopting sync.Mutex // held by Adopt, and to seal
	over     bool       // nothing more is adopted

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
func Open(cfg Config) (_ *Journal, err error) {
	defer func() {
		if err != nil && cfg.Beside != nil {
			err = errors.Join(err, ignoreClosed(cfg.Beside.Close()))
		}
	}()
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	j := &Journal{
		cfg: cfg, log: cfg.Logger,
		shards: make([]shard, cfg.Shards), seed: maphash.MakeSeed(), spares: make(chan *segment, mostSpares(&cfg)),
		wake: make(chan struct{}, 1), freed: make(chan struct{}, 1), taken: make(chan struct{}, 1), turn: make(chan struct{}, 1), folded: make(chan struct{}, 1),
		stop: make(chan struct{}), sealed: make(chan struct{}), closing: make(chan struct{}), ship: make(chan struct{}, 1),
	}
	j.fixer.sums = newTally(cfg.Audience)
	j.seal, j.close = sync.OnceValue(j.sealNow), sync.OnceValue(j.closeNow)
	if err := j.newCoders(); err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	if j.dir, err = openDirectory(cfg.Dir, cfg.Beside, cfg.disk); err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	if err := j.start(); err != nil {
		return nil, fmt.Errorf("click journal in %s: %w", cfg.Dir, errors.Join(err, j.dir.close()))
	}
	return j, nil
}

func (j *Journal) start() error {
	find := j.recover
	if j.cfg.Beside != nil {
		find, j.progress.shared = j.lastOrdinal, true
	}
	ordinal, err := find()
	if err != nil {
		return err
	}
	boot := bootName{ordinal: ordinal + 1}
	rand.Read(boot.id[:]) // which does not fail
	j.current = &lane{boot: boot, node: j.cfg.Node, next: 1, nextFold: 1}
	j.lanes = append(j.lanes, j.current)
	if j.cfg.Metrics != nil {
		if err := j.cfg.Metrics.Register(collector{j}); err != nil {
			return errors.Join(err, j.closeSegments())
		}
	}
	// One segment is enough to begin with; the rest comes in time.
	first, err := j.newSegment(false)
	if errors.Is(err, errQuota) {
		if err = j.tendAll(false); err == nil { // batches are smaller
			first, err = j.newSegment(false)
		}
	}
	if err != nil {
		j.diskFailed("a segment of the click journal could not be made", err)
	}
	j.shards[0].segment = first
	j.signal(j.wake)
	j.signal(j.folded)
	j.work.Go(j.keepSegments)
	j.work.Go(j.makeSegments)
	j.work.Go(j.mergeFolds)
	return nil
}

// Seal ends the recording: clicks that come later are dropped and counted. What was
// recorded is in batches or folds then, durably; when that fails it stays in the journal for
// the next start. Ship ends once it has shipped all of that.
func (j *Journal) Seal() error { return j.seal() }

func (j *Journal) sealNow() error {
	j.adopting.Lock()
	j.over = true
	j.adopting.Unlock()
	for i := range j.shards {
		j.shards[i].close()
	}
	close(j.stop)
	j.work.Wait()
	j.mu.Lock()
	for _, s := range j.current.segments {
		s.done.Store(true) // the spare ones too
	}
	j.mu.Unlock()
	j.fixing.Lock()
	err := j.tendAll(true)
	j.fixing.Unlock()
	j.discardWorn(0)
	if err != nil {
		j.syncSegments(true)
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
	return errors.Join(err, j.closeSegments(), j.closeCoders(), j.dir.close())
}

func (j *Journal) closeSegments() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.progress.shared = true // nobody can tell any more
	return closeSegments(j.lanes)
}

func closeSegments(lanes []*lane) error {
	var errs []error
	for _, l := range lanes {
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
