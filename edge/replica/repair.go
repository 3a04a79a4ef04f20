package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// repair replaces slots of the live store. One goroutine uses it.
//
// With its first write, but for what Apply takes of its own history before Sums, the store has no
// position any more, on disk as well, until the last one gives it a new one.
type repair struct {
	db   *DB
	st   *store
	next state // what is held, with the position that Apply has come to
	from waypost.Epoch
	to   waypost.Epoch
	sums []slotSum // by slot; nil before Sums
	held uint64    // links that served at Sums
	left uint64    // of them, with what was replaced
	at   [waypost.Slots]uint64

	undone, lost noted
	astray       bool // what Apply took of its own history did not come to the digest there
	ended        bool
}

// noted is a number of links, with the codes of some.
type noted struct {
	n     int
	codes []string
}

// maxNoted bounds the codes that are noted for the log.
const maxNoted = 20

func (n *noted) add(code []byte) {
	if n.n++; len(n.codes) < maxNoted {
		n.codes = append(n.codes, string(code))
	}
}

var _ replication.Repairer = (*DB)(nil)

// Repairing implements replication.Repairer.
func (db *DB) Repairing() bool {
	st := db.live.Load()
	return st != nil && st.applied.Load().repairing
}

// Repair implements replication.Repairer.
func (db *DB) Repair(_ context.Context, c replication.Cluster, e waypost.Epoch) (replication.Repair, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	st := db.live.Load()
	switch {
	case db.closed.Load():
		return nil, errClosed
	case db.frozen:
		return nil, errFrozen
	case db.detached:
		return nil, errDetached
	case st == nil:
		return nil, fmt.Errorf("%w: nothing is held yet", replication.ErrDiverged)
	case db.restoring != nil || db.repairing != nil:
		return nil, errors.New("repair: one is under way already, or a restore")
	case st.health.lasting.Load() != nil:
		return nil, db.fit(st)
	}
	held := st.applied.Load()
	if held.cluster != c {
		return nil, fmt.Errorf("repair: the replica is of cluster %x and not of %x", held.cluster, c)
	}
	db.repairs.Add(1)
	db.repairing = &repair{db: db, st: st, next: *held, from: held.position.Epoch, to: e}
	return db.repairing, nil
}

// usable refuses a repair that has ended or whose store has failed.
func (r *repair) usable() error {
	if r.ended {
		return errors.New("repair: it has ended")
	}
	if f := r.st.health.lasting.Load(); f != nil && f.corrupt {
		return fmt.Errorf("repair: %w: %w", replication.ErrDiverged, f.err)
	} else if f != nil {
		return fmt.Errorf("repair: %w", f.err)
	}
	return nil
}

// Apply implements replication.Repair.
func (r *repair) Apply(ctx context.Context, b *replication.Batch) error {
	err := r.write(ctx, func(w *writer) error {
		db, before := r.db, w.next.position
		w.judge = func(w *writer, t *replication.Transaction) error { return w.countDeletions(db.valve, db.accepted, t) }
		if err := w.take(b, math.MaxUint64); err != nil || !r.catchingUp() {
			return err
		}
		if n := len(b.Transactions); n > 0 && w.next.digest != b.Transactions[n-1].Digest {
			r.astray = true
			return nil
		}
		return w.keep(b, before, &db.cfg)
	})
	if err == nil {
		r.db.cfg.Points.Hit("repair tail: applied")
	}
	return err
}

// catchingUp reports whether the store still is at a position of its history: what is held back leaves it there,
// and a position whose digest is another is none.
func (r *repair) catchingUp() bool {
	return r.sums == nil && r.from == r.to && !r.next.repairing && !r.astray
}

// write makes changes part of the store, which has no position from then on unless it is catching up.
func (r *repair) write(ctx context.Context, put func(*writer) error) error {
	if err := r.usable(); err != nil {
		return err
	}
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	if err := r.db.lowDisk(); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	r.st.round = nil // what was found so far says nothing of what comes
	r.st.comparing.end(errCompared)
	w := newWriter(r.st)
	w.next, w.repair = r.next, r
	err := put(w)
	reached, begins := w.next, false
	if err == nil {
		if !r.catchingUp() {
			begins = !r.st.applied.Load().repairing
			w.next.repairing, w.next.position = true, waypost.Position{Epoch: r.to}
		}
		err = w.commit(ctx)
	}
	if err = errors.Join(err, w.close()); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	if begins {
		r.db.cfg.Points.Hit("begin repair: marked")
	}
	r.next = reached
	r.db.metrics.taken(w)
	if !w.sync {
		r.db.touch()
	}
	return nil
}

