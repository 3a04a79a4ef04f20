package replica_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// trimming is a source that loses its log once, between two ranges of a snapshot.
type trimming struct {
	*replicationtest.Source
	lose func()
	once sync.Once
}

func (s *trimming) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	if first == 2048 {
		s.once.Do(s.lose)
	}
	return s.Source.Snapshot(ctx, first, last, visit)
}

func TestRestore_BeginsAgainWhenTheLogIsTrimmed(t *testing.T) {
	s := &trimming{Source: replicationtest.NewSource()}
	for i := range 200 {
		s.Commit(replicationtest.Link(fmt.Sprintf("code%04d", i), "https://example.com/"))
	}
	s.SetWidth(1024)
	s.lose = func() {
		for i := range 100 { // of which some are in slots that were read
			s.Commit(replicationtest.Purge(fmt.Sprintf("code%04d", i)))
		}
		s.Trim()
	}
	db := open(t, config(vfs.NewMem()))
	stop := following(t, serve(t, s, nil), db)
	require.Eventually(t, func() bool {
		head, err := s.Head(t.Context())
		return err == nil && head.Position.Seq == 300 && db.Position() == head.Position
	}, time.Minute, time.Millisecond)
	stop()
	replicationtest.RequireEqual(t, s.Source, db)
	requireDigest(t, db)
}
