package replicationtest_test

import (
	"testing"

	"waypost/replication/replicationtest"
)

func TestTheSourceInMemory(t *testing.T) {
	replicationtest.TestSource(t, func(*testing.T) replicationtest.Changelog { return replicationtest.NewSource() })
}

func TestTheSinkInMemory(t *testing.T) {
	replicationtest.TestSink(t, func(*testing.T) replicationtest.Replica { return replicationtest.NewSink() })
}
