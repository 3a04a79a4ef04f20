package replicationtest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication/replicationtest"
)

// echo listens on a socket and sends back what comes.
func echo(t *testing.T) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // the path of a socket must be short
	require.NoError(t, err)
	path = filepath.Join(dir, "socket")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			work.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		work.Wait()
		require.NoError(t, os.RemoveAll(dir))
	})
	return path
}

func dial(t *testing.T, w *replicationtest.Wire) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", w.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return c
}

// send sends bytes and returns how many come back.
func send(t *testing.T, c net.Conn, size int) (int, error) {
	t.Helper()
	go func() { _, _ = c.Write(make([]byte, size)) }() // an end shows in what comes back
	return io.ReadFull(c, make([]byte, size))
}

func TestWire_CarriesBytesAsItIsTold(t *testing.T) {
	path := echo(t)
	w := replicationtest.NewWire(t, func() string { return path })
	steady := dial(t, w)
	_, err := send(t, steady, 100)
	require.NoError(t, err)

	w.Degrade(replicationtest.Quality{Delay: 50 * time.Millisecond})
	began := time.Now()
	_, err = send(t, steady, 100)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "a delay in each direction")

	w.Degrade(replicationtest.Quality{Rate: 10_000})
	began = time.Now()
	_, err = send(t, steady, 2000)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)

	w.Degrade(replicationtest.Quality{CutAfter: 1000})
	n, err := send(t, dial(t, w), 2000)
	require.Error(t, err)
	require.Less(t, n, 1000)

	w.Silence()
	lost := dial(t, w)
	_, err = lost.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, lost.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = lost.Read(make([]byte, 1))
	timeout, ok := errors.AsType[net.Error](err)
	require.True(t, ok && timeout.Timeout(), "nothing comes, and the connection does not end: %v", err)

	w.Mend()
	require.NoError(t, lost.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err = lost.Read(make([]byte, 1))
	require.Error(t, err, "a connection that has lost something ends")
	timeout, ok = errors.AsType[net.Error](err)
	require.False(t, ok && timeout.Timeout())
	_, err = send(t, dial(t, w), 3000)
	require.NoError(t, err)
}
