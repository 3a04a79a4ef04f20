package clicks

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/klauspost/compress/zstd"

	"waypost/api/clickbatch"
)

// Journal is open on one directory, for one start of an edge.
//
//	Record ─▶ recorder ─▶ segments ──batcher──▶ batches ──shipper──▶ control plane
//	              ▲              └───batcher──▶ compacted ──▲ batcher
//	              │ spare segments                 ▲ └─┘
//	              └── spares                       └── compactor
//
// Each part owns its fields, its lock and its goroutine; the caller runs the shipper. The
// catalog, under a lock of its own, knows which files there are.
type Journal struct {
	*base
	catalog   *catalog
	retention *retention
	spares    *spares
	recorder  *recorder
	batcher   *batcher
	compactor *compactor
	shipper   *shipper

	seal   func() error // once
	close  func() error // once
	work   sync.WaitGroup
	sealed chan struct{} // closed when recording and batching have ended
}

// base is common to the parts of a journal. Its fields do not change after Open.
type base struct {
	cfg    Config
	log    *slog.Logger
	dir    *directory
	unzip  *zstd.Decoder
	counts counts
	stop   chan struct{} // closed when the parts should end

	batchWaits signal // a batch may wait to be shipped
	mayBatch   signal // another batch may be made
	compacted  signal // there is another compacted segment
	freed      signal // there may be room for a segment
	taken      signal // a spare segment was taken
}

// signal holds at most one token.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// set leaves a token, unless there is one.
func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Open opens the journal of a new boot, and takes over the files of earlier boots: they
// become batches of the boots that recorded them. A full disk is no error: clicks are
// dropped, and counted, until there is room.
func Open(cfg Config) (*Journal, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	j, err := newJournal(cfg)
	if err != nil {
		return nil, fmt.Errorf("click journal: %w", err)
	}
	if err := j.start(); err != nil {
		return nil, fmt.Errorf("click journal in %s: %w", cfg.Dir, errors.Join(err, j.dir.close()))
	}
	return j, nil
}

func newJournal(cfg Config) (*Journal, error) {
	b := &base{
		cfg: cfg, log: cfg.Logger, stop: make(chan struct{}),
		batchWaits: newSignal(), mayBatch: newSignal(), compacted: newSignal(), freed: newSignal(), taken: newSignal(),
	}
	j := &Journal{base: b, sealed: make(chan struct{})}
	j.seal, j.close = sync.OnceValue(j.sealNow), sync.OnceValue(j.closeNow)
	var err error
	b.unzip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(clickbatch.MaxBytes))
	if err != nil {
		return nil, err
	}
	j.spares = newSpares(b)
	j.recorder = newRecorder(b, j.spares)
	j.catalog = &catalog{base: b, spares: j.spares, recorder: j.recorder}
	j.retention = &retention{base: b, catalog: j.catalog}
	j.spares.catalog, j.spares.retention = j.catalog, j.retention
	if j.batcher, err = newBatcher(b, j.catalog, j.retention, j.spares, j.recorder); err != nil {
		return nil, err
	}
	if j.compactor, err = newCompactor(b, j.catalog, j.retention, j.batcher); err != nil {
		return nil, err
	}
	j.shipper = newShipper(b, j.catalog, j.retention, j.batcher, j.sealed)
	b.dir, err = openDirectory(cfg.Dir, cfg.disk)
	return j, err
}

func (j *Journal) start() error {
	ordinal, err := j.recoverAll()
	if err != nil {
		return err
	}
	boot := bootName{ordinal: ordinal + 1}
	rand.Read(boot.id[:]) // which does not fail
	j.catalog.addStream(&stream{boot: boot, node: j.cfg.Node, next: 1, nextCompacted: 1})
	if j.cfg.Metrics != nil {
		if err := j.cfg.Metrics.Register(collector{j}); err != nil {
			return errors.Join(err, j.catalog.close())
		}
	}
	// One segment is enough to begin with; the others follow in time.
	first, err := j.spares.newSegment(false)
	if errors.Is(err, errQuota) {
		if err = j.batcher.advanceNow(false); err == nil { // batches are smaller
			first, err = j.spares.newSegment(false)
		}
	}
	if err != nil {
		j.diskFailed("cannot make a segment of the click journal", err)
	}
	j.recorder.shards[0].segment = first
	j.batchWaits.set()
	j.compacted.set()
	j.work.Go(j.batcher.run)
	j.work.Go(j.spares.run)
	j.work.Go(j.compactor.run)
	return nil
}

// Seal ends the recording: later clicks are dropped and counted. All recorded clicks are
// then in batches or compacted segments, durably; if that fails they stay in the journal
// for the next start. Ship ends once it has shipped all of them.
func (j *Journal) Seal() error { return j.seal() }

func (j *Journal) sealNow() error {
	j.recorder.close()
	close(j.stop)
	j.work.Wait()
	j.catalog.sealCurrent()
	err := j.batcher.advanceNow(true)
	j.spares.keepReusable(0)
	if err != nil {
		j.batcher.syncSegments(true)
		err = fmt.Errorf("seal the click journal: %w", err)
	}
	close(j.sealed)
	j.batchWaits.set()
	return err
}

// Close seals the journal, ends Ship, and releases the directory.
func (j *Journal) Close() error { return j.close() }

func (j *Journal) closeNow() error {
	err := j.Seal()
	j.shipper.close()
	j.unzip.Close()
	return errors.Join(err, j.catalog.close(), j.batcher.close(), j.compactor.close(), j.dir.close())
}

// diskFailed counts and logs a failure of the disk.
func (b *base) diskFailed(what string, err error) {
	b.counts.diskErrors.Add(1)
	b.log.Error(what, "error", err)
}

// quarantine puts a file away that cannot be read.
func (b *base) quarantine(file string) error {
	b.counts.quarantined.Add(1)
	b.log.Error("quarantined a file of the click journal", "file", file)
	return b.dir.moveTo(quarantineDir, file)
}

// lose counts clicks of a block that cannot be read.
func (b *base) lose(c *compacted, block int, err error) {
	clicks := c.blocks[block].clicks
	b.counts.lost.Add(clicks)
	b.log.Error("cannot read a part of a compacted segment of clicks", "file", c.name.String(),
		"clicks", clicks, "error", err)
}
