package postgres_test

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

// tunnel passes bytes to PostgreSQL until it is frozen: then nothing comes any more,
// and no connection ends, as when a firewall has forgotten it.
type tunnel struct {
	target string
	frozen atomic.Bool
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func (n *tunnel) serve(t *testing.T, ln net.Listener) {
	n.wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", n.target)
			if err != nil {
				_ = in.Close()
				continue
			}
			n.mu.Lock()
			n.conns = append(n.conns, in, out)
			n.mu.Unlock()
			n.wg.Go(func() { n.pass(in, out) })
			n.wg.Go(func() { n.pass(out, in) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); n.wg.Wait() })
}

// cut ends all connections.
func (n *tunnel) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
}

func (n *tunnel) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		k, err := from.Read(buf)
		if err != nil {
			return
		}
		if n.frozen.Load() {
			continue
		}
		if _, err := to.Write(buf[:k]); err != nil {
			return
		}
	}
}

func TestALookThatIsNeverAnsweredEnds(t *testing.T) {
	t.Parallel() // waits for 20 seconds
	direct := cluster.Database(t)
	u, err := url.Parse(direct)
	require.NoError(t, err)
	q := u.Query()
	dir := t.TempDir()
	port := q.Get("port")
	if port == "" {
		port = "5432"
	}
	n := &tunnel{target: filepath.Join(q.Get("host"), ".s.PGSQL."+port)}
	ln, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL."+port))
	require.NoError(t, err)
	n.serve(t, ln)
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	db := startNode(t, u.String(), nil)
	defer db.Close()
	defer n.cut()
	require.NoError(t, db.WatchOnce(t.Context()))
	n.frozen.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(db.WatchOnce(ctx)))
	require.NoError(t, ctx.Err(), "it did not wait for ever")
}