// Sums implements replication.Repair.
func (r *repair) Sums(ctx context.Context) ([]replication.Sum, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	sums := make([]slotSum, waypost.Slots)
	if err := addUp(ctx, r.st.pdb, 0, waypost.Slots-1, sums); err != nil {
		if pebble.IsCorruptionError(err) {
			r.st.health.fail(err, true)
			err = fmt.Errorf("%w: %w", replication.ErrDiverged, err)
		}
		return nil, fmt.Errorf("repair: %w", err)
	}
	told := make([]replication.Sum, len(sums))
	r.next.digest, r.next.records, r.held = 0, 0, 0
	for slot := range sums {
		told[slot] = sums[slot].told()
		r.next.digest ^= sums[slot].Digest
		r.next.records += sums[slot].Records
		r.held += sums[slot].serving
	}
	r.sums, r.left = sums, r.held
	r.db.cfg.Points.Hit("compare slots: added up")
	return told, nil
}

// Follow implements replication.Repair.
func (r *repair) Follow(at *[waypost.Slots]uint64, lowest waypost.Position) error {
	if lowest.Epoch != r.to {
		return fmt.Errorf("repair: position %v is not of the epoch that the repair leads to", lowest)
	}
	r.at, r.next.position = *at, lowest
	return nil
}

// Judge implements replication.Repair.
func (r *repair) Judge(slots []uint16, serving uint64) error {
	if r.sums == nil {
		return errors.New("repair: slots are judged after Sums")
	}
	left := r.left + serving
	for _, slot := range slots {
		left -= r.sums[slot].serving
	}
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	return r.db.judgeLeft(r.held, left)
}

// Replace implements replication.Repair.
func (r *repair) Replace(ctx context.Context, first, last uint16, records [][]byte, at uint64) error {
	if r.sums == nil {
		return errors.New("repair: slots are replaced after Sums")
	}
	fresh := make([]slotSum, int(last)-int(first)+1)
	left := r.left
	r.db.cfg.Points.Hit("replace slots: begun")
	err := r.write(ctx, func(w *writer) error {
		w.sync = true
		if err := w.replace(first, last, records, fresh); err != nil {
			return err
		}
		for i, sum := range fresh {
			old := &r.sums[int(first)+i]
			w.next.digest ^= old.Digest ^ sum.Digest
			w.next.records += sum.Records - old.Records
			left += sum.serving - old.serving
		}
		return r.db.judgeLeft(r.held, left) // it may be less by now than it was when that was judged
	})
	if err != nil {
		return err
	}
	r.db.cfg.Points.Hit("replace slots: committed")
	copy(r.sums[first:], fresh)
	r.left = left
	for i := range fresh {
		r.at[int(first)+i] = at
	}
	r.db.metrics.repaired.Add(float64(len(fresh)))
	return nil
}

