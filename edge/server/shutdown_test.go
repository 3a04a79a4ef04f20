package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

func TestShutdownLosesNoRequest(t *testing.T) {
	const clients = 16
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: waitLimit}))
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

func (l slowLinks) Link(domain waypost.DomainID, code, buf []byte, rec *waypost.Record) ([]byte, bool, error) {
	l.entered <- struct{}{}
	<-l.release
	return l.memoryLinks.Link(domain, code, buf, rec)
}

func TestShutdownWaitsForTheRequestInFlight(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	links := slowLinks{newMemoryLinks(), make(chan struct{}), make(chan struct{})}
	s := server.New(patient(server.Config{Links: links, DrainTime: time.Millisecond}))
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
	s, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	r := bufio.NewReader(conn)
	_, err := ask(conn, r)
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()))
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestServeAfterShutdownServesNothing(t *testing.T) {
	s := server.New(patient(server.Config{Links: newMemoryLinks()}))
	require.NoError(t, s.Shutdown(t.Context()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, s.Serve(ln))
	_, err = net.Dial("tcp", ln.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// oneListener accepts the connections in conns, after the errors in first.
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
	srv, client := net.Pipe()
	ln.conns <- srv
	s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: time.Millisecond}))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	_, err := ask(client, bufio.NewReader(client))
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-served)
}

func TestAListenerThatFailsForGoodEndsServeWithItsError(t *testing.T) {
	ln := &oneListener{first: []error{syscall.EINVAL}, conns: make(chan net.Conn)}
	require.ErrorIs(t, server.New(patient(server.Config{Links: newMemoryLinks()})).Serve(ln), syscall.EINVAL)
}

// TestShutdownEndsConnectionsThatWaitAtOnce: whether they wait for the first request
// or for the next, in clear or not, a stop does not take longer for them.
func TestShutdownEndsConnectionsThatWaitAtOnce(t *testing.T) {
	srv, client := certificate(t)
	plainLn, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	tlsLn, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: 50 * time.Millisecond, Metrics: registry}))
	served := make(chan error, 2)
	go func() { served <- s.Serve(plainLn) }()
	go func() { served <- s.ServeTLS(tlsLn, srv) }()

	answered := tls.Client(dial(t, tlsLn.Addr().String()), client)
	requireServed(t, answered, goodRequest)
	kept := dial(t, plainLn.Addr().String())
	requireServed(t, kept, goodRequest)
	for _, c := range []net.Conn{dial(t, plainLn.Addr().String()), dial(t, tlsLn.Addr().String())} {
		t.Cleanup(func() { requireEnd(t, c) })
	}
	require.Eventually(t, func() bool { // or a listener that is closed would reset those that it has not taken
		return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == 4
	}, waitLimit, pollEvery)
	short, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	require.NoError(t, s.Shutdown(short), "not for as long as they may wait")
	require.NoError(t, <-served)
	require.NoError(t, <-served)
	requireEnd(t, answered)
	requireEnd(t, kept)
}

// requireEnd says that a connection was closed in order and without a word.
func requireEnd(t *testing.T, c net.Conn) {
	t.Helper()
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Empty(t, got)
}

// TestARequestThatHasBegunIsFinishedWhateverElseEnds sends the first byte of a
// request before the stop and the rest after everything that waits has ended.
func TestARequestThatHasBegunIsFinishedWhateverElseEnds(t *testing.T) {
	for name, before := range map[string]string{"the first of its connection": "", "a later one": goodRequest} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			begun := make(chan struct{}, 4)
			s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: time.Millisecond}))
			server.WatchBegin(s, func() { begun <- struct{}{} })
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()

			conn := dial(t, ln.Addr().String())
			if before != "" {
				requireServed(t, conn, before)
				<-begun
			}
			_, err = io.WriteString(conn, goodRequest[:1])
			require.NoError(t, err)
			<-begun
			waits := dial(t, ln.Addr().String())
			requireServed(t, waits, goodRequest)
			stopped := make(chan error, 1)
			go func() { stopped <- s.Shutdown(t.Context()) }()
			requireEnd(t, waits)
			_, err = io.WriteString(conn, goodRequest[1:])
			require.NoError(t, err)
			res := read(t, bufio.NewReader(conn), false)
			require.Equal(t, 302, res.StatusCode)
			require.True(t, res.Close)
			require.NoError(t, <-stopped)
			require.NoError(t, <-served)
		})
	}
}

