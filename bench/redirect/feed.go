//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/bench/corpus"
	"waypost/edge/replica"
	"waypost/replication"
)

// openReplica opens a replica with the settings of an edge.
func openReplica(dir string, meters prometheus.Registerer) (*replica.DB, error) {
	db, err := replica.Open(replica.Config{
		Dir:        dir,
		Registerer: meters,
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, fmt.Errorf("open the replica: %w", err)
	}
	return db, nil
}

// feed is the source that a replica follows: links by number, and an endless row of
// changes, each of which sets a new target for another link.
type feed struct {
	targets *corpus.Targets
	links   uint64
	at      waypost.Position
	digest  uint64
	changed uint64 // since the last snapshot
	buf     []byte

	programme []byte   // of all links; nil: none
	records   [][]byte // of a transaction; used again, to make no garbage
}

func newFeed(targetsFile string, links int) (*feed, error) {
	targets, err := corpus.ReadTargets(targetsFile)
	if err != nil {
		return nil, err
	}
	epoch := waypost.Epoch{Ordinal: 1, ID: waypost.EpochID{1}}
	return &feed{targets: targets, links: uint64(links), at: waypost.Position{Epoch: epoch, Seq: 1, Stamp: 1}}, nil
}

// resume goes on at the position of a replica that another process has filled.
func (f *feed) resume(db *replica.DB) {
	f.at, f.digest = db.Position(), db.Digest()
}

// location appends the target of a link after that number of changes.
func (f *feed) location(dst []byte, n, version uint64) []byte {
	return f.targets.Append(dst, n+version*f.links)
}

// stamp is as good as random.
func stamp(n, version uint64) uint64 {
	x := (n+1)*0x9e3779b97f4a7c15 ^ (version+1)*0xc2b2ae3d27d4eb4f
	x = (x ^ x>>31) * 0x94d049bb133111eb
	return x ^ x>>29
}

// appendRecord encodes a link at the feed's position.
func (f *feed) appendRecord(dst []byte, n, version uint64) []byte {
	f.buf = f.location(corpus.AppendCode(f.buf[:0], n), n, version)
	return replication.AppendRecord(dst, &waypost.Record{
		Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain, Name: f.buf[:corpus.CodeLength],
		Revision: waypost.Revision{Epoch: f.at.Epoch.Ordinal, Seq: f.at.Seq}, Stamp: stamp(n, version),
		Payload: f.buf[corpus.CodeLength:], Programme: f.programme,
	})
}

// bySlot returns the numbers of all links, slot by slot, as a snapshot has them.
func (f *feed) bySlot() []uint32 {
	slots, begins := make([]uint16, f.links), [waypost.Slots + 1]int{}
	var code []byte
	for n := range f.links {
		code = corpus.AppendCode(code[:0], n)
		slots[n] = waypost.Slot(waypost.KindLink, waypost.DefaultDomain, code)
		begins[slots[n]+1]++
	}
	for i := range waypost.Slots {
		begins[i+1] += begins[i]
	}
	order := make([]uint32, f.links)
	for n, slot := range slots {
		order[begins[slot]] = uint32(n)
		begins[slot]++
	}
	return order
}

// slotRange holds the records of some slots, which a snapshot brings at once.
type slotRange struct {
	records [][]byte
	digest  uint64
	next    int // the slot behind them
}

// ranges makes the records of a snapshot in the order of bySlot. Each range is valid
// until the next.
func (f *feed) ranges(order []uint32) iter.Seq[slotRange] {
	return func(yield func(slotRange) bool) {
		var r slotRange
		for i, n := range order {
			r.records = append(r.records, f.appendRecord(nil, uint64(n), 0))
			r.digest ^= stamp(uint64(n), 0)
			slot, next := f.slot(n), waypost.Slots
			if i+1 < len(order) {
				next = f.slot(order[i+1])
			}
			if i+1 < len(order) && (next == slot || len(r.records) < waypost.MaxBulk) {
				continue
			}
			if r.next = next; !yield(r) {
				return
			}
			r = slotRange{records: r.records[:0]}
		}
	}
}

func (f *feed) slot(n uint32) int {
	f.buf = corpus.AppendCode(f.buf[:0], uint64(n))
	return int(waypost.Slot(waypost.KindLink, waypost.DefaultDomain, f.buf))
}

// snapshot restores a replica the way that an edge does.
func (f *feed) snapshot(ctx context.Context, db *replica.DB, ranges iter.Seq[slotRange]) (err error) {
	r, err := db.Restore(ctx, replication.Cluster{1})
	if err != nil {
		return fmt.Errorf("begin a snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, r.Abort()) }() // nothing after Commit
	var digest uint64
	for part := range ranges {
		digest ^= part.digest
		if err := r.Slots(ctx, part.records); err != nil {
			return fmt.Errorf("fill the replica: %w", err)
		}
		if err := r.Keep(ctx, replication.Progress{Next: part.next, Lowest: f.at, Highest: f.at}); err != nil {
			return fmt.Errorf("fill the replica: %w", err)
		}
	}
	if err := r.BeginTail(ctx, f.at, f.at); err != nil {
		return fmt.Errorf("fill the replica: %w", err)
	}
	if err := r.Commit(ctx, digest); err != nil {
		return fmt.Errorf("complete the replica: %w", err)
	}
	f.digest, f.changed = digest, 0
	return nil
}

// change applies one transaction, made at that time, in which that number of links get a
// new target.
func (f *feed) change(ctx context.Context, db *replica.DB, count int, at time.Time) error {
	f.at.Seq++
	f.at.Stamp = stamp(f.at.Seq, 0)
	f.records = slices.Grow(f.records[:0], count)[:count]
	t := replication.Transaction{Seq: f.at.Seq, At: at.UnixMilli(), Stamp: f.at.Stamp, Records: f.records}
	for i := range t.Records {
		const step = 7_368_787 // prime, so that neighbours are far apart
		n, version := f.changed*step%f.links, f.changed/f.links+1
		f.digest ^= stamp(n, version-1) ^ stamp(n, version)
		t.Records[i] = f.appendRecord(t.Records[i][:0], n, version)
		f.changed++
	}
	t.Digest = f.digest
	if err := db.Apply(ctx, &replication.Batch{Epoch: f.at.Epoch, Transactions: []replication.Transaction{t}}); err != nil {
		return fmt.Errorf("apply changes: %w", err)
	}
	return nil
}
