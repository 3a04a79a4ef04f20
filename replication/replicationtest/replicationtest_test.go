package replicationtest_test

import (
	"testing"

	"waypost/replication/replicationtest"
)

func TestTheSourceInMemory(t *testing.T) {
	replicationtest.TestSource(t, func(*testing.T) replicationtest.Changelog { return replicationtest.NewSource() })
}
