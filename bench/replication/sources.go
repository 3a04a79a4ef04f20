//go:build linux

package main

import (
	"context"
	"errors"

	"waypost"
	"waypost/bench/corpus"
	"waypost/replication"
)

// still is a source that does not change: what others do for a follower beside its snapshot.
type still struct{ head replication.Head }

func (s still) Head(context.Context) (replication.Head, error) { return s.head, nil }

func (s still) Read(_ context.Context, after waypost.Position, _ int) (replication.Batch, error) {
	if after != s.head.Position {
		return replication.Batch{}, replication.ErrTrimmed
	}
	return replication.Batch{Epoch: after.Epoch}, nil
}

// Snapshot is empty, unless another has one.
func (s still) Snapshot(context.Context, uint16, uint16, func([]byte) error) (replication.Head, error) {
	return s.head, nil
}

func (s still) Sums(context.Context, uint16, uint16) ([]replication.Sum, replication.Head, error) {
	return nil, s.head, errors.New("not here")
}

func (s still) SnapshotWidth(context.Context) (int, error) { return 256, nil }

func (s still) Changed() <-chan struct{} { return nil }

// logged is a source with an empty snapshot at sequence 1, and a log in memory.
type logged struct {
	still // the head is the log's end
	first waypost.Position
	log   []replication.Transaction
}

func (s *logged) Read(_ context.Context, after waypost.Position, maxRecords int) (replication.Batch, error) {
	b := replication.Batch{Epoch: after.Epoch}
	rest := s.log[after.Seq-s.first.Seq:]
	for n := 0; n < len(rest); n++ {
		if maxRecords -= len(rest[n].Records); maxRecords < 0 && n > 0 {
			rest = rest[:n]
			break
		}
	}
	b.Transactions = rest
	return b, nil
}

// changes makes a log of so many links, each new, some in each transaction.
func (l *lab) changes(count, each int) *logged {
	epoch := waypost.Epoch{Ordinal: 1, ID: waypost.EpochID{1}}
	s := &logged{first: waypost.Position{Epoch: epoch, Seq: 1, Stamp: 1}}
	digest := uint64(0)
	for n := 0; n < count; {
		t := replication.Transaction{Seq: uint64(len(s.log)) + 2, Stamp: uint64(len(s.log)) + 77}
		for range each {
			raw := l.record(uint64(n), t.Seq)
			digest ^= stampOf(uint64(n))
			t.Records = append(t.Records, raw)
			n++
		}
		t.Digest = digest
		s.log = append(s.log, t)
	}
	last := &s.log[len(s.log)-1]
	s.head = replication.Head{Cluster: replication.Cluster{1}, Position: waypost.Position{Epoch: epoch, Seq: last.Seq, Stamp: last.Stamp}, Digest: digest}
	return s
}

// stampOf is as good as random.
func stampOf(n uint64) uint64 {
	x := (n + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>31) * 0x94d049bb133111eb
	return x ^ x>>29
}

// record encodes a link.
func (l *lab) record(n, seq uint64) []byte {
	text := l.targets.Append(corpus.AppendCode(nil, n), n)
	return replication.AppendRecord(nil, &waypost.Record{
		Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain, Name: text[:corpus.CodeLength],
		Revision: waypost.Revision{Epoch: 1, Seq: seq}, Stamp: stampOf(n), Payload: text[corpus.CodeLength:],
	})
}
