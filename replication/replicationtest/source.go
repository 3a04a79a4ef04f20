// Package replicationtest holds the contract of Source as a suite that the tests of an
// implementation run, and an in-memory Source and Sink. The tests of package replica hold
// the contract of Sink. It is for tests alone: nothing in the product imports it.
package replicationtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"waypost"
	"waypost/replication"
)

// Source is a changelog in memory.
type Source struct {
	mu      sync.Mutex
	cluster replication.Cluster
	epoch   waypost.Epoch
	base    waypost.Position // just before the first entry
	log     []replication.Transaction
	rows    map[string]waypost.Record // by kind, domain and name
	digest  uint64
	changed chan struct{}
	failing error
	reads   int
	width   int
}

// NewSource makes an empty changelog of a new cluster, at sequence 0 of epoch 1.
func NewSource() *Source {
	s := &Source{rows: map[string]waypost.Record{}, changed: make(chan struct{}), width: 512}
	binary.LittleEndian.PutUint64(s.cluster[:], rand.Uint64())
	s.openEpoch(0)
	return s
}

func (s *Source) openEpoch(seq uint64) {
	s.epoch.Ordinal++
	binary.LittleEndian.PutUint64(s.epoch.ID[:], rand.Uint64())
	s.base = waypost.Position{Epoch: s.epoch, Seq: seq, Stamp: rand.Uint64()}
	s.log = nil
}

func key(r *waypost.Record) string { return fmt.Sprintf("%d/%d/%s", r.Kind, r.Domain, r.Name) }

// Link makes a live link for Commit.
func Link(code, location string) waypost.Record {
	return waypost.Record{
		Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain,
		Name: []byte(code), Payload: []byte(location),
	}
}

// Commit makes one transaction of the records, giving each its revision and a new
// stamp. The state Purged takes a row away. It returns the position after it.
func (s *Source) Commit(records ...waypost.Record) waypost.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit(records...)
	s.tell()
	return s.tail()
}

// commit puts a transaction at the end of the log. s.mu is held.
func (s *Source) commit(records ...waypost.Record) *replication.Transaction {
	t := replication.Transaction{Seq: s.tail().Seq + 1, Stamp: rand.Uint64(), At: time.Now().UnixMilli()}
	for _, r := range records {
		r.Revision = waypost.Revision{Epoch: s.epoch.Ordinal, Seq: t.Seq}
		r.Stamp = rand.Uint64()
		k := key(&r)
		s.digest ^= s.rows[k].Stamp
		if r.State == waypost.Purged {
			delete(s.rows, k)
		} else {
			s.digest ^= r.Stamp
			s.rows[k] = r
		}
		t.Records = append(t.Records, replication.AppendRecord(nil, &r))
	}
	t.Digest = s.digest
	s.log = append(s.log, t)
	return &s.log[len(s.log)-1]
}

// Trim forgets the whole log, keeping the rows.
func (s *Source) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base, s.log = s.tail(), nil
}

// NewHistory opens a new epoch at a lower sequence, as after a restore of an
// older backup, keeping the rows.
func (s *Source) NewHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openEpoch(s.tail().Seq / 2)
}

// Backup returns a function that puts the rows back as they are now, in a new history
// that goes on from here, as a restore of PostgreSQL to this point in time does.
func (s *Source) Backup() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, digest, seq := maps.Clone(s.rows), s.digest, s.tail().Seq
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rows, s.digest = maps.Clone(rows), digest
		s.openEpoch(seq)
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// Fail makes every method answer err from now on; nil heals it.
func (s *Source) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
}

// Lie changes the digest from now on, as a source does when its rows differ from its log.
func (s *Source) Lie() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.digest ^= 1
}

// SetWidth sets the width that SnapshotWidth returns.
func (s *Source) SetWidth(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.width = n
}

// Reads counts the calls of Read.
func (s *Source) Reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// Rows returns all rows as encoded, sorted.
func (s *Source) Rows() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all [][]byte
	for _, r := range s.rows {
		all = append(all, replication.AppendRecord(nil, &r))
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

func (s *Source) tail() waypost.Position {
	if n := len(s.log); n > 0 {
		return waypost.Position{Epoch: s.epoch, Seq: s.log[n-1].Seq, Stamp: s.log[n-1].Stamp}
	}
	return s.base
}

func (s *Source) head() replication.Head {
	return replication.Head{Cluster: s.cluster, Position: s.tail(), Digest: s.digest, At: time.Now().UnixMilli()}
}

// Head implements replication.Source.
func (s *Source) Head(context.Context) (replication.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head(), s.failing
}

// Read implements replication.Source.
func (s *Source) Read(_ context.Context, after waypost.Position, maxRecords int) (replication.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	b := replication.Batch{Epoch: s.epoch}
	switch {
	case s.failing != nil:
		return b, s.failing
	case after.Epoch != s.epoch || after.Seq > s.tail().Seq:
		return b, replication.ErrOtherHistory
	case after.Seq < s.base.Seq:
		return b, replication.ErrTrimmed
	}
	skip := int(after.Seq - s.base.Seq)
	if skip == 0 && after != s.base || skip > 0 && after.Stamp != s.log[skip-1].Stamp {
		return b, replication.ErrOtherHistory
	}
	for n := 0; skip < len(s.log) && (len(b.Transactions) == 0 || n+len(s.log[skip].Records) <= maxRecords); skip++ {
		b.Transactions = append(b.Transactions, s.log[skip])
		n += len(s.log[skip].Records)
		if n == 0 && len(b.Transactions) >= maxRecords {
			break
		}
	}
	b.AtHead = skip == len(s.log)
	return b, nil
}

// Snapshot implements replication.Source.
func (s *Source) Snapshot(_ context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	s.mu.Lock()
	rows, head, err := maps.Clone(s.rows), s.head(), s.failing
	s.mu.Unlock()
	if err != nil {
		return replication.Head{}, err
	}
	var buf []byte
	for _, r := range rows {
		if slot := waypost.Slot(r.Kind, r.Domain, r.Name); slot < first || slot > last {
			continue
		}
		buf = replication.AppendRecord(buf[:0], &r)
		if err := visit(buf); err != nil {
			return replication.Head{}, err
		}
	}
	return head, nil
}

// Sums implements replication.Source.
func (s *Source) Sums(_ context.Context, first, last uint16) ([]replication.Sum, replication.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return nil, replication.Head{}, s.failing
	}
	sums := make([]replication.Sum, int(last-first)+1)
	for _, r := range s.rows {
		if slot := waypost.Slot(r.Kind, r.Domain, r.Name); slot >= first && slot <= last {
			sums[slot-first].Digest ^= r.Stamp
			sums[slot-first].Records++
		}
	}
	return sums, s.head(), nil
}

// SnapshotWidth implements replication.Source.
func (s *Source) SnapshotWidth(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.width, s.failing
}

// Changed implements replication.Source.
func (s *Source) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
