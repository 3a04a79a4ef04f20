package replication_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestAFollowerIsAskedOnceItHasWhatSomebodyWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		var e *edge
		asked := make(chan waypost.Position, 100)
		e = follow(t, w.network, func(c *replication.FollowConfig) {
			sink := c.Sink
			c.Asked = func() { asked <- sink.Position() }
		})
		first := w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		e.await(t, first)
		synctest.Wait()
		require.Empty(t, asked, "nobody waits")

		w.server.Ask(first)
		require.Equal(t, first, <-asked)
		w.server.Ask(first) // by another who waits
		require.Equal(t, first, <-asked)

		p := w.source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
		w.server.Ask(p)
		got := <-asked
		require.GreaterOrEqual(t, got.Seq, p.Seq, "the question comes after what it is about")
		synctest.Wait()
		require.Empty(t, asked)
	})
}

func TestAFollowerThatKnowsNoQuestionsGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		p := w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		w.server.Ask(p)
		e.await(t, p)
		e.await(t, w.source.Commit(replicationtest.Link("bbbb", "https://b.example/")))
		require.Equal(t, 1, e.Status().Snapshots)
		require.NoError(t, e.Status().Err)
	})
}
