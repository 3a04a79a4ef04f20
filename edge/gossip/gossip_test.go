package gossip_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/gossip"
	"waypost/internal/logtest"
)

func TestMembersFindOneAnotherThroughOneSeed(t *testing.T) {
	control := startMember(t, "control-1", nil, func(c *gossip.Config) { c.Role, c.Region = gossip.RoleControl, "eu-west-1" })
	seeds := []string{control.Addr()}
	a, b := startMember(t, "edge-a", seeds), startMember(t, "edge-b", seeds)

	for _, m := range []*member{control, a, b} {
		for _, node := range []string{"control-1", "edge-a", "edge-b"} {
			m.sees(t, node, gossip.StateAlive)
		}
	}
	known := a.sees(t, "control-1", gossip.StateAlive)
	require.Equal(t, gossip.RoleControl, known.Role)
	require.Equal(t, waypost.Region("eu-west-1"), known.Region)
	require.Equal(t, "127.0.0.1:8081", known.Addr)
	require.Equal(t, "1.2.3", known.Version)
	require.False(t, known.Self)
	require.True(t, a.sees(t, "edge-a", gossip.StateAlive).Self)
}

func TestAPositionSpreadsToMembersThatDoNotKnowTheSeed(t *testing.T) {
	seed := startMember(t, "control-1", nil)
	a, b := startMember(t, "edge-a", []string{seed.Addr()}), startMember(t, "edge-b", []string{seed.Addr()})
	a.sees(t, "edge-b", gossip.StateAlive)

	var last time.Time
	for _, seq := range []uint64{7, 8, 1 << 40} {
		a.seq.Store(seq)
		require.Eventually(t, func() bool {
			known := b.of("edge-a")
			return len(known) == 1 && known[0].Position == position(seq)
		}, 60*time.Second, time.Millisecond)
		known := b.of("edge-a")[0]
		require.True(t, known.LastHeard.After(last))
		last = known.LastHeard
	}

	late := startMember(t, "edge-late", []string{b.Addr()}, func(c *gossip.Config) { c.Interval = time.Hour })
	require.Eventually(t, func() bool {
		known := late.of("edge-a")
		return len(known) == 1 && known[0].Position == position(1<<40)
	}, 60*time.Second, time.Millisecond, "who joins later learns it at once")
}

func TestAKilledMemberIsDeadWithinFiveSeconds(t *testing.T) {
	a := startMember(t, "edge-a", nil, noticing)
	b := startMember(t, "edge-b", []string{a.Addr()}, noticing)
	b.sees(t, "edge-a", gossip.StateAlive)
	inTime(t, 5*time.Second, func() time.Duration {
		c := startMember(t, "edge-c", []string{a.Addr()}, noticing)
		for _, m := range []*member{a, b} {
			m.sees(t, "edge-c", gossip.StateAlive)
		}
		killed, ran := time.Now(), startWatch(t)
		require.NoError(t, c.Close())
		for _, m := range []*member{a, b} {
			dead := m.sees(t, "edge-c", gossip.StateDead)
			require.False(t, dead.Since.Before(killed), "it was alive until then")
			require.False(t, dead.LastHeard.After(dead.Since))
		}
		return ran.elapsed()
	})
	a.sees(t, "edge-b", gossip.StateAlive)
}

func TestAMemberThatLeavesIsNotDead(t *testing.T) {
	a := startMember(t, "edge-a", nil)
	b := startMember(t, "edge-b", []string{a.Addr()})
	a.sees(t, "edge-b", gossip.StateAlive)
	b.sees(t, "edge-a", gossip.StateAlive)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, b.Leave(ctx))
	a.sees(t, "edge-b", gossip.StateLeft)
	require.NoError(t, b.Close())
	require.NoError(t, b.Leave(ctx), "nothing happens after the end")
	require.NoError(t, b.Close())
}

func TestAMemberThatIsAloneLeavesAtOnce(t *testing.T) {
	a := startMember(t, "edge-a", nil)
	require.NoError(t, a.Leave(t.Context()))
}

