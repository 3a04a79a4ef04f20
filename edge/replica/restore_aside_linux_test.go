package replica_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

// policies notes how the system treats the threads that make the tables of restores.
type policies struct {
	mu   sync.Mutex
	seen map[uint32]int
}

func (p *policies) String() string { return "policies" }

func (p *policies) MaybeError(op errorfs.Op) error {
	if op.Kind != errorfs.OpCreate || !strings.Contains(op.Path, "restore-") || !strings.HasSuffix(op.Path, ".sst") {
		return nil
	}
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[attr.Policy]++
	return nil
}

func TestARestoreStandsAsideForAStoreThatServes(t *testing.T) {
	p := &policies{seen: map[uint32]int{}}
	db, err := replica.Open(config(errorfs.Wrap(vfs.NewMem(), p)))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.Shrink()
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("a", "https://a.example/"), replicationtest.Link("b", "https://b.example/"))
	restore := func() map[uint32]int {
		p.seen = map[uint32]int{}
		k := taking{s: s, db: db}
		require.NoError(t, k.run(t))
		replicationtest.RequireEqual(t, s, db)
		require.NotEmpty(t, p.seen)
		return p.seen
	}
	db.StandAside()
	require.NotContains(t, restore(), uint32(unix.SCHED_BATCH), "there was nothing to answer with")
	again := restore()
	require.Len(t, again, 1)
	require.Contains(t, again, uint32(unix.SCHED_BATCH))
}
