package sources_test

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

// wire returns a wire to the server of a URL.
func wire(t *testing.T, url string) *replicationtest.Wire {
	t.Helper()
	return replicationtest.NewWire(t, func() string { return strings.TrimPrefix(url, "http://") })
}

func TestChooser_LeavesASourceThatIsGoneOrDoesNotAdvance(t *testing.T) {
	o := newOrigin(t)
	halting := &stuck{Source: o.Source}
	n := newNode(t, "edge")
	first, second := wire(t, o.url), wire(t, serve(t, replication.ServerConfig{Source: halting, Signer: o.signer}))
	cfg := n.config(first.URL(), second.URL())
	cfg.Patience, cfg.Health = 0, time.Hour // the patience of every edge
	chooser := n.run(t, cfg)
	n.at(t, o.put())
	require.Equal(t, first.URL(), chooser.URL())

	within := func(what, url string) {
		t.Helper()
		began := time.Now()
		n.at(t, o.put())
		require.Less(t, time.Since(began), 3*time.Second, what)
		require.Equal(t, url, chooser.URL(), what)
	}
	first.Cut()
	within("gone", second.URL())
	first.Mend()
	looks := n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+10 })
	within("it stays", second.URL())
	require.EqualValues(t, 1, n.loop.turns.Load())

	head, err := o.Head(t.Context())
	require.NoError(t, err)
	halting.still.Store(&head)
	within("it repeats an old head", first.URL())

	first.Cut() // neither has news
	looks = n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+30 })
	require.EqualValues(t, 2, n.loop.turns.Load(), "it does not go to and fro")
	first.Mend()
	n.at(t, o.put())
	replicationtest.RequireEqual(t, o.Source, n.db)
}

// A caller that waits for all edges waits for two seconds, as long as silence may last.
func TestChooser_LeavesASourceThatRefusesConnectionsAtOnce(t *testing.T) {
	o := newOrigin(t)
	n := newNode(t, "edge")
	first, second := wire(t, o.url), wire(t, o.url)
	cfg := n.config(first.URL(), second.URL())
	cfg.Patience = 10 * time.Second
	chooser := n.run(t, cfg)
	n.at(t, o.put())
	began := time.Now()
	first.Cut()
	until(t, "the other one is followed", func() bool { return chooser.URL() == second.URL() })
	require.Less(t, time.Since(began), cfg.Patience)
}

func TestChooser_PrefersTheOrderOfItsURLs(t *testing.T) {
	o := newOrigin(t)
	n := newNode(t, "edge")
	wires := []*replicationtest.Wire{wire(t, o.url), wire(t, o.url), wire(t, o.url)}
	chooser := n.run(t, n.config(wires[0].URL(), wires[1].URL(), wires[2].URL()))
	n.at(t, o.put())
	wires[0].Cut()
	until(t, "the next one is followed", func() bool { return chooser.URL() == wires[1].URL() })
	wires[1].Cut()
	until(t, "and the next", func() bool { return chooser.URL() == wires[2].URL() })
	n.at(t, o.put())

	wires[1].Mend()
	looks := n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+20 })
	require.Equal(t, wires[2].URL(), chooser.URL(), "it returns to the first alone")
	wires[0].Mend()
	until(t, "it returns", func() bool { return chooser.URL() == wires[0].URL() && n.loop.Status().Connected })
	n.at(t, o.put())
	require.EqualValues(t, 3, n.loop.turns.Load())
}

func TestChooser_ReturnsToAFirstSourceThatIsWellForLongEnough(t *testing.T) {
	o := newOrigin(t)
	halting := &stuck{Source: o.Source}
	n := newNode(t, "edge")
	first, second := wire(t, serve(t, replication.ServerConfig{Source: halting, Signer: o.signer})), wire(t, o.url)
	cfg := n.config(first.URL(), second.URL())
	chooser := n.run(t, cfg)
	n.at(t, o.put())
	head, err := o.Head(t.Context())
	require.NoError(t, err)
	halting.still.Store(&head)
	until(t, "it follows the other one", func() bool { return chooser.URL() == second.URL() })
	looks := n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+40 })
	require.Equal(t, second.URL(), chooser.URL(), "the first one answers, and does not advance")

	well := time.Now()
	halting.still.Store(nil)
	until(t, "it returns", func() bool { return chooser.URL() == first.URL() })
	require.GreaterOrEqual(t, time.Since(well), cfg.Health)
}

// Two relays that follow each other pass heads on in a circle, which are as old as they
// are.
func TestChooser_LeavesARelayThatIsCutOff(t *testing.T) {
	o := newOrigin(t)
	relay, edge := newNode(t, "relay"), newNode(t, "edge")
	above, direct := wire(t, o.url), wire(t, o.url)
	relay.run(t, relay.config(above.URL()))
	chooser := edge.run(t, edge.config(relay.url, direct.URL()))
	edge.at(t, o.put())
	until(t, "it is below the relay", func() bool { return len(edge.loop.Status().Via) == 1 })

	above.Cut()
	edge.at(t, o.put())
	require.Equal(t, direct.URL(), chooser.URL())
	direct.Cut() // the relay answers, and knows less
	looks := edge.loop.looks.Load()
	until(t, "it has looked again", func() bool { return edge.loop.looks.Load() > looks+30 })
	require.Equal(t, direct.URL(), chooser.URL())

	above.Mend()
	edge.at(t, o.put())
	require.Equal(t, relay.url, chooser.URL())
}

// A forgotten database of an older epoch takes no edge over, whatever its clock says.
func TestChooser_FollowsNoSourceOfAnOlderHistory(t *testing.T) {
	o := newOrigin(t)
	old := &stuck{Source: o.Source}
	n := newNode(t, "edge")
	first, second := wire(t, o.url), serve(t, replication.ServerConfig{Source: old, Signer: o.signer})
	chooser := n.run(t, n.config(first.URL(), second))
	n.at(t, o.put())
	head, err := o.Head(t.Context())
	require.NoError(t, err)
	head.At += time.Hour.Milliseconds()
	old.still.Store(&head)
	o.NewHistory()
	n.at(t, o.put())
	first.Cut()
	looks := n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+30 })
	require.Equal(t, first.URL(), chooser.URL())
	require.Zero(t, n.loop.turns.Load())
}

// A busy source is there: another one may be as busy.
func TestChooser_StaysWithABusySource(t *testing.T) {
	o := newOrigin(t)
	n := newNode(t, "edge")
	soon := time.Now().Add(time.Hour)
	n.loop.busy.Store(&soon)
	other := wire(t, o.url)
	chooser := n.run(t, n.config("http://127.0.0.1:1", other.URL()))
	looks := n.loop.looks.Load()
	until(t, "it has looked again", func() bool { return n.loop.looks.Load() > looks+30 })
	require.Equal(t, "http://127.0.0.1:1", chooser.URL())
	n.loop.busy.Store(nil)
	n.at(t, o.put())
}