// replace writes the records of slots that differ from what is there, takes away all
// others, and adds up what the slots then hold.
func (w *writer) replace(first, last uint16, records [][]byte, fresh []slotSum) error {
	type arrival struct {
		record waypost.Record
		raw    []byte
		poison bool
		same   bool // is held already, to the byte
	}
	arrivals := make(map[string]*arrival, len(records))
	now := time.Now().UnixMilli()
	for _, raw := range records {
		a := &arrival{raw: raw}
		var err error
		if a.poison, err = w.decode(raw, &a.record); err != nil {
			return err
		}
		slot := waypost.Slot(a.record.Kind, a.record.Domain, a.record.Name)
		key := appendRecordKey(nil, slot, a.record.Kind, a.record.Domain, a.record.Name)
		if slot < first || slot > last || a.record.State == waypost.Purged || arrivals[string(key)] != nil {
			return fmt.Errorf("a record of slot %d has no place in slots %d to %d", slot, first, last)
		}
		arrivals[string(key)] = a
		fresh[slot-first].Digest ^= a.record.Stamp
		fresh[slot-first].Records++
		fresh[slot-first].serving += count(replication.Serves(&a.record, now))
	}

	it, err := w.st.pdb.NewIter(&pebble.IterOptions{LowerBound: slotKey(int(first)), UpperBound: slotKey(int(last) + 1)})
	if err != nil {
		return fmt.Errorf("read slots: %w", err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		w.key = append(w.key[:0], it.Key()...)
		a := arrivals[string(w.key)]
		if a == nil {
			err = w.drop(value)
			continue
		}
		w.value = appendStored(w.value[:0], w.next.format, a.raw)
		if a.same = bytes.Equal(value, w.value); !a.same {
			w.repair.compare(w.key, value, &a.record)
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return w.rotten(fmt.Errorf("read slots: %w", err))
	}
	for key, a := range arrivals {
		if a.same {
			continue
		}
		w.key = append(w.key[:0], key...)
		if err := w.write(&a.record, a.raw, a.poison, true); err != nil {
			return err
		}
	}
	return nil
}

// drop takes away what the store has under w.key and the source has not.
func (w *writer) drop(value []byte) error {
	kind, domain, name, ok := parseRecordKey(w.key)
	if !ok || len(name) == 0 || waypost.Slot(kind, domain, name) != slotOf(w.key) {
		// It is no record's key, and must not be taken for the one of the same name.
		return w.batch.Delete(w.key, nil)
	}
	w.repair.compare(w.key, value, nil)
	gone := waypost.Record{Kind: kind, Domain: domain, Name: slices.Clone(name), State: waypost.Purged}
	return w.write(&gone, nil, false, true)
}

// compare notes for the operator what another history has brought back or taken away.
func (r *repair) compare(key, value []byte, now *waypost.Record) {
	var old waypost.Record
	if _, err := readRecord(nil, key, value, slotOf(key), &old); err != nil || old.Kind != waypost.KindLink || r.from == r.to {
		return
	}
	switch {
	case now == nil && old.State != waypost.Deleted:
		r.lost.add(old.Name)
	case now != nil && old.State == waypost.Deleted && now.State != waypost.Deleted:
		r.undone.add(old.Name)
	}
}

// Commit implements replication.Repair.
func (r *repair) Commit(ctx context.Context, digest uint64) error {
	if err := r.usable(); err != nil {
		return err
	}
	if r.sums == nil {
		return errors.New("repair: it ends after Sums")
	}
	db := r.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if r.next.digest != digest {
		return fmt.Errorf("repair: %w: at sequence %d the digest is %016x and not %016x",
			replication.ErrDiverged, r.next.position.Seq, r.next.digest, digest)
	}
	w := newWriter(r.st)
	w.next, w.sync = r.next, true
	w.next.repairing = false
	db.cfg.Points.Hit("end repair: begun")
	if err := errors.Join(w.commit(ctx), w.close()); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	db.cfg.Points.Hit("end repair: committed")
	r.st.health.rotten.Store(nil)
	r.ended, db.repairing = true, nil
	db.mended(&db.repairs)
	db.metrics.undone.Add(float64(r.undone.n))
	if r.undone.n+r.lost.n > 0 {
		db.cfg.Logger.Warn("PostgreSQL is of another history than the replica was: deletions are undone, and links are gone",
			"undone", r.undone.n, "undone_codes", r.undone.codes, "gone", r.lost.n, "gone_codes", r.lost.codes)
	}
	db.wakeFill()
	return nil
}

// Abort implements replication.Repair.
func (r *repair) Abort() error {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	if !r.ended {
		r.ended, r.db.repairing = true, nil
		r.db.repairs.Add(-1)
	}
	return nil
}

// markRepair writes, or takes away, the mark of a repair together with what begins or ends it.
func markRepair(b *pebble.Batch, was, is bool) (err error) {
	switch {
	case is && !was:
		err = errors.Join(b.Set(repairKey, nil, nil), b.DeleteRange(logStart, logEnd, nil))
	case was && !is:
		err = b.Delete(repairKey, nil)
	}
	if err != nil {
		return fmt.Errorf("mark a repair: %w", err)
	}
	return nil
}
