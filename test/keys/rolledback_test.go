package keys_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/pgserver/pgservertest"
	"waypost/test/devtest"
)

// forwarder is an address that stays while control planes come and go behind it.
type forwarder struct {
	net.Listener
	to      atomic.Pointer[string] // HOST:PORT
	running sync.WaitGroup
}

func startForwarder(t *testing.T) *forwarder {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &forwarder{Listener: ln}
	f.running.Go(func() {
		for {
			conn, err := f.Accept()
			if err != nil {
				return
			}
			f.running.Go(func() { f.forward(conn) })
		}
	})
	t.Cleanup(func() { _ = f.Close(); f.running.Wait() })
	return f
}

func (f *forwarder) forward(from net.Conn) {
	defer from.Close()
	to, err := net.DialTimeout("tcp", *f.to.Load(), time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(from, to); _ = from.Close() })
	_, _ = io.Copy(to, from)
	_ = to.Close()
	back.Wait()
}

// TestKeys_AreNotIssuedAgainAfterAWholeMachineWentBack has PostgreSQL and the memory of
// its only control plane on one disk, which is set back while an edge serves.
func TestKeys_AreNotIssuedAgainAfterAWholeMachineWentBack(t *testing.T) {
	t.Parallel()
	in := &restored{t: t, base: t.TempDir()}
	t.Cleanup(func() { in.stopPostgres() })
	require.NoError(t, os.MkdirAll(filepath.Dir(in.dir("first")), 0o755))
	devtest.CopyDatabase(t, in.dir("first"))
	in.startPostgres("first")
	way := startForwarder(t)
	memory := dirOf(in.base, "control")
	startControl := func() *devtest.Control {
		t.Helper()
		c := start(t, devtest.ControlConfig{
			Database: pgservertest.Patient(in.server.URL()), DataDir: memory, Region: "eu-west-1", Node: "eu-0",
			Env: []string{"FAILPOINT=keys of a lease@500", unhurried},
		})
		addr := strings.TrimPrefix(c.API, "http://")
		way.to.Store(&addr)
		return c
	}
	stop := func(c *devtest.Control) {
		t.Helper()
		require.NoError(t, c.Terminate())
		require.NoError(t, c.Stop())
		in.stopPostgres()
	}

	c := startControl()
	edge, err := devtest.StartEdge(t, devtest.EdgeConfig{
		Control: "http://" + way.Addr().String(), DataDir: dirOf(in.base, "edge"), Region: "eu-west-1", Node: "edge-1",
	})
	require.NoError(t, err)
	ready, err := edge.Ready()
	require.NoError(t, err)
	require.True(t, ready, edge.Output())
	noted := func() (n int) {
		conn := psql(t, in.server.URL())
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM click_progress`).Scan(&n))
		require.NoError(t, conn.Close(t.Context()))
		return n
	}
	eventually(t, "PostgreSQL knows the edge", func() bool { return noted() == 1 })
	in.issueFrom(c)
	stop(c)
	devtest.CopyTree(t, filepath.Join(in.dir("first"), "data"), filepath.Join(in.base, "backup"))
	devtest.CopyTree(t, memory, filepath.Join(in.base, "memory"))

	in.startPostgres("first")
	c = startControl()
	in.issueFrom(c)
	stop(c)

	require.NoError(t, os.RemoveAll(memory))
	devtest.CopyTree(t, filepath.Join(in.base, "memory"), memory)
	devtest.CopyTree(t, filepath.Join(in.base, "backup"), filepath.Join(in.dir("first"), "data"))
	in.startPostgres("first")
	c = startControl()
	eventually(t, "an edge tells, and keys are held", func() bool {
		code, got := create(t.Context(), c.API, "")
		if got.status == http.StatusCreated {
			in.keys.receive(c.Node, code)
		}
		return got.status == http.StatusServiceUnavailable && strings.Contains(got.text, "waypost ranges resume")
	})
	in.keys.requireNoneTwice(t)
	require.Equal(t, 2, in.epochs())
}
