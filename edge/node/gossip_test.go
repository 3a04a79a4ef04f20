package node

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/gossip"
	"waypost/internal/logtest"
)

func TestGossiper_JoinsWhenItsAddressIsFree(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.8:0") // an address of this test alone
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	log := &logtest.Buffer{}
	g := newGossiper(gossip.Config{
		Bind: taken.Addr().String(), Keys: []gossip.Key{{1}}, Node: "edge-1", Region: "eu", Role: gossip.RoleEdge, Addr: "127.0.0.8:1",
		Boot: waypost.BootID{1}, Version: "1", Metrics: prometheus.NewRegistry(),
	}, func() bool { return false }, log.Logger())
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { g.run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	until := func(is func() bool, what string) {
		t.Helper()
		require.Eventually(t, is, time.Minute, time.Millisecond, what)
	}

	until(func() bool { return strings.Contains(log.String(), "cannot gossip") }, "the first try fails")
	require.Empty(t, g.members())
	require.NoError(t, taken.Close())
	until(func() bool { return len(g.members()) == 1 }, "the edge is a member")

	cancel()
	work.Wait()
	again, err := new(net.ListenConfig).Listen(t.Context(), "tcp", taken.Addr().String())
	require.NoError(t, err, "the address is free again")
	require.NoError(t, again.Close())
}

func TestGossiper_EndsWhileItsAddressIsTaken(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.8:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	log := &logtest.Buffer{}
	g := newGossiper(gossip.Config{
		Bind: taken.Addr().String(), Keys: []gossip.Key{{1}}, Node: "edge-1", Region: "eu", Role: gossip.RoleEdge, Addr: "127.0.0.8:1",
	}, func() bool { return false }, log.Logger())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.run(ctx) }()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot gossip") }, time.Minute, time.Millisecond)
	cancel()
	<-ended
}

// members returns the members that are known.
func (g *gossiper) members() []gossip.Member {
	if now := g.now.Load(); now != nil {
		return now.Members()
	}
	return nil
}
