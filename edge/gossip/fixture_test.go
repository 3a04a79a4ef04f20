package gossip_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"waypost"
	"waypost/edge/gossip"
	"waypost/internal/leaktest"
)

// memberlist does not wait for a probe that is under way.
func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

var key = gossip.Key{1, 2, 3}

// member is a node on the loopback interface.
type member struct {
	*gossip.Gossip
	seq      atomic.Uint64
	registry *prometheus.Registry
}

// startMember starts a node that joins through the given addresses. It is closed,
// without a farewell, when the test ends.
func startMember(t *testing.T, node string, seeds []string, changes ...func(*gossip.Config)) *member {
	t.Helper()
	m := &member{registry: prometheus.NewRegistry()}
	cfg := gossip.Config{
		Bind: "127.0.0.1:0", Seeds: seeds, Keys: []gossip.Key{key}, Node: node, Region: "us-east-1", Role: gossip.RoleEdge,
		Addr: "127.0.0.1:8081", Version: "1.2.3", Metrics: m.registry,
		Position: func() waypost.Position {
			seq := m.seq.Load()
			if seq == 0 {
				return waypost.Position{}
			}
			return position(seq)
		},
		Interval: 50 * time.Millisecond, Rejoin: 200 * time.Millisecond, Probe: time.Minute,
	}
	for _, change := range changes {
		change(&cfg)
	}
	var err error
	m.Gossip, err = gossip.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// noticing is for members that are to find others dead: a member without it takes none
// for dead that a machine has held up.
func noticing(c *gossip.Config) { c.Probe = 0 }

// apart binds a member to an address that no other process has, so that it may come back
// to its port.
func apart(c *gossip.Config) { c.Bind = "127.0.0.9:0" }

// stopwatch measures the time in which this process runs: while it stands still, or
// waits for a processor, it can hear no member.
type stopwatch struct{ ran atomic.Int64 }

func startWatch(t *testing.T) *stopwatch {
	t.Helper()
	const every = 5 * time.Millisecond
	w, stop, ended := &stopwatch{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-tick.C:
				w.ran.Add(int64(min(time.Since(last), 2*every)))
				last = time.Now()
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return w
}

func (w *stopwatch) elapsed() time.Duration { return time.Duration(w.ran.Load()) }

// inTime says that something takes less than a time. Also while this process runs a
// member may be held up, whose thread stands still: then it is tried again.
func inTime(t *testing.T, limit time.Duration, try func() (took time.Duration)) {
	t.Helper()
	const tries = 5
	var all []time.Duration
	for range tries {
		took := try()
		if took < limit {
			return
		}
		all = append(all, took)
	}
	require.Fail(t, "it takes too long", "%v and not less than %s", all, limit)
}

func position(seq uint64) waypost.Position {
	return waypost.Position{Epoch: waypost.Epoch{Ordinal: 3, ID: waypost.EpochID{9}}, Seq: seq, Stamp: seq * 31}
}

// of returns the members that m knows of a node, one for each boot.
func (m *member) of(node string) []gossip.Member {
	var found []gossip.Member
	for _, other := range m.Members() {
		if other.Node == node {
			found = append(found, other)
		}
	}
	return found
}

// sees waits until m knows exactly one boot of a node, in that state.
func (m *member) sees(t *testing.T, node string, state gossip.State) gossip.Member {
	t.Helper()
	var found []gossip.Member
	require.Eventually(t, func() bool {
		found = m.of(node)
		return len(found) == 1 && found[0].State == state
	}, 60*time.Second, 5*time.Millisecond, "%s %s", node, state)
	return found[0]
}

// counts waits until a counter of m is at least 1.
func (m *member) counts(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		families, err := m.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == name {
				for _, metric := range family.GetMetric() {
					return metric.GetCounter().GetValue() >= 1
				}
			}
		}
		return false
	}, 60*time.Second, 5*time.Millisecond, name)
}
