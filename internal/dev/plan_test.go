package dev

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func settings(t *testing.T, edges ...string) config.Config {
	t.Helper()
	s, err := config.Load(config.Sources{})
	require.NoError(t, err)
	s.Dev.ControlAddr = "127.0.0.1:0"
	if edges != nil {
		s.Dev.Edges = edges
	}
	return s
}

func TestThePlanOfNoSettingsIsTwoRegions(t *testing.T) {
	p, err := makePlan(settings(t))
	require.NoError(t, err)
	require.Equal(t, []string{"us-east-1", "eu-west-1"}, p.regions())
	require.Equal(t, "http://127.0.0.1:8081", p.edgeURLs()[0], "short URLs are formed with the first edge")
}

func TestPortZeroBecomesAFreePortThatStays(t *testing.T) {
	p, err := makePlan(settings(t, "a=127.0.0.1:0", "b=127.0.0.1:0", "c=0.0.0.0:0"))
	require.NoError(t, err)
	require.NoError(t, p.claimPorts(t.Context()))
	seen := map[string]bool{}
	for _, addr := range []string{p.control, p.fleet, p.edges[0].Addr, p.edges[1].Addr, p.edges[2].Addr} {
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		require.NotEqual(t, "0", port)
		require.False(t, seen[port], "port %s is picked twice", port)
		seen[port] = true
	}
	host, _, err := net.SplitHostPort(p.edges[2].Addr)
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0", host)
	require.Contains(t, p.edgeURLs()[2], "http://127.0.0.1:", "a URL needs an address that can be reached")
}

func TestABusyPortIsNamedWithItsFlag(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	p, err := makePlan(settings(t, "a="+ln.Addr().String()))
	require.NoError(t, err)
	require.ErrorContains(t, p.claimPorts(t.Context()), ln.Addr().String()+" is in use by another program: stop that, or choose another address with --edges")
}
