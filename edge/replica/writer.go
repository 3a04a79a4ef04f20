package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/internal/codes"
	"waypost/internal/pacer"
	"waypost/replication"
)

// writer puts records into one Pebble batch, on top of the content of a store. One
// goroutine uses it, which may write the store.
type writer struct {
	st    *store
	batch *pebble.Batch
	next  state
	*scratch

	notes   []waypost.Record // records of domains, salts and patterns that were taken, in order
	records int
	passed  replication.Sum // changes of records that the store's check has added up
	poison  int             // records taken that must not be served
	sync    bool            // a record disables or removes a link: the batch must not be lost

	log    *logIndex // the store's after the batch; nil: unchanged
	lastAt int64     // of the last transaction; 0: none
	pruned bool      // the batch removes the oldest entries of the log

	at      int64           // of the present transaction, Unix milliseconds
	deleted uint64          // links that it takes from visitors
	purged  map[string]bool // of these, without case: they may come back under another key
	tally   tally           // with those of this batch
	tallied bool            // tally differs from the store's

	repair *repair                                       // nil: this is none
	judge  func(*writer, *replication.Transaction) error // returns why a transaction is held back; nil: none is
}

// scratch is reusable memory of writers. Allocating it for each batch made the garbage
// collector compete with redirects.
type scratch struct {
	// written holds the keys that this batch has written, which the store does not show
	// yet.
	written map[string]held
	key     []byte
	links   []linkChange // links that were taken, in order
}

var scratches = sync.Pool{New: func() any { return &scratch{written: map[string]held{}} }}

// release returns the scratch for another writer, unless it is large. The caller must not
// use it afterwards.
func (s *scratch) release() {
	const most = 4 * waypost.MaxBulk
	if cap(s.links) > most || len(s.written) > most {
		return
	}
	clear(s.written)
	clear(s.links)
	s.links = s.links[:0]
	scratches.Put(s)
}

// held describes a key's present record.
type held struct {
	present  bool
	revision waypost.Revision
	stamp    uint64
	seq      uint64 // of the transaction in this batch that wrote the record; 0: none did
	serves   bool   // the record redirects visitors
}

// linkChange is a link's record that a writer has taken. It refers to the batch.
type linkChange struct {
	record     waypost.Record
	extensions []byte
	poison     bool
}

func newWriter(st *store) *writer {
	return &writer{st: st, batch: st.pdb.NewBatch(), next: *st.applied.Load(), scratch: scratches.Get().(*scratch), tally: st.guarded.tally}
}

// put takes one record of the transaction seq, or of a snapshot when seq is 0. The record
// is kept only if it is newer than the one held. The writes of one transaction share a
// revision, and the later of them wins.
func (w *writer) put(raw []byte, seq uint64) error {
	var r waypost.Record
	poison, err := w.decode(raw, &r)
	if err != nil {
		return err
	}
	slot := waypost.Slot(r.Kind, r.Domain, r.Name)
	if w.repair != nil && seq <= w.repair.at[slot] {
		return nil
	}
	w.key = appendRecordKey(w.key[:0], slot, r.Kind, r.Domain, r.Name)
	old, err := w.lookup(&r)
	if err != nil {
		return err
	}
	if known := old.revision != (waypost.Revision{}); known && !r.Revision.Newer(old.revision) && (seq == 0 || old.seq != seq) {
		return nil
	}

	w.next.digest ^= old.stamp
	if old.present {
		w.next.records--
	}
	now := held{revision: r.Revision, seq: seq, serves: replication.Serves(&r, w.at)}
	w.countLoss(&r, old.serves, now.serves)
	if r.State != waypost.Purged {
		now.present, now.stamp = true, r.Stamp
		w.next.digest ^= r.Stamp
		w.next.records++
	}
	w.written[string(w.key)] = now
	if c := w.st.guarded.check; c != nil && c.has(w.key) {
		w.passed.Digest ^= old.stamp ^ now.stamp
		w.passed.Records += count(now.present) - count(old.present)
	}
	w.sync = w.sync || r.State != waypost.Live
	return w.write(&r, raw, poison, old.present)
}

