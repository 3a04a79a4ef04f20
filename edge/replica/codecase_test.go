package replica_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestDeletionGuard_CountsNoLinkThatGetsAKeyInAnotherCase(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.follow(t)
	for i := range 300 {
		f.Commit(replicationtest.Purge(linkCode(i)), replicationtest.Link("L"+linkCode(i)[1:], "https://example.com/moved"))
	}
	f.settle(t)
	require.Nil(t, f.follower.Status().Held)
	require.Equal(t, "https://example.com/moved", f.target(t, "L"+linkCode(299)[1:]))
	require.Empty(t, f.target(t, linkCode(299)))
	for i := range 200 { // as an SQL statement by hand may exchange links for others
		f.Commit(replicationtest.Purge(linkCode(300+i)), replicationtest.Link("other-"+linkCode(i), "https://example.com/other"))
	}
	f.held(t, replication.HoldMassDelete)
}
