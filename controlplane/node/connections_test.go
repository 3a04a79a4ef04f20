package node_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/node"
	"waypost/replication"
)

// Bare connections from many addresses take all places of the API, those on trial too.
func TestNode_FloodsOfTheAPIKeepNoEdgeOut(t *testing.T) {
	const token = "a token of all edges"
	r := run(t, cluster.Database(t), func(cfg *node.Config) {
		cfg.FleetAddr, cfg.EdgeToken = "127.0.0.1:0", token
		cfg.MaxConnections, cfg.MaxConnectionsPerAddress = 20, 20
	})
	api, port := strings.TrimPrefix(r.url, "http://"), func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

	// ask connects, waits, sends a request, and returns the status and the body of the
	// answer; 0: the connection was ended.
	ask := func(addr, path string, wait func()) (int, string) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return 0, ""
		}
		defer func() { _ = c.Close() }()
		require.NoError(t, c.SetDeadline(time.Now().Add(waitLimit)))
		wait()
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
			return 0, ""
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, ""
		}
		if res.StatusCode == http.StatusOK {
			return res.StatusCode, "" // an endless stream, which ends with the connection
		}
		text, err := io.ReadAll(res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		return res.StatusCode, string(text)
	}
	atOnce := func() {}
	status, body := ask(api, replication.PathStream, atOnce)
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.Contains(t, body, "port "+port(r.fleet)+", its control.fleet_listen")
	status, body = ask(r.fleet, "/api/v1/urls", atOnce)
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.Contains(t, body, "the API is at port "+port(api)+", its control.addr")

	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer stop()
	var refused atomic.Int64
	for i := range 40 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i))}}
		flood.Go(func() {
			for ctx.Err() == nil {
				c, err := d.DialContext(ctx, "tcp", api)
				if err != nil {
					continue
				}
				end := context.AfterFunc(ctx, func() { _ = c.Close() })
				if _, err := c.Read(make([]byte, 1)); err != nil { // nothing comes but the end
					refused.Add(1)
				}
				end()
				_ = c.Close()
			}
		})
	}
	underFlood := func() {
		t.Helper()
		before := refused.Load()
		require.Eventually(t, func() bool { return refused.Load() > before+100 }, waitLimit, time.Millisecond)
	}
	underFlood()
	status, _ = ask(api, "/health", underFlood)
	require.Zero(t, status, "the API is full")
	status, _ = ask(r.fleet, replication.PathStream, underFlood)
	require.Equal(t, http.StatusOK, status, "an edge that is far away connects")
}
