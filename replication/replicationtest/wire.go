package replicationtest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Wire is a TCP proxy that can be cut.
type Wire struct {
	ln      net.Listener
	backend func() string
	work    sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	deaf  bool
	conns map[net.Conn]struct{}
}

// NewWire listens on an address of its own and forwards each connection to backend's
// address, until the test ends.
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
func (w *Wire) Cut() { w.end(true) }

// Break ends all connections; new ones are let through.
func (w *Wire) Break() { w.end(false) }

// Deafen loses all that the backend sends, also on new connections, until Mend. No
// connection ends.
func (w *Wire) Deafen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = true
}

// Mend lets connections through again. Those that have lost something end.
func (w *Wire) Mend() {
	w.mu.Lock()
	deaf := w.deaf
	w.cut, w.deaf = false, false
	w.mu.Unlock()
	if deaf {
		w.Break()
	}
}

// heard passes on what the backend sends to a client.
type heard struct {
	w      *Wire
	client net.Conn
}

// Write implements [io.Writer].
func (h heard) Write(b []byte) (int, error) {
	h.w.mu.Lock()
	deaf := h.w.deaf
	h.w.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return h.client.Write(b)
}

func (w *Wire) end(cut bool) {
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

// hold adds a connection to those that can be cut, and returns false when it is cut
// already.
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
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.backend())
	if err != nil {
		return
	}
	if !w.hold(to) {
		return
	}
	defer w.release(to)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, c) // an end of either is the end of both
		_ = to.Close()
	}()
	_, _ = io.Copy(heard{w, c}, to)
	_ = c.Close()
	<-done
}