func TestARestartReplacesTheMember(t *testing.T) {
	for name, samePort := range map[string]bool{"on the same port at once": true, "on another port": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startMember(t, "edge-a", nil, noticing)
			first := startMember(t, "edge-b", []string{a.Addr()}, noticing, apart)
			address, within := "127.0.0.1:0", 5*time.Second
			if samePort {
				address, within = first.Addr(), 2*time.Second
			}
			inTime(t, within, func() time.Duration {
				before := a.sees(t, "edge-b", gossip.StateAlive)
				require.NoError(t, first.Close())
				ran := startWatch(t)
				second := startMember(t, "edge-b", []string{a.Addr()}, noticing, func(c *gossip.Config) { c.Bind = address })
				var known []gossip.Member
				require.Eventually(t, func() bool {
					known = a.of("edge-b")
					return len(known) == 1 && known[0].Boot != before.Boot && known[0].State == gossip.StateAlive
				}, 60*time.Second, time.Millisecond)
				took := ran.elapsed()
				for _, own := range second.of("edge-b") {
					require.Equal(t, own.Self, own.Boot == known[0].Boot)
				}
				first = second
				return took
			})
		})
	}
}

func TestARestartIsNotTheDeathOfAMember(t *testing.T) {
	var log logtest.Buffer
	logged := func(c *gossip.Config) { c.Logger = log.Logger() }
	a := startMember(t, "edge-a", nil, noticing, logged)
	b := startMember(t, "edge-b", []string{a.Addr()}, noticing)
	a.sees(t, "edge-b", gossip.StateAlive)
	require.NoError(t, b.Close())
	startMember(t, "edge-b", []string{a.Addr()}, noticing, logged)
	a.sees(t, "edge-b", gossip.StateAlive)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "noticed a restarted member") }, time.Minute, 5*time.Millisecond)
	require.NotContains(t, log.String(), "noticed a dead member")

	c := startMember(t, "edge-c", []string{a.Addr()}, noticing)
	a.sees(t, "edge-c", gossip.StateAlive)
	require.NoError(t, c.Close())
	a.sees(t, "edge-c", gossip.StateDead)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "noticed a dead member") }, time.Minute, 5*time.Millisecond)
}

func TestMembersCutFromOneAnotherJoinAgain(t *testing.T) {
	a := startMember(t, "edge-a", nil, noticing, apart)
	address := a.Addr()
	b := startMember(t, "edge-b", []string{address}, noticing)
	b.sees(t, "edge-a", gossip.StateAlive)
	require.NoError(t, a.Close())
	b.sees(t, "edge-a", gossip.StateDead)

	// It comes back without knowing any member, so that only b can bring them together.
	again := startMember(t, "edge-a", nil, noticing, func(c *gossip.Config) { c.Bind = address })
	b.sees(t, "edge-a", gossip.StateAlive)
	again.sees(t, "edge-b", gossip.StateAlive)
}

func TestASeedMayComeLaterThanTheMember(t *testing.T) {
	a := startMember(t, "edge-a", nil, apart)
	address := a.Addr()
	require.NoError(t, a.Close())
	b := startMember(t, "edge-b", []string{address})
	b.counts(t, "waypost_gossip_joins_total")
	startMember(t, "edge-a", nil, func(c *gossip.Config) { c.Bind = address })
	b.sees(t, "edge-a", gossip.StateAlive)
}

func TestGossip_AdmitsNoMemberWithAnotherKey(t *testing.T) {
	a := startMember(t, "edge-a", nil)
	stranger := startMember(t, "stranger", []string{a.Addr()}, func(c *gossip.Config) { c.Keys = []gossip.Key{{9}} })
	stranger.counts(t, "waypost_gossip_joins_total")
	a.counts(t, "waypost_gossip_faults_total")
	require.Len(t, stranger.Members(), 1)
	require.Len(t, a.Members(), 1)

	friend := startMember(t, "friend", []string{a.Addr()})
	a.sees(t, "friend", gossip.StateAlive)
	friend.sees(t, "edge-a", gossip.StateAlive)
	require.Empty(t, a.of("stranger"))
}

// Nodes get a new key one after the other: first as one that is understood, then
// as the one that encrypts, and then the old one goes. Nodes that are one step apart
// understand each other.
func TestGossip_KeyIsReplacedWithoutASplit(t *testing.T) {
	before, after := key, gossip.Key{4, 5, 6}
	steps := [][]gossip.Key{{before}, {before, after}, {after, before}, {after}}
	for i := range len(steps) - 1 {
		holds := func(keys []gossip.Key) func(*gossip.Config) { return func(c *gossip.Config) { c.Keys = keys } }
		a := startMember(t, "edge-a", nil, holds(steps[i]))
		b := startMember(t, "edge-b", []string{a.Addr()}, holds(steps[i+1]))
		a.sees(t, "edge-b", gossip.StateAlive)
		b.sees(t, "edge-a", gossip.StateAlive)
	}
}

