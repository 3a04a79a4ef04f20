package gossip_test

import (
	"io"
	"log"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"

	"waypost/edge/gossip"
)

// forger is a member that has the key and says what it likes.
type forger struct {
	meta  []byte
	state []byte
}

func (f *forger) NodeMeta(int) []byte             { return f.meta }
func (f *forger) NotifyMsg([]byte)                {}
func (f *forger) GetBroadcasts(int, int) [][]byte { return nil }
func (f *forger) LocalState(bool) []byte          { return f.state }
func (f *forger) MergeRemoteState([]byte, bool)   {}

// join connects the forger to m, and returns a function that sends m messages.
func (f *forger) join(t *testing.T, name string, m *member) (send func([]byte)) {
	t.Helper()
	c := memberlist.DefaultLANConfig()
	c.Name, c.BindAddr, c.BindPort, c.AdvertisePort = name, "127.0.0.1", 0, 0
	c.SecretKey, c.Label, c.Delegate = key[:], "waypost", f
	c.Logger = log.New(io.Discard, "", 0)
	list, err := memberlist.Create(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, list.Shutdown()) })
	_, err = list.Join([]string{m.Addr()})
	require.NoError(t, err)
	return func(b []byte) {
		require.NoError(t, list.SendToAddress(memberlist.Address{Addr: m.Addr()}, b))
	}
}

func TestMembersWithForgedCardsAreIgnored(t *testing.T) {
	victim := startMember(t, "edge-a", nil)
	card := gossip.Card(gossip.Member{Node: "edge-b", Region: "us-east-1", Role: gossip.RoleEdge, Version: "1"})
	for name, c := range map[string]struct {
		name string
		meta []byte
	}{
		"no card":               {card.Name, nil},
		"noise":                 {card.Name, make([]byte, memberlist.MetaMaxSize)},
		"another name":          {"edge-b@00", card.Bytes},
		"another node's name":   {"edge-c" + card.Name[len("edge-b"):], card.Bytes},
		"cut short":             {card.Name, card.Bytes[:len(card.Bytes)-2]},
		"another version":       {card.Name, append([]byte{2}, card.Bytes[1:]...)},
		"a text beyond the end": {card.Name, append(card.Bytes[:26:26], 255)},
	} {
		t.Run(name, func(t *testing.T) {
			before := victim.refused(t)
			(&forger{meta: c.meta}).join(t, c.name, victim)
			require.Eventually(t, func() bool { return victim.refused(t) > before }, 60*time.Second, time.Millisecond)
			require.Len(t, victim.Members(), 1)
		})
	}
	t.Run("the true card is accepted", func(t *testing.T) {
		(&forger{meta: card.Bytes}).join(t, card.Name, victim)
		victim.sees(t, "edge-b", gossip.StateAlive)
	})
}

func TestForgedMessagesAndStatesAreIgnored(t *testing.T) {
	victim := startMember(t, "edge-a", nil)
	other := startMember(t, "edge-c", []string{victim.Addr()})
	other.seq.Store(5)
	card := gossip.Card(gossip.Member{Node: "edge-b", Region: "us-east-1", Role: gossip.RoleEdge})
	f := &forger{meta: card.Bytes, state: make([]byte, 1<<20)}
	before := victim.refused(t)
	send := f.join(t, card.Name, victim)
	require.Eventually(t, func() bool { return victim.refused(t) > before }, 60*time.Second, time.Millisecond, "the state")

	for _, message := range [][]byte{{}, {1}, make([]byte, 1000), card.Message[:len(card.Message)-1], append([]byte{2}, card.Message[1:]...)} {
		before := victim.refused(t)
		send(message)
		require.Eventually(t, func() bool { return victim.refused(t) > before }, 60*time.Second, time.Millisecond, "%d bytes", len(message))
	}
	require.Eventually(t, func() bool {
		known := victim.of("edge-c")
		return len(known) == 1 && known[0].Position == position(5)
	}, 60*time.Second, time.Millisecond, "the others are heard all the same")
}

func (m *member) refused(t *testing.T) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "waypost_gossip_refused_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "no such metric")
	return 0
}
