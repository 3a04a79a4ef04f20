package edge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge"
)

func TestShutdownLosesNoRequest(t *testing.T) {
	const clients = 16
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := edge.New(edge.Config{Links: newMemoryLinks(), DrainTime: 5 * time.Second})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()

	// Each client asks on and on until it is told to close its connection.
	var running, ended sync.WaitGroup
	failures := make(chan error, clients)
	running.Add(clients)
	for range clients {
		ended.Go(func() {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				running.Done()
				failures <- err
				return
			}
			defer func() { _ = conn.Close() }()
			r := bufio.NewReader(conn)
			for n := 0; ; n++ {
				res, err := ask(conn, r)
				if n == 0 {
					running.Done()
				}
				if err != nil {
					failures <- fmt.Errorf("request %d: %w", n, err)
					return
				}
				if res.Close {
					return
				}
			}
		})
	}
	running.Wait()
	require.NoError(t, s.Shutdown(t.Context()))
	ended.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	require.NoError(t, <-served)
	_, err = net.Dial("tcp", ln.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func ask(conn net.Conn, r *bufio.Reader) (*http.Response, error) {
	if _, err := io.WriteString(conn, "GET /found302 HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, err
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusFound {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	return res, nil
}

// slowLinks holds every lookup until it is let go.
type slowLinks struct {
	*memoryLinks
	entered, release chan struct{}
}

func (l slowLinks) Link(domain waypost.DomainID, code, buf []byte) (waypost.Record, []byte, bool, error) {
	l.entered <- struct{}{}
	<-l.release
	return l.memoryLinks.Link(domain, code, buf)
}

func TestShutdownWaitsForTheRequestInFlight(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	links := slowLinks{newMemoryLinks(), make(chan struct{}), make(chan struct{})}
	s := edge.New(edge.Config{Links: links, DrainTime: time.Millisecond})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	conn := dial(t, ln.Addr().String())
	_, err = io.WriteString(conn, "GET /found302 HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	<-links.entered

	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Shutdown(short), context.DeadlineExceeded, "it cannot end while a request is answered")

	close(links.release)
	require.NoError(t, s.Shutdown(t.Context()))
	res := read(t, bufio.NewReader(conn), false)
	require.Equal(t, 302, res.StatusCode)
	require.NoError(t, <-served)
}

func TestShutdownClosesIdleConnections(t *testing.T) {
	s, addr := serve(t, edge.Config{})
	conn := dial(t, addr)
	r := bufio.NewReader(conn)
	_, err := ask(conn, r)
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()))
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestServeAfterShutdownServesNothing(t *testing.T) {
	s := edge.New(edge.Config{Links: newMemoryLinks()})
	require.NoError(t, s.Shutdown(t.Context()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, s.Serve(ln))
	_, err = net.Dial("tcp", ln.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// oneListener gives what is in conns, after the errors in first.
type oneListener struct {
	first []error
	conns chan net.Conn
	once  sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	if len(l.first) > 0 {
		err := l.first[0]
		l.first = l.first[1:]
		return nil, err
	}
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *oneListener) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestAMomentWithoutFileDescriptorsDoesNotEndTheServer(t *testing.T) {
	ln := &oneListener{
		first: []error{&net.OpError{Op: "accept", Err: syscall.EMFILE}, &net.OpError{Op: "accept", Err: syscall.ENFILE}},
		conns: make(chan net.Conn, 1),
	}
	server, client := net.Pipe()
	ln.conns <- server
	s := edge.New(edge.Config{Links: newMemoryLinks(), DrainTime: time.Millisecond})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	_, err := ask(client, bufio.NewReader(client))
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-served)
}

func TestAListenerThatFailsForGoodEndsServeWithItsError(t *testing.T) {
	ln := &oneListener{first: []error{syscall.EINVAL}, conns: make(chan net.Conn)}
	require.ErrorIs(t, edge.New(edge.Config{Links: newMemoryLinks()}).Serve(ln), syscall.EINVAL)
}
