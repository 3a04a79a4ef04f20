package replica_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// watched is a source that reports each range before it is read.
type watched struct {
	*replicationtest.Source
	before func(first int)
	silent bool // its server learns of changes by its polls alone
	mu     sync.Mutex
	ranges []int // first slots of those that were read
}

func (s *watched) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before(int(first))
	s.ranges = append(s.ranges, int(first))
	return s.Source.Snapshot(ctx, first, last, visit)
}

func (s *watched) Changed() <-chan struct{} {
	if s.silent {
		return nil
	}
	return s.Source.Changed()
}

func TestRestore_RetakesSomeSlotsAfterATrim(t *testing.T) {
	for _, inTables := range []bool{false, true} {
		for _, writes := range []bool{false, true} {
			t.Run(fmt.Sprintf("in tables %v, writes afterwards %v", inTables, writes), func(t *testing.T) {
				var early []string // in slots that are read before the log is trimmed
				s := &watched{Source: replicationtest.NewSource(), silent: !writes}
				for i := range 200 {
					code := fmt.Sprintf("code%04d", i)
					s.Commit(replicationtest.Link(code, "https://example.com/"))
					if waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte(code)) < 1024 {
						early = append(early, code)
					}
				}
				s.SetWidth(256)
				s.before = func(first int) {
					switch {
					case len(s.ranges) >= 16: // again
					case first == 1024:
						s.CommitUnseen([]waypost.Record{replicationtest.Purge(early[0])},
							[]waypost.Record{replicationtest.Link(early[1], "https://changed.example/"), replicationtest.Link("late", "https://late.example/")})
					case first == 2048 && writes:
						s.Commit(replicationtest.Link(early[2], "https://changed.example/"))
						s.Commit(replicationtest.Link(early[3], "https://changed.example/"))
					}
				}
				var mu sync.Mutex
				var asked []string
				url := serve(t, s, func(r *http.Request) int {
					if r.URL.Path == replication.PathSnapshot {
						mu.Lock()
						defer mu.Unlock()
						asked = append(asked, r.URL.RawQuery)
					}
					return 0
				}, func(c *replication.ServerConfig) {
					c.MaxSnapshots, c.RingFrames = 1, 1
					if s.silent { // what its heartbeats say is older than what its snapshot has
						c.MinPoll, c.MaxPoll = 300*time.Millisecond, 300*time.Millisecond
					}
				})
				db := open(t, config(vfs.NewMem()))
				if inTables {
					db.Shrink()
				}
				stop := following(t, url, db)
				head, err := s.Head(t.Context())
				require.NoError(t, err)
				require.Eventually(t, func() bool {
					head, err = s.Head(t.Context())
					return err == nil && db.Position() == head.Position
				}, time.Minute, time.Millisecond)
				stop()
				require.Equal(t, []string{"first=0", "slots=0-1023"}, asked)
				require.Equal(t, []int{0, 256, 512, 768}, s.ranges[16:])
				replicationtest.RequireEqual(t, s.Source, db)
				requireDigest(t, db)
				_, found := find(t, db, early[0])
				require.False(t, found, "a deletion that the log has lost is known")
				_, found = find(t, db, "late")
				require.True(t, found)
			})
		}
	}
}

func TestRestore_AgainForgetsWholeTables(t *testing.T) {
	db := open(t, replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	db.NeverSaveByTime()
	s := replicationtest.NewSource()
	for i := range 400 {
		s.Commit(replicationtest.Link(fmt.Sprintf("code%04d", i), "https://example.com/"))
	}
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := db.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	take := func(first, last int) {
		var records [][]byte
		_, err := s.Snapshot(t.Context(), uint16(first), uint16(last), func(raw []byte) error {
			records = append(records, slices.Clone(raw))
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, r.Slots(t.Context(), records))
		require.NoError(t, r.Keep(t.Context(), replication.Progress{
			Next: last + 1, Lowest: head.Position, Highest: head.Position, Digest: head.Digest,
		}))
	}
	take(0, 1023) // both in memory
	db.Shrink()
	take(1024, 2047) // which makes a table of both
	take(2048, 4095)
	before, err := r.(replication.Retaker).Again(t.Context(), 100)
	require.NoError(t, err)
	require.Greater(t, before, 1024, "the other slots of a table come again")
	require.LessOrEqual(t, before, 2048)
	take(0, 2047)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
	require.NoError(t, r.Commit(t.Context(), head.Digest))
	replicationtest.RequireEqual(t, s, db)
}
