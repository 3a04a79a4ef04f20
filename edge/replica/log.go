package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// A store keeps the log of applied batches under 'l' and the sequence of the batch's last
// transaction. The log is contiguous, of the state's epoch, and ends at the state's
// position, or is empty. A store that is being filled or repaired has none. An entry is,
// little-endian:
//
//	bytes of the log up to and with this entry (8), time of the last transaction (8; Unix
//	milliseconds, by the origin's clock), first sequence (8), stamp of the transaction
//	before it (8), and the batch's frame as it was received
const (
	prefixLog      = 'l'
	logKeySize     = 1 + 8
	logEntryHeader = 4 * 8
)

var logStart, logEnd = []byte{prefixLog}, []byte{prefixLog + 1}

func appendLogKey(dst []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, prefixLog), seq)
}

// logEntry is one applied batch.
type logEntry struct {
	total  uint64 // bytes of the log since it began, with this one
	at     int64  // of the last transaction
	first  uint64
	before uint64 // stamp of the transaction before the first
	frame  []byte
}

var errLog = errors.New("an entry of the log is damaged")

func parseLogEntry(value []byte) (e logEntry, err error) {
	if len(value) < logEntryHeader {
		return e, errLog
	}
	le := binary.LittleEndian
	return logEntry{
		total: le.Uint64(value), at: int64(le.Uint64(value[8:])), first: le.Uint64(value[16:]), before: le.Uint64(value[24:]),
		frame: value[logEntryHeader:],
	}, nil
}

// logIndex describes a store's log to its writer.
type logIndex struct {
	last      uint64 // sequence; 0: the log is empty
	total     uint64 // of the last entry
	pruned    uint64 // total when it was last pruned
	prunedAt  time.Time
	remaining uint64 // total of the newest entry that was pruned
}

// loadLog reads the index of the log. It clears a log that does not end at the position.
func (st *store) loadLog() error {
	it, err := st.pdb.NewIter(&pebble.IterOptions{LowerBound: logStart, UpperBound: logEnd})
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	var x logIndex
	var newest int64
	held := it.Last()
	if held && len(it.Key()) == logKeySize {
		var e logEntry
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			e, err = parseLogEntry(value)
		}
		x.last, x.total, newest = binary.BigEndian.Uint64(it.Key()[1:]), e.total, e.at
		if err == nil && it.First() {
			if value, err = it.ValueAndErr(); err == nil {
				e, err = parseLogEntry(value)
			}
			x.remaining = e.total - min(e.total, uint64(len(e.frame)))
		}
	}
	if err = errors.Join(err, it.Close()); err != nil && !errors.Is(err, errLog) {
		return fmt.Errorf("read the log: %w", err)
	}
	s := st.applied.Load()
	if held && (err != nil || x.last != s.position.Seq || s.repairing) {
		if err := st.pdb.DeleteRange(logStart, logEnd, pebble.NoSync); err != nil {
			return fmt.Errorf("clear the log: %w", err)
		}
		x, newest = logIndex{}, 0
	}
	x.pruned = x.remaining
	st.guarded.log = x
	st.lastAt.Store(newest)
	return nil
}

// keep appends a batch to the log. The writer has taken the batch's transactions on top
// of before.
func (w *writer) keep(b *replication.Batch, before waypost.Position, cfg *Config) error {
	x := w.st.guarded.log
	gap := x.last != 0 && x.last != before.Seq
	frame := []byte(nil)
	if cfg.LogBytes > 0 {
		frame = replication.EncodeBatch(b)
	}
	if frame == nil || gap { // a batch that does not fit, or is not kept, ends the log
		if x.last != 0 {
			if err := w.batch.DeleteRange(logStart, logEnd, nil); err != nil {
				return fmt.Errorf("clear the log: %w", err)
			}
		}
		x = logIndex{}
	}
	last := &b.Transactions[len(b.Transactions)-1]
	if frame != nil {
		if err := w.prune(&x, cfg, last.At); err != nil {
			return err
		}
		x.last, x.total = last.Seq, x.total+uint64(len(frame))
		op := w.batch.SetDeferred(logKeySize, logEntryHeader+len(frame))
		appendLogKey(op.Key[:0], last.Seq)
		le := binary.LittleEndian
		le.PutUint64(op.Value, x.total)
		le.PutUint64(op.Value[8:], uint64(last.At))
		le.PutUint64(op.Value[16:], b.Transactions[0].Seq)
		le.PutUint64(op.Value[24:], before.Stamp)
		copy(op.Value[logEntryHeader:], frame)
		if err := op.Finish(); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
	}
	w.log = &x
	return nil
}

