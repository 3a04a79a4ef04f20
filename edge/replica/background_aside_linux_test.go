package replica_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost"
	"waypost/replication/replicationtest"
)

// onStore notes how the system treats the threads that make tables of stores, and that read them.
type onStore struct {
	mu          sync.Mutex
	made, reads map[uint32]int
}

func (o *onStore) String() string { return "onStore" }

func (o *onStore) MaybeError(op errorfs.Op) error {
	if !strings.Contains(op.Path, "store-") || strings.Contains(op.Path, "restore-") || !strings.HasSuffix(op.Path, ".sst") {
		return nil
	}
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch op.Kind {
	case errorfs.OpCreate:
		o.made[attr.Policy]++
	case errorfs.OpFileReadAt:
		o.reads[attr.Policy]++
	}
	return nil
}

// take gives what was noted since it was called last.
func (o *onStore) take() (made, reads map[uint32]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	made, reads = o.made, o.reads
	o.made, o.reads = map[uint32]int{}, map[uint32]int{}
	return made, reads
}

func TestFlushesAndLongBatchesStandAside(t *testing.T) {
	o := &onStore{}
	o.take()
	cfg, meters := metered(errorfs.Wrap(vfs.NewMem(), o))
	cfg.LookupBytes = -1 // what is held of a link is read from tables, and by nobody else
	db := open(t, cfg)
	db.Shrink()
	s := replicationtest.NewSource()
	links := func(from, to int) (records []waypost.Record) {
		for i := from; i < to; i++ {
			records = append(records, replicationtest.Link(fmt.Sprintf("link%04d", i), "https://a.example/"+strings.Repeat("x", 1500)))
		}
		return records
	}
	const held = 100
	s.Commit(links(0, held)...)
	require.NoError(t, (&taking{s: s, db: db}).run(t))
	apply := func(records []waypost.Record) {
		t.Helper()
		s.Commit(records...)
		b, err := s.Read(t.Context(), db.Position(), 10_000)
		require.NoError(t, err)
		require.NoError(t, db.Apply(t.Context(), &b))
	}

	o.take()
	apply(links(0, 1))
	_, reads := o.take()
	require.NotEmpty(t, reads)
	require.NotContains(t, reads, uint32(unix.SCHED_BATCH), "it is over at once")
	apply(links(1, held))
	made, reads := o.take()
	require.NotEmpty(t, reads)
	require.Len(t, reads, 1)
	require.Contains(t, reads, uint32(unix.SCHED_BATCH))

	for over := time.Now().Add(time.Minute); len(made) == 0; made, _ = o.take() {
		require.True(t, time.Now().Before(over), "memtables are flushed")
		apply(links(0, held))
	}
	require.Len(t, made, 1)
	require.Contains(t, made, uint32(unix.SCHED_BATCH))
	require.NoError(t, db.Flush()) // which ends after the one before
	require.Positive(t, value(t, meters, "flushes_total"))
	require.Positive(t, value(t, meters, "table_written_bytes_total"))
	replicationtest.RequireEqual(t, s, db)
}
