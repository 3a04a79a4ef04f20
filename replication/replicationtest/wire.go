package replicationtest

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Wire is a TCP proxy that can be cut, lose bytes and be slow.
type Wire struct {
	ln      net.Listener
	backend func() string
	work    sync.WaitGroup

	mu      sync.Mutex
	cut     bool
	deaf    bool // what the backend sends is lost
	mute    bool // what clients send is lost
	quality Quality
	conns   map[net.Conn]struct{}
}

// Quality says how a wire carries bytes. Zero is as fast as they come.
type Quality struct {
	Delay    time.Duration // of each piece that arrives
	Rate     int           // bytes per second of a connection in one direction; 0: no limit
	CutAfter int           // a connection ends at random within that many bytes; 0: it does not
}

// NewWire listens on an address of its own and forwards each connection to backend's
// address, HOST:PORT or the path of a socket, until the test ends.
func NewWire(t testing.TB, backend func() string) *Wire {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{ln: ln, backend: backend, conns: map[net.Conn]struct{}{}}
	w.work.Go(w.accept)
	t.Cleanup(func() {
		_ = ln.Close() // it ends accept
		w.Cut()
		w.work.Wait()
	})
	return w
}

// Addr returns the address of the wire, HOST:PORT, and URL the same as a base URL.
func (w *Wire) Addr() string { return w.ln.Addr().String() }

// URL is Addr as a base URL.
func (w *Wire) URL() string { return "http://" + w.Addr() }

// Cut ends all connections, and lets none through until Mend.
func (w *Wire) Cut() { w.closeConn(true) }

// Break ends all connections; new ones are let through.
func (w *Wire) Break() { w.closeConn(false) }

// Deafen loses all that the backend sends, also on new connections, until Mend. No
// connection ends.
func (w *Wire) Deafen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = true
}

// Silence loses all that either side sends, also on new connections, until Mend. No
// connection ends.
func (w *Wire) Silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf, w.mute = true, true
}

// Degrade carries bytes with a quality from now on, until Mend.
func (w *Wire) Degrade(q Quality) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quality = q
}

// Mend lets connections through again, as fast as they come. Connections that have lost
// bytes end.
func (w *Wire) Mend() {
	w.mu.Lock()
	lost := w.deaf || w.mute
	w.cut, w.deaf, w.mute, w.quality = false, false, false, Quality{}
	w.mu.Unlock()
	if lost {
		w.Break()
	}
}

// now returns the present quality for bytes of one direction, and whether they are lost.
func (w *Wire) now(toBackend bool) (q Quality, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if toBackend {
		return w.quality, w.mute
	}
	return w.quality, w.deaf
}

func (w *Wire) closeConn(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = w.cut || cut
	for c := range w.conns {
		_ = c.Close() // its user notices
	}
}

func (w *Wire) accept() {
	for {
		c, err := w.ln.Accept()
		if err != nil {
			return
		}
		w.work.Go(func() { w.carry(c) })
	}
}

// hold registers a connection so that it can be cut. It closes the connection and returns
// false when the wire is cut already.
func (w *Wire) hold(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = c.Close()
		return false
	}
	w.conns[c] = struct{}{}
	return true
}

func (w *Wire) release(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	_ = c.Close()
}

func (w *Wire) carry(c net.Conn) {
	if !w.hold(c) {
		return
	}
	defer w.release(c)
	network, at := "tcp", w.backend()
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	to, err := (&net.Dialer{}).DialContext(context.Background(), network, at)
	if err != nil {
		return
	}
	if !w.hold(to) {
		return
	}
	defer w.release(to)
	var passed atomic.Int64 // bytes in both directions since the wire cuts connections
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.copy(to, c, true, &passed) // an end of either is the end of both
		_ = to.Close()
	}()
	w.copy(c, to, false, &passed)
	_ = c.Close()
	<-done
}

// copy carries bytes in one direction until the connection ends.
func (w *Wire) copy(to, from net.Conn, toBackend bool, passed *atomic.Int64) {
	buffer := make([]byte, 32<<10)
	end := rand.Float64() // where the connection is cut, as a share of CutAfter
	for {
		n, err := from.Read(buffer)
		for piece := buffer[:n]; len(piece) > 0; {
			q, lost := w.now(toBackend)
			if lost {
				break
			}
			part := piece
			if q.Rate > 0 {
				part = piece[:min(len(piece), max(1, q.Rate/20))]
			}
			if q.CutAfter > 0 {
				left := int64(end*float64(q.CutAfter)) - passed.Load()
				if left <= 0 {
					return
				}
				part = part[:min(int64(len(part)), left)]
				passed.Add(int64(len(part)))
			}
			pause := q.Delay
			if q.Rate > 0 {
				pause += time.Duration(len(part)) * time.Second / time.Duration(q.Rate)
			}
			if pause > 0 {
				time.Sleep(pause) // as a slow wire does
			}
			if _, err := to.Write(part); err != nil {
				return
			}
			piece = piece[len(part):]
		}
		if err != nil {
			return
		}
	}
}