func TestMembersBeyondTheBoundAreIgnored(t *testing.T) {
	a := startMember(t, "edge-a", nil, noticing, func(c *gossip.Config) { c.MaxMembers = 1 })
	first := startMember(t, "edge-b", []string{a.Addr()})
	a.sees(t, "edge-b", gossip.StateAlive)
	refused := startMember(t, "edge-c", []string{a.Addr()})
	a.counts(t, "waypost_gossip_refused_total")
	require.Empty(t, a.of("edge-c"))
	require.NoError(t, refused.Close()) // or it might come as soon as there is room

	// A dead one makes room.
	require.NoError(t, first.Close())
	a.sees(t, "edge-b", gossip.StateDead)
	startMember(t, "edge-d", []string{a.Addr()})
	a.sees(t, "edge-d", gossip.StateAlive)
	require.Empty(t, a.of("edge-b"))
}

func TestTheHandlerShowsTheMembers(t *testing.T) {
	a := startMember(t, "edge-a", nil)
	b := startMember(t, "edge-b", []string{a.Addr()})
	b.seq.Store(42)
	require.Eventually(t, func() bool {
		known := a.of("edge-b")
		return len(known) == 1 && known[0].Position.Seq == 42
	}, 60*time.Second, time.Millisecond)

	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/members", nil))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var answer struct {
		Members []map[string]any `json:"members"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Len(t, answer.Members, 2)
	self, other := answer.Members[0], answer.Members[1]
	require.Equal(t, true, self["self"])
	require.Nil(t, self["position"], "without a replica there is no position")
	require.Equal(t, "edge-b", other["node"])
	require.Equal(t, "us-east-1", other["region"])
	require.Equal(t, "edge", other["role"])
	require.Equal(t, "alive", other["state"])
	require.Equal(t, map[string]any{"epoch": 3.0, "seq": 42.0}, other["position"])
	for _, name := range []string{"since", "last_heard"} {
		_, err := time.Parse(time.RFC3339, other[name].(string))
		require.NoError(t, err, name)
	}
}

func TestABadConfigurationIsRefused(t *testing.T) {
	for name, change := range map[string]func(*gossip.Config){
		"no key":                    func(c *gossip.Config) { c.Keys = nil },
		"no node":                   func(c *gossip.Config) { c.Node = "" },
		"a node of two words":       func(c *gossip.Config) { c.Node = "a b" },
		"a region in capitals":      func(c *gossip.Config) { c.Region = "US" },
		"no role":                   func(c *gossip.Config) { c.Role = "" },
		"no address":                func(c *gossip.Config) { c.Bind = "" },
		"a host name":               func(c *gossip.Config) { c.Bind = "localhost:0" },
		"a seed without a port":     func(c *gossip.Config) { c.Seeds = []string{"10.0.0.1"} },
		"nothing to advertise":      func(c *gossip.Config) { c.Bind = "[::]:0" },
		"advertising everything":    func(c *gossip.Config) { c.Advertise = "0.0.0.0:7946" },
		"a service without a port":  func(c *gossip.Config) { c.Addr = "10.0.0.1" },
		"a version of two lines":    func(c *gossip.Config) { c.Version = "1\n2" },
		"an address that is not us": func(c *gossip.Config) { c.Bind = "192.0.2.99:0" },
	} {
		t.Run(name, func(t *testing.T) {
			c := gossip.Config{Bind: "127.0.0.1:0", Keys: []gossip.Key{key}, Node: "edge-a", Region: "us-east-1", Role: gossip.RoleEdge}
			change(&c)
			g, err := gossip.Start(c)
			require.Error(t, err)
			require.Nil(t, g)
		})
	}
	one := strings.Repeat("a1", 32)
	for _, text := range []string{"", "secret", one + ",secret", one + one, strings.Repeat(one+",", 4)} {
		_, err := gossip.ParseKeys(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "a1")
	}
	keys, err := gossip.ParseKeys(one + "\n" + strings.Repeat("b2", 32) + "\n")
	require.NoError(t, err)
	require.Len(t, keys, 2)
}
