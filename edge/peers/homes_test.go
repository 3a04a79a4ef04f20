package peers_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// stuck is a source that can cease to hear of its database.
type stuck struct {
	*replicationtest.Source
	still atomic.Pointer[replication.Head] // what it repeats; nil: it hears of it
}

func (s *stuck) Head(ctx context.Context) (replication.Head, error) {
	if h := s.still.Load(); h != nil {
		return *h, nil
	}
	return s.Source.Head(ctx)
}

func (s *stuck) Read(ctx context.Context, after waypost.Position, most int) (replication.Batch, error) {
	if s.still.Load() != nil {
		return replication.Batch{}, nil
	}
	return s.Source.Read(ctx, after, most)
}

// An edge with two control planes stays with one, and leaves it for the other within 3 s
// when it is gone or repeats an old head.
func TestChooser_LeavesAControlPlaneThatIsGoneOrDoesNotAdvance(t *testing.T) {
	o := newOrigin(t)
	halting := &stuck{Source: o.Source}
	second := serve(t, replication.ServerConfig{Source: halting, Signer: o.signer}, "")
	n := newNode(t, o, "edge", token)
	wire := replicationtest.NewWire(t, func() string { return strings.TrimPrefix(second, "http://") })
	cfg := n.config()
	cfg.Homes, cfg.List, cfg.After, cfg.Limit = []string{n.home.URL(), wire.URL()}, nil, -1, time.Second
	chooser := n.runs(t, cfg)
	n.at(t, o.put(1))
	require.Equal(t, n.home.URL(), chooser.Home())

	within := func(what string, home string) {
		t.Helper()
		began := time.Now()
		n.at(t, o.put(1))
		require.Less(t, time.Since(began), 3*time.Second, what)
		require.Equal(t, home, chooser.Home(), what)
	}
	n.home.Cut()
	within("gone", wire.URL())
	n.home.Mend()
	require.EqualValues(t, 1, n.loop.turns.Load())
	looks := n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+10 })
	within("it stays", wire.URL())
	require.EqualValues(t, 1, n.loop.turns.Load())

	head, err := o.Head(t.Context())
	require.NoError(t, err)
	halting.still.Store(&head)
	began := time.Now()
	n.at(t, o.put(1))
	require.Less(t, time.Since(began), 6*time.Second, "its patience has doubled")
	require.Equal(t, n.home.URL(), chooser.Home())

	n.home.Cut() // neither has news
	looks = n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+30 })
	require.EqualValues(t, 2, n.loop.turns.Load(), "it does not go to and fro")
	n.home.Mend()
	n.at(t, o.put(1))
	replicationtest.RequireEqual(t, o.Source, n.db)
}