// countLoss counts a link that leads somewhere and will lead nowhere. It does not count a
// link that the same transaction brings back under a key that differs in case alone,
// because its domain is being switched.
func (w *writer) countLoss(r *waypost.Record, before, now bool) {
	switch {
	case r.Kind != waypost.KindLink:
	case before && (r.State == waypost.Deleted || r.State == waypost.Purged):
		if w.deleted++; r.State == waypost.Purged {
			if w.purged == nil {
				w.purged = make(map[string]bool)
			}
			w.purged[keyWithoutCase(r)] = true
		}
	case !before && now && len(w.purged) > 0:
		if key := keyWithoutCase(r); w.purged[key] {
			delete(w.purged, key)
			w.deleted--
		}
	}
}

func keyWithoutCase(r *waypost.Record) string {
	key := binary.BigEndian.AppendUint32(nil, uint32(r.Domain))
	return string(codes.AppendFold(key, r.Name))
}

func count(present bool) uint64 {
	if present {
		return 1
	}
	return 0
}

// decode reads a record that is to be held, and reports whether it must not be served.
func (w *writer) decode(raw []byte, r *waypost.Record) (poison bool, err error) {
	err = replication.DecodeRecord(raw, r)
	if !errors.Is(err, replication.ErrContent) {
		return false, err
	}
	// Held, so that the digest is right, and never served.
	if w.st.health.logLimiter.Allow() {
		w.st.health.log.Error("cannot serve a record that breaks the rules", "error", err,
			"kind", r.Kind, "domain", r.Domain, "revision", r.Revision)
	}
	return true, nil
}

// write puts a record under w.key, or removes the present one.
func (w *writer) write(r *waypost.Record, raw []byte, poison, present bool) error {
	w.records++
	if r.State != waypost.Purged {
		if err := w.batch.Set(w.key, raw, nil); err != nil {
			return fmt.Errorf("write a record: %w", err)
		}
	} else if present {
		if err := w.batch.Delete(w.key, nil); err != nil {
			return fmt.Errorf("delete a record: %w", err)
		}
	}
	if poison {
		w.poison++
	}
	if r.Kind == waypost.KindPattern {
		w.notes = append(w.notes, cloneNote(r))
	}
	switch r.Kind {
	case waypost.KindLink, waypost.KindPattern:
		if w.st.table.Load() == nil {
			return nil
		}
		c := linkChange{record: *r, poison: poison}
		if len(raw) > 0 { // none when a repair removes the record
			c.extensions = replication.Extensions(raw)
		}
		w.links = append(w.links, c)
	case waypost.KindDomain, waypost.KindSalt:
		w.notes = append(w.notes, cloneNote(r))
	case waypost.KindRange, waypost.KindLease: // are read from the store
	}
	return nil
}

// cloneNote returns a copy of a record that owns its bytes. Of a pattern it leaves out
// all but the state.
func cloneNote(r *waypost.Record) waypost.Record {
	if r.Kind == waypost.KindPattern {
		return waypost.Record{Kind: r.Kind, State: r.State, Domain: r.Domain, Name: bytes.Clone(r.Name)}
	}
	note := *r
	note.Name, note.Payload = bytes.Clone(r.Name), bytes.Clone(r.Payload)
	return note
}

// lookup finds the present record of a key, under w.key. Most links are new, and the
// lookup table knows that in a tenth of the time that Pebble needs.
func (w *writer) lookup(r *waypost.Record) (held, error) {
	if h, ok := w.written[string(w.key)]; ok {
		return h, nil
	}
	if t := w.st.table.Load(); t != nil && r.Kind.IsLink() && t.Lacks(r.Domain, r.Name) {
		return held{}, nil
	}
	raw, closer, err := w.st.pdb.Get(w.key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return held{}, nil
	case err != nil:
		return held{}, w.rotten(fmt.Errorf("read a record: %w", err))
	}
	var old waypost.Record
	err = readRecord(w.key, raw, &old)
	h := held{present: true, revision: old.Revision, stamp: old.Stamp, serves: replication.Serves(&old, w.at)}
	if closeErr := closer.Close(); closeErr != nil {
		return held{}, fmt.Errorf("read a record: %w", closeErr)
	}
	if err != nil {
		if w.repair != nil { // it is overwritten, and its slot is added up later
			return held{present: true}, nil
		}
		return held{}, w.rotten(fmt.Errorf("a record on disk: %w", err))
	}
	return h, nil
}

