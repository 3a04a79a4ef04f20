package gossip_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/gossip"
)

// reader remembers messages and passes the first of each on, except for a flood, as a
// node passes on only what proves itself.
type reader struct {
	mu     sync.Mutex
	seen   map[string]int
	member *member
}

func (r *reader) receive(message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	if r.seen[string(message)]++; r.seen[string(message)] == 1 && !strings.HasPrefix(string(message), "flood") {
		r.member.Pass(message)
	}
}

func (r *reader) has(message string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[message] > 0
}

func TestGossip_SpreadsAMessageToAllMembers(t *testing.T) {
	readers := make([]*reader, 8)
	members := make([]*member, len(readers))
	var seeds []string
	for i := range readers {
		readers[i] = &reader{}
		members[i] = startMember(t, fmt.Sprintf("edge-%d", i), seeds, func(c *gossip.Config) { c.Receive = readers[i].receive })
		readers[i].mu.Lock()
		readers[i].member = members[i]
		readers[i].mu.Unlock()
		seeds = []string{members[0].Addr()}
	}
	for i := range members {
		members[0].sees(t, fmt.Sprintf("edge-%d", i), gossip.StateAlive)
	}
	everywhere := func(message string) {
		t.Helper()
		require.Eventually(t, func() bool {
			for _, r := range readers[1:] {
				if !r.has(message) {
					return false
				}
			}
			return true
		}, 30*time.Second, time.Millisecond)
	}
	began := time.Now()
	require.NoError(t, members[0].Spread([]byte("directly")))
	everywhere("directly")
	t.Logf("directly: %s", time.Since(began))
	began = time.Now()
	members[0].Pass([]byte("from one to the next"))
	everywhere("from one to the next")
	t.Logf("from one to the next: %s", time.Since(began))

	require.ErrorContains(t, members[0].Spread(make([]byte, gossip.MaxMessage+1)), "longer than 1024")
	for i := range 2000 {
		members[1].Pass(fmt.Appendf(nil, "flood %d", i))
	}
	require.NoError(t, members[0].Spread([]byte(strings.Repeat("x", gossip.MaxMessage))))
	everywhere(strings.Repeat("x", gossip.MaxMessage))
	known := members[0].sees(t, "edge-1", gossip.StateAlive)
	require.Eventually(t, func() bool { return members[0].of("edge-1")[0].LastHeard.After(known.LastHeard) }, 30*time.Second, time.Millisecond,
		"news go on next to messages")
}
