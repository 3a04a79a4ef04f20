package replica

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// DeletionGuard configures which mass deletions are held back until an operator accepts
// them. Zero fields mean the default.
type DeletionGuard struct {
	Share  float64       // of the records that are held; 0.2; negative: nothing is ever held back
	Least  uint64        // links, below which nothing is held back; 1,000
	Window time.Duration // in which deletions are added up, by the origin's clock, in minutes; 10 min
}

func (g DeletionGuard) withDefaults() DeletionGuard {
	g.Share = cmp.Or(g.Share, 0.2)
	g.Least = cmp.Or(g.Least, 1000)
	g.Window = cmp.Or(g.Window, 10*time.Minute)
	return g
}

// deletionGuard holds mass deletions back.
type deletionGuard struct {
	cfg DeletionGuard

	mu struct {
		sync.Mutex
		accepted    waypost.Position // deletions up to there are not held back
		shrinkUntil time.Time        // until then one snapshot or repair may leave few links
	}
}

// acceptedFor is the time in which an accepted snapshot or repair has to come.
const acceptedFor = 6 * time.Hour

// Accept implements replication.Sink.
func (db *DB) Accept(what replication.HoldKind, upTo waypost.Position) {
	mu := &db.deletions.mu
	mu.Lock()
	defer mu.Unlock()
	switch what {
	case replication.HoldMassDelete:
		mu.accepted = upTo
	case replication.HoldEmptySnapshot:
		mu.shrinkUntil = time.Now().Add(acceptedFor)
	case replication.HoldRecord: // cannot be accepted
	}
}

// holdBack adds the deletions of a transaction to the tally, and holds them back if they
// are too many. A restore is judged as a whole.
func (g *deletionGuard) holdBack(w *writer, t *replication.Transaction) error {
	n := w.deleted
	w.deleted = 0
	if n == 0 || g.cfg.Share < 0 {
		return nil
	}
	g.mu.Lock()
	accepted := g.mu.accepted
	g.mu.Unlock()
	if accepted.Epoch == w.next.position.Epoch && t.Seq <= accepted.Seq {
		return nil
	}
	w.tally, w.tallied = w.tally.addDeletions(t.At, n, g.cfg.Window), true
	all, records := w.tally.sum(), w.st.applied.Load().records
	if all > g.cfg.Least && float64(all) > g.cfg.Share*float64(records) {
		at := waypost.Position{Epoch: w.next.position.Epoch, Seq: t.Seq, Stamp: t.Stamp}
		return &replication.Held{What: replication.HoldMassDelete, At: at, Why: fmt.Sprintf(
			"with sequence %d, %d links would have been deleted within %v, of %d records", t.Seq, all, g.cfg.Window, records)}
	}
	return nil
}

// mayShrink reports whether any number of links may go.
func (g *deletionGuard) mayShrink() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cfg.Share < 0 || time.Now().Before(g.mu.shrinkUntil)
}

// spend ends an acceptance: it was for the snapshot or repair that has just come, and not
// for the next.
func (g *deletionGuard) spend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.shrinkUntil = time.Time{}
}

// smallReplica is the number of links from which on the loss of nine tenths is held back.
const smallReplica = 100

// judgeLeft reports why a snapshot or a repair may not leave so few of the links held.
func (g *deletionGuard) judgeLeft(held, left uint64) error {
	if g.mayShrink() {
		return nil
	}
	lost := held - min(left, held)
	if lost > g.cfg.Least && float64(lost) > g.cfg.Share*float64(held) || held >= smallReplica && left < held/10 {
		return &replication.Held{What: replication.HoldEmptySnapshot, Why: fmt.Sprintf("of %d links that serve, %d would be left", held, left)}
	}
	return nil
}

// tally counts the links that were deleted in each of the last minutes that had any. It
// counts a link that led somewhere and leads nowhere now, because visitors notice the
// loss. It does not count expiry, the purge of tombstones, or disabling, which can be
// undone and must not wait.
type tally []minute

type minute struct {
	at    int64 // minutes of Unix time, by the origin's clock
	links uint64
}

// maxMinutes bounds a tally if the origin's clock jumps.
const maxMinutes = 1024

// addDeletions returns a tally with more deletions. The old one stays as it is.
func (t tally) addDeletions(at int64, links uint64, window time.Duration) tally {
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

// tallyKey is the key of the tally in a store, so that a restart does not allow as many
// deletions again.
var tallyKey = []byte{prefixMeta, 'd'}

// append encodes the tally: minute and number of each, and a CRC-32C at the end.
func (t tally) append(dst []byte) []byte {
	for _, m := range t {
		dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(m.at)), m.links)
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst, castagnoli))
}

// loadTally reads the tally. An unreadable one counts nothing, because it is only a guard
// and holds no user's data.
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

// countedFor bounds the age of the count of an unchanged store, because links expire.
const countedFor = time.Hour

// servingCount is the number of links of a store that served at a position.
type servingCount struct {
	links    uint64
	position waypost.Position
	until    time.Time
}

// servingLinks counts the links of a store that redirect visitors, by reading all of it.
func (st *store) servingLinks(ctx context.Context) (uint64, error) {
	p := st.applied.Load().position
	if c := &st.counted; c.position == p && time.Now().Before(c.until) {
		return c.links, nil
	}
	sums := make([]slotSum, waypost.Slots)
	if err := addUp(ctx, st.pdb, 0, waypost.Slots-1, sums); err != nil {
		return 0, err
	}
	c := servingCount{position: p, until: time.Now().Add(countedFor)}
	for i := range sums {
		c.links += sums[i].serving
	}
	st.counted = c
	return c.links, nil
}

// endedAfter counts the links that serve no visitor, and were changed after a revision.
func (st *store) endedAfter(ctx context.Context, r waypost.Revision) (n uint64, err error) {
	now := time.Now().UnixMilli()
	_, err = st.scan(ctx, func(raw []byte) error {
		var rec waypost.Record
		if err := replication.DecodeRecord(raw, &rec); err != nil && !errors.Is(err, replication.ErrContent) {
			return err
		}
		if rec.Kind.IsLink() && rec.Revision.Newer(r) && !replication.Serves(&rec, now) {
			n++
		}
		return nil
	})
	return n, err
}
