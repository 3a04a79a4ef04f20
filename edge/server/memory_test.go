//go:build !race

// Without the race detector only, which has memory of its own for each connection.

package server_test

import (
	"crypto/tls"
	"net"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

// TestAnIdleConnectionCostsLittleMemory checks the figure in the documentation: the bytes
// of a connection that waits for its next request, including the client's side in this
// process. The race detector makes stacks twice as large: without it a plain connection
// has 30 kB.
func TestAnIdleConnectionCostsLittleMemory(t *testing.T) {
	const connections = 500
	cfg := server.Config{MaxConnectionsPerAddress: connections}
	certificate, trusted := certificate(t)
	for _, c := range []struct {
		name  string
		most  int64
		serve func(t *testing.T) (dial func() net.Conn)
	}{
		{"plain", 40 << 10, func(t *testing.T) func() net.Conn {
			_, addr := serve(t, cfg)
			return func() net.Conn { return dial(t, addr) }
		}},
		{"over TLS", 48 << 10, func(t *testing.T) func() net.Conn {
			addr := serveTLS(t, cfg, certificate)
			return func() net.Conn { return tls.Client(dial(t, addr), trusted) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dial := c.serve(t)
			open := func(n int) {
				for range n {
					requireServed(t, dial(), goodRequest)
				}
			}
			open(20) // what the first ones set up
			before := memoryInUse()
			open(connections - 20)
			each := (memoryInUse() - before) / (connections - 20)
			t.Logf("%d bytes for each connection", each)
			require.Less(t, each, c.most)
		})
	}
}

// TestConnectionsThatAreGoneCostNoMemory counts in this process, which keeps free memory
// for its own next use: the resident size says more about the kernel and the runtime.
func TestConnectionsThatAreGoneCostNoMemory(t *testing.T) {
	const connections = 2000
	registry := prometheus.NewPedanticRegistry()
	_, addr := serve(t, server.Config{MaxConnectionsPerAddress: connections, Metrics: registry})
	count := func() float64 {
		return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"]
	}
	round := func(n int) {
		var open []net.Conn
		for range n {
			conn, err := net.Dial("tcp", addr) //nolint:noctx // closed below
			require.NoError(t, err)
			requireServed(t, conn, goodRequest)
			open = append(open, conn)
		}
		for _, conn := range open {
			require.NoError(t, conn.Close())
		}
		require.Eventually(t, func() bool { return count() == 0 }, waitLimit, pollEvery)
	}
	round(20)
	before := memoryInUse()
	round(connections)
	left := memoryInUse() - before
	t.Logf("%d bytes are left, %d of each connection", left, left/connections)
	require.Less(t, left, int64(connections*16<<10))
}

// memoryInUse returns the bytes of heap and stacks after a collection.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}
