package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// Valve says when deletions are so many that they are held back. Zero fields mean the default.
type Valve struct {
	Share  float64       // of the records that are held; 0.2; negative: nothing is ever held back
	Least  uint64        // links, below which nothing is held back; 1,000
	Window time.Duration // in which deletions are added up, by the origin's clock, in minutes; 10 min
}

func (v Valve) withDefaults() Valve {
	if v.Share == 0 {
		v.Share = 0.2
	}
	if v.Least == 0 {
		v.Least = 1000
	}
	if v.Window == 0 {
		v.Window = 10 * time.Minute
	}
	return v
}

// tally is how many links have been deleted in each of the last minutes that had any. What counts is what
// visitors notice: a link that led somewhere, and leads nowhere any more. Neither what has expired nor the purge
// of what is a tombstone counts, nor disabling, which can be taken back and must not wait.
type tally []minute

type minute struct {
	at    int64 // minutes of Unix time, by the origin's clock
	links uint64
}

// maxMinutes bounds a tally, whatever the origin's clock does.
const maxMinutes = 1024

// add gives a tally with some more. The old one stays as it is.
func (t tally) add(at int64, links uint64, window time.Duration) tally {
	now := at / time.Minute.Milliseconds()
	oldest := now - int64(window/time.Minute)
	next := make(tally, 0, len(t)+1)
	for _, m := range t {
		if m.at > oldest && m.at <= now {
			next = append(next, m)
		}
	}
	if n := len(next); n > 0 && next[n-1].at == now {
		next[n-1].links += links
	} else {
		next = append(next, minute{now, links})
	}
	return next[max(0, len(next)-maxMinutes):]
}

func (t tally) sum() (links uint64) {
	for _, m := range t {
		links += m.links
	}
	return links
}

// tallyKey is where a store keeps the tally, so that a restart does not make room for as many deletions again.
var tallyKey = []byte{prefixMeta, 'd'}

// append encodes the tally: minute and number, each, and a CRC-32C at the end.
func (t tally) append(dst []byte) []byte {
	for _, m := range t {
		dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(m.at)), m.links)
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst, castagnoli))
}

// loadTally reads the tally. One that cannot be read counts nothing: it only guards, and is no one's data.
func loadTally(from pebble.Reader) (t tally, err error) {
	raw, closer, err := from.Get(tallyKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the tally of deletions: %w", err)
	}
	if n := len(raw) - 4; n >= 0 && n%16 == 0 && binary.BigEndian.Uint32(raw[n:]) == crc32.Checksum(raw[:n], castagnoli) {
		for b := raw[:n]; len(b) > 0; b = b[16:] {
			t = append(t, minute{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])})
		}
	}
	return t, closer.Close()
}

// countDeletions takes the deletions of a transaction into account. A restore is judged as a whole.
func (w *writer) countDeletions(v Valve, accepted waypost.Position, t *replication.Transaction) error {
	n := w.deleted
	w.deleted = 0
	if n == 0 || v.Share < 0 || accepted.Epoch == w.next.position.Epoch && t.Seq <= accepted.Seq {
		return nil
	}
	w.tally, w.tallied = w.tally.add(t.At, n, v.Window), true
	all := w.tally.sum()
	if all > v.Least && float64(all) > v.Share*float64(w.st.applied.Load().records) {
		at := waypost.Position{Epoch: w.next.position.Epoch, Seq: t.Seq, Stamp: t.Stamp}
		return &replication.Held{What: replication.HoldMassDelete, At: at, Why: fmt.Sprintf(
			"with sequence %d, %d links would have been deleted within %v, of %d records", t.Seq, all, v.Window, w.st.applied.Load().records)}
	}
	return nil
}

// acceptedFor is how long a snapshot or a repair may take to come that was accepted.
const acceptedFor = 6 * time.Hour

var _ replication.Accepter = (*DB)(nil)

// Accept implements replication.Accepter.
func (db *DB) Accept(what replication.HoldKind, upTo waypost.Position) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch what {
	case replication.HoldMassDelete:
		db.accepted = upTo
	case replication.HoldEmptySnapshot:
		db.shrinkUntil = time.Now().Add(acceptedFor)
	case replication.HoldRecord: // there is nothing to take
	}
}

// worthHolding is how many links must serve for less than a tenth of them to be next to nothing.
const worthHolding = 100

// judgeLeft says whether of so many links that serve so many may be left. The caller holds db.mu.
func (db *DB) judgeLeft(held, left uint64) error {
	if db.valve.Share < 0 || time.Now().Before(db.shrinkUntil) {
		return nil
	}
	lost := held - min(left, held)
	if lost > db.valve.Least && float64(lost) > db.valve.Share*float64(held) || held >= worthHolding && left < held/10 {
		return &replication.Held{What: replication.HoldEmptySnapshot, Why: fmt.Sprintf("of %d links that serve, %d would be left", held, left)}
	}
	return nil
}

// countedFor is how long the count of a store that stays as it is counts: expiry makes it less.
const countedFor = time.Hour

// counted is how many links of a store served at a position.
type counted struct {
	links    uint64
	position waypost.Position
	until    time.Time
}

// serving counts the links of a store that lead visitors somewhere, by reading all of it.
func (st *store) serving(ctx context.Context) (uint64, error) {
	p := st.applied.Load().position
	if c := &st.counted; c.position == p && time.Now().Before(c.until) {
		return c.links, nil
	}
	sums := make([]slotSum, waypost.Slots)
	if err := addUp(ctx, st.pdb, 0, waypost.Slots-1, sums); err != nil {
		return 0, err
	}
	c := counted{position: p, until: time.Now().Add(countedFor)}
	for i := range sums {
		c.links += sums[i].serving
	}
	st.counted = c
	return c.links, nil
}

// judge says whether the fresh store may take the place of the live one.
func (r *restore) judge(ctx context.Context) error {
	db := r.db
	db.mu.Lock()
	pass := db.valve.Share < 0 || time.Now().Before(db.shrinkUntil)
	db.mu.Unlock()
	live := db.pin(0)
	if live == nil {
		return nil
	}
	defer live.unpin(0)
	if pass || live.pdb == nil {
		return nil
	}
	var left uint64
	held, err := live.serving(ctx)
	if err == nil {
		left, err = r.st.serving(ctx)
	}
	switch {
	case err == nil:
	case ctx.Err() == nil: // that may be why the snapshot was taken: all records of both are known
		held, left, err = live.applied.Load().records, r.st.applied.Load().records, nil
	}
	if err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.judgeLeft(held, left)
}

// keepTally writes the tally if it has changed.
func (w *writer) keepTally() error {
	if !w.tallied {
		return nil
	}
	if err := w.batch.Set(tallyKey, w.tally.append(nil), nil); err != nil {
		return fmt.Errorf("write the tally of deletions: %w", err)
	}
	return nil
}