// rotten marks errors that need a repair or a fresh store as ErrDiverged. Other errors
// may pass, and are returned as they are.
func (w *writer) rotten(err error) error {
	switch {
	case pebble.IsCorruptionError(err):
		w.st.health.fail(err, true)
	case errors.Is(err, replication.ErrRecord):
		w.st.health.rot(err)
	default:
		return err
	}
	return fmt.Errorf("%w: %w", replication.ErrDiverged, err)
}

// writeBatch puts the transactions of a batch, which must follow on the position, and
// compares digests from judgeFrom on.
func (w *writer) writeBatch(b *replication.Batch, judgeFrom uint64) error {
	var pace pacer.Pacer
	pace.Begin(0) // changes are late when they come
	for i := range b.Transactions {
		t := &b.Transactions[i]
		p := &w.next.position
		if b.Epoch != p.Epoch || t.Seq != p.Seq+1 {
			return fmt.Errorf("%w: sequence %d of epoch %d came after %d of epoch %d", replication.ErrDiverged,
				t.Seq, b.Epoch.Ordinal, p.Seq, p.Epoch.Ordinal)
		}
		w.at = t.At
		for _, raw := range t.Records {
			if err := w.put(raw, t.Seq); err != nil {
				return fmt.Errorf("sequence %d: %w", t.Seq, err)
			}
			pace.Step()
		}
		clear(w.purged)
		if w.judge != nil {
			if err := w.judge(w, t); err != nil {
				return err
			}
		}
		p.Seq, p.Stamp, w.lastAt = t.Seq, t.Stamp, t.At
		if t.Seq >= judgeFrom && w.next.digest != t.Digest {
			return fmt.Errorf("%w: the digest after sequence %d is %016x and not %016x", replication.ErrDiverged,
				t.Seq, w.next.digest, t.Digest)
		}
	}
	return nil
}

// commit makes all that was put part of the store, in one write.
func (w *writer) commit(ctx context.Context) error {
	next := w.next
	if err := w.keepTally(); err != nil {
		return err
	}
	w.st.announceSwitches(w.notes)
	if err := w.st.commit(ctx, w.batch, &next, w.sync, w.publish); err != nil {
		return err
	}
	g := &w.st.guarded
	if w.log != nil {
		g.log = *w.log
	}
	if w.pruned {
		w.st.points.Hit("prune log: committed")
	}
	if w.lastAt != 0 {
		w.st.lastAt.Store(w.lastAt)
	}
	g.tally = w.tally
	if g.check != nil {
		g.check.addSum(w.passed)
	}
	if len(w.notes) > 0 {
		for i := range w.notes {
			w.st.noteRecord(&w.notes[i])
		}
		w.st.publishNotes()
	}
	return nil
}

// publish copies the changes to the lookup table of the store, once Pebble shows them. A
// link that gets another key is there before its former key is gone, because visits look
// for the former key first.
func (w *writer) publish() {
	t := w.st.table.Load()
	if t == nil {
		return
	}
	purged := false
	for i := range w.links {
		c := &w.links[i]
		switch {
		case c.record.State == waypost.Purged:
			purged = true
		case c.poison:
			t.Put(&waypost.Record{Domain: c.record.Domain, Name: c.record.Name}, nil)
		default:
			t.Put(&c.record, c.extensions)
		}
	}
	for i := 0; purged && i < len(w.links); i++ {
		r := &w.links[i].record
		if r.State != waypost.Purged {
			continue
		}
		w.key = appendRecordKey(w.key[:0], waypost.Slot(r.Kind, r.Domain, r.Name), r.Kind, r.Domain, r.Name)
		if !w.written[string(w.key)].present {
			t.Remove(r.Domain, r.Name)
		}
	}
}

// close releases the batch. It is called once, after commit or instead of it.
func (w *writer) close() error {
	w.release()
	w.scratch = nil
	if err := w.batch.Close(); err != nil {
		return fmt.Errorf("close a batch: %w", err)
	}
	return nil
}