const (
	logAge     = 72 * time.Hour // of the oldest entry
	pruneEvery = time.Minute    // between checks of the age of entries
)

// prune removes the oldest entries, a sixteenth of the limit at a time.
func (w *writer) prune(x *logIndex, cfg *Config, now int64) error {
	limit := uint64(cfg.LogBytes)
	full := x.total-x.remaining > limit && x.total-x.pruned > limit/16
	if x.last == 0 || !full && time.Since(x.prunedAt) < pruneEvery {
		return nil
	}
	oldest := now - logAge.Milliseconds()
	keepFrom := x.total - min(x.total, limit-limit/16)
	// Entries are ordered by sequence, and so by size and, unless a clock was set, by time.
	it, err := w.st.pdb.NewIter(&pebble.IterOptions{LowerBound: logStart, UpperBound: logEnd})
	if err != nil {
		return fmt.Errorf("prune the log: %w", err)
	}
	low, high := uint64(0), x.last
	for low < high && err == nil { // the first sequence whose entry stays
		mid := low + (high-low)/2
		if !it.SeekGE(appendLogKey(nil, mid)) {
			high = mid
			err = it.Error()
			continue
		}
		var e logEntry
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			e, err = parseLogEntry(value)
		}
		if seq := binary.BigEndian.Uint64(it.Key()[1:]); e.total <= keepFrom || e.at < oldest {
			low, x.remaining = seq+1, max(x.remaining, e.total)
		} else {
			high = mid
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("prune the log: %w", err)
	}
	x.pruned, x.prunedAt = x.total, time.Now()
	if low == 0 {
		return nil
	}
	if err := w.batch.DeleteRange(logStart, appendLogKey(nil, low), nil); err != nil {
		return fmt.Errorf("prune the log: %w", err)
	}
	cfg.Points.Hit("prune log: begun")
	w.pruned = true
	return nil
}

// readLog returns the batch that follows after, which is before the position of s.
func (o *source) readLog(ctx context.Context, st *store, s *state, after waypost.Position) (b replication.Batch, err error) {
	it, err := st.pdb.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: appendLogKey(nil, after.Seq+1), UpperBound: appendLogKey(nil, s.position.Seq+1),
	})
	if err != nil {
		return b, fmt.Errorf("read the log: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.First() {
		if err := it.Error(); err != nil {
			return b, fmt.Errorf("read the log: %w", err)
		}
		return b, replication.ErrTrimmed
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return b, fmt.Errorf("read the log: %w", err)
	}
	e, err := parseLogEntry(value)
	if err != nil {
		return b, fmt.Errorf("%w: %w", replication.ErrNoSource, err)
	}
	if e.first > after.Seq+1 {
		return b, replication.ErrTrimmed
	}
	b, err = o.decodeLog(append([]byte(nil), e.frame...))
	if err != nil {
		return b, fmt.Errorf("%w: %w: %w", replication.ErrNoSource, errLog, err)
	}
	// The frame may begin before the entry's first transaction, if this replica had some of
	// it when the frame was received.
	skip := after.Seq + 1 - min(b.Transactions[0].Seq, after.Seq+1)
	before := e.before
	if skip > uint64(len(b.Transactions)) {
		return b, fmt.Errorf("%w: %w", replication.ErrNoSource, errLog)
	}
	if skip > 0 && after.Seq+1 != e.first {
		before = b.Transactions[skip-1].Stamp
	}
	if b.Epoch != s.position.Epoch || before != after.Stamp {
		return b, replication.ErrOtherHistory
	}
	b.Transactions = b.Transactions[skip:]
	b.AtHead = len(b.Transactions) > 0 && b.Last().Seq == s.position.Seq
	return b, nil
}

func (o *source) decodeLog(frame []byte) (replication.Batch, error) {
	d, _ := o.decoders.Get().(*replication.BatchDecoder)
	if d == nil {
		var err error
		if d, err = replication.NewBatchDecoder(); err != nil {
			return replication.Batch{}, err
		}
	}
	defer o.decoders.Put(d)
	return d.Decode(frame)
}
