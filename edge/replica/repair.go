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

// repair replaces slots of the live store. One goroutine uses it and owns its fields; it
// writes the store under serving.mu.
//
// From its first write on the store has no position, on disk too, until the last
// write sets a new one. Batches of the store's own history that come before Sums are the
// exception.
type repair struct {
	db   *DB
	st   *store
	next state // of the store, with the position that Apply has reached
	from waypost.Epoch
	to   waypost.Epoch
	sums []slotSum // by slot; nil before Sums
	held uint64    // links that served at Sums
	left uint64    // links that serve after the replacements
	at   [waypost.Slots]uint64

	undone, lost noted
	astray       bool // the digest after batches of the store's own history was wrong
	ended        bool
}

// noted counts links, with the codes of some.
type noted struct {
	n     int
	codes []string
}

// maxNoted bounds the codes in the log.
const maxNoted = 20

func (n *noted) addCode(code []byte) {
	if n.n++; len(n.codes) < maxNoted {
		n.codes = append(n.codes, string(code))
	}
}

// Repair implements replication.Repairer.
func (db *DB) Repair(_ context.Context, c replication.Cluster, e waypost.Epoch) (replication.Repair, error) {
	db.serving.mu.Lock()
	defer db.serving.mu.Unlock()
	if err := db.serving.writable(); err != nil {
		return nil, err
	}
	st := db.serving.live.Load()
	switch {
	case st == nil:
		return nil, fmt.Errorf("%w: nothing is held yet", replication.ErrDiverged)
	case db.serving.mu.restoring != nil || db.serving.mu.repairing != nil:
		return nil, errors.New("repair: one is under way already, or a restore")
	case st.health.lasting.Load() != nil:
		return nil, db.storage.checkHealth(st)
	}
	held := st.applied.Load()
	if held.cluster != c {
		return nil, fmt.Errorf("repair: the replica is of cluster %x and not of %x", held.cluster, c)
	}
	db.source.repairs.Add(1)
	db.serving.mu.repairing = &repair{db: db, st: st, next: *held, from: held.position.Epoch, to: e}
	return db.serving.mu.repairing, nil
}

// usable returns an error if the repair has ended or its store has failed.
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
		w.judge = db.deletions.holdBack
		if err := w.writeBatch(b, math.MaxUint64); err != nil || !r.catchingUp() {
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

// catchingUp reports whether the store is still at a position of its own history. It is
// so after a batch that is held back, but not after a wrong digest.
func (r *repair) catchingUp() bool {
	return r.sums == nil && r.from == r.to && !r.next.repairing && !r.astray
}

// write makes changes part of the store, which has no position from then on unless it is
// catching up.
func (r *repair) write(ctx context.Context, put func(*writer) error) error {
	if err := r.usable(); err != nil {
		return err
	}
	r.db.serving.mu.Lock()
	defer r.db.serving.mu.Unlock()
	if err := r.db.disk.low(); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	r.st.guarded.check = nil // the sum found so far is of no more use
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
		r.db.syncer.touch()
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
	compared := make([]replication.Sum, len(sums))
	r.next.digest, r.next.records, r.held = 0, 0, 0
	for slot := range sums {
		compared[slot] = sums[slot].comparable()
		r.next.digest ^= sums[slot].Digest
		r.next.records += sums[slot].Records
		r.held += sums[slot].serving
	}
	r.sums, r.left = sums, r.held
	r.db.cfg.Points.Hit("compare slots: added up")
	return compared, nil
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
	return r.db.deletions.judgeLeft(r.held, left)
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
		return r.db.deletions.judgeLeft(r.held, left) // fewer may be left than at Judge
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

// replace writes the records of slots that differ from the present ones, removes all
// others, and adds up the slots as they are then.
func (w *writer) replace(first, last uint16, records [][]byte, fresh []slotSum) error {
	type arrival struct {
		record waypost.Record
		raw    []byte
		poison bool
		same   bool // the store holds the same bytes
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
		if a.same = bytes.Equal(value, a.raw); !a.same {
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

// drop removes the record under w.key, which the source does not have.
func (w *writer) drop(value []byte) error {
	kind, domain, name, ok := parseRecordKey(w.key)
	if !ok || len(name) == 0 || waypost.Slot(kind, domain, name) != slotOf(w.key) {
		// This key belongs to no record, and must not be mistaken for the key of the
		// record with this name.
		return w.batch.Delete(w.key, nil)
	}
	w.repair.compare(w.key, value, nil)
	gone := waypost.Record{Kind: kind, Domain: domain, Name: slices.Clone(name), State: waypost.Purged}
	return w.write(&gone, nil, false, true)
}

// compare counts for the operator the links that another history has restored or removed.
func (r *repair) compare(key, value []byte, now *waypost.Record) {
	var old waypost.Record
	if err := readRecord(key, value, &old); err != nil || !old.Kind.IsLink() || r.from == r.to {
		return
	}
	switch {
	case now == nil && old.State != waypost.Deleted:
		r.lost.addCode(old.Name)
	case now != nil && old.State == waypost.Deleted && now.State != waypost.Deleted:
		r.undone.addCode(old.Name)
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
	db.serving.mu.Lock()
	defer db.serving.mu.Unlock()
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
	r.st.verified.Store(true) // Sums has read all records
	r.ended, db.serving.mu.repairing = true, nil
	db.deletions.spend()
	db.source.recovered(&db.source.repairs)
	db.metrics.undone.Add(float64(r.undone.n))
	if r.undone.n+r.lost.n > 0 {
		db.cfg.Logger.Warn("replaced the history of the replica by PostgreSQL's: deletions are undone, and links are gone",
			"undone", r.undone.n, "undone_codes", r.undone.codes, "gone", r.lost.n, "gone_codes", r.lost.codes)
	}
	db.filler.wake()
	return nil
}

// Abort implements replication.Repair.
func (r *repair) Abort() error {
	r.db.serving.mu.Lock()
	defer r.db.serving.mu.Unlock()
	if !r.ended {
		r.ended, r.db.serving.mu.repairing = true, nil
		r.db.source.repairs.Add(-1)
	}
	return nil
}