// TestAStopIsSoonOverAndFailsNobodyWhoKeepsTheRules: clients ask again and again,
// with pauses, over connections that they keep. They may find one closed when they
// come back with a request, before any byte of an answer (RFC 9112, section 9.3.1),
// and then ask elsewhere; an answer that has begun is always whole.
func TestAStopIsSoonOverAndFailsNobodyWhoKeepsTheRules(t *testing.T) {
	const clients = 64
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: 20 * time.Millisecond}))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	begun := make(chan struct{}, clients)
	ended := make(chan error, clients)
	for i := range clients {
		conn := dial(t, ln.Addr().String())
		go func() { ended <- askUntilClosed(conn, time.Duration(i)*time.Millisecond, begun) }()
	}
	for range clients {
		<-begun
	}
	short, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	require.NoError(t, s.Shutdown(short))
	for range clients {
		require.NoError(t, <-ended)
	}
	require.NoError(t, <-served)
}

// askUntilClosed asks with pauses until the connection is closed in a way that the
// rules allow; any other way is an error.
func askUntilClosed(conn net.Conn, pause time.Duration, begun chan<- struct{}) error {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	tick := time.NewTicker(pause + time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n == 1 {
			begun <- struct{}{}
		}
		if _, err := io.WriteString(conn, goodRequest); err != nil {
			return nil // closed since the last answer
		}
		if _, err := r.Peek(1); err != nil && n > 0 {
			return nil // closed at the same time
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("request %d: %w", n, err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusFound {
			return fmt.Errorf("request %d: %d %w", n, res.StatusCode, err)
		}
		if res.Close {
			return nil
		}
		<-tick.C
	}
}

// gatedListener accepts connections that report when a wait for a request begins.
type gatedListener struct {
	net.Listener
	wait     func(nth int)
	held     time.Duration // for how long the last look is held up once, beyond its time
	deadline *atomic.Int64 // the last that was set, Unix nanoseconds
}

type gatedConn struct {
	net.Conn
	gate gatedListener
	nth  int
	once sync.Once
}

func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatedConn{Conn: c, gate: l}, nil
}

func (c *gatedConn) SetReadDeadline(t time.Time) error {
	c.nth++
	c.gate.wait(c.nth)
	c.gate.deadline.Store(t.UnixNano())
	err := c.Conn.SetReadDeadline(t)
	if soon := time.Until(t); soon > 0 && soon < time.Second {
		c.once.Do(func() { time.Sleep(soon + c.gate.held) })
	}
	return err
}

// TestARequestThatCameBeforeTheEndIsAnswered: what lies in the socket when a waiting
// connection is told to end was sent by a client that could not know.
func TestARequestThatCameBeforeTheEndIsAnswered(t *testing.T) {
	const firstWait, secondWait = 1, 2 // fasthttp sets a deadline for each
	for name, c := range map[string]struct {
		at   int
		held time.Duration
	}{
		"the first of its connection":           {firstWait, 10 * time.Millisecond},
		"the next":                              {secondWait, 10 * time.Millisecond},
		"the next, of one held up for a moment": {secondWait, 100 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: time.Millisecond}))
			var deadline atomic.Int64
			begun := make(chan struct{}, 2)
			server.WatchBegin(s, func() { begun <- struct{}{} })
			conn := dial(t, ln.Addr().String())
			answers := bufio.NewReader(conn)
			served := make(chan error, 1)
			go func() {
				served <- s.Serve(gatedListener{ln, func(nth int) {
					if nth == c.at {
						_, _ = io.WriteString(conn, goodRequest[:9])
						server.EndAll(s)
					}
				}, c.held, &deadline})
			}()
			if c.at == secondWait {
				_, err = io.WriteString(conn, goodRequest)
				require.NoError(t, err)
				require.Equal(t, 302, read(t, answers, false).StatusCode)
				<-begun
			}
			select {
			case <-begun:
			case <-time.After(waitLimit):
				t.Fatal("nobody looks once more")
			}
			require.Eventually(t, func() bool { return deadline.Load() > time.Now().Add(time.Second).UnixNano() }, waitLimit, pollEvery,
				"the rest has its whole time")
			_, err = io.WriteString(conn, goodRequest[9:])
			require.NoError(t, err)
			require.Equal(t, 302, read(t, answers, false).StatusCode)
			require.NoError(t, s.Shutdown(t.Context()))
			require.NoError(t, <-served)
			_, err = answers.ReadByte()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}
