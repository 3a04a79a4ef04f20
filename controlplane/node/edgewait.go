package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waypost/controlplane"
)

// edgeWait holds keys back after a start until an edge has reported its position in the
// changelog. If the disk of PostgreSQL went back in time, the disk with this control
// plane's memory may have gone back with it, and then only edges know. It may be used by
// many goroutines.
type edgeWait struct {
	enough chan struct{} // closed when keys may be issued

	mu      sync.Mutex
	unheard map[string]bool // edges that PostgreSQL knows and that have not connected yet; nil when it is enough
}

// longestEdgeWait is the time after which keys are issued although no edge has told its
// position.
const longestEdgeWait = 10 * time.Second

// newEdgeWait waits for the edges that PostgreSQL knows. If it knows no edge, keys may be
// issued at once.
func newEdgeWait(known []controlplane.EdgeProgress) *edgeWait {
	w := &edgeWait{enough: make(chan struct{}), unheard: make(map[string]bool)}
	for i := range known {
		if k := &known[i]; k.Region != "" && !k.Left { // otherwise only clicks of it are known
			w.unheard[k.Node] = true
		}
	}
	if len(w.unheard) == 0 {
		w.release()
	}
	return w
}

// heard notes that an edge has connected. An edge that has told its position ends the
// wait. Edges without a position, for example with a new disk, end it once all known
// edges have connected.
func (w *edgeWait) heard(node string, told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unheard, node)
	if told || len(w.unheard) == 0 {
		w.release()
	}
}

// release lets keys be issued. The caller holds w.mu, unless no other goroutine has w
// yet.
func (w *edgeWait) release() {
	select {
	case <-w.enough:
	default:
		close(w.enough)
	}
}

// run ends the wait after longestEdgeWait.
func (w *edgeWait) run(ctx context.Context, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-w.enough:
		return
	case <-time.After(longestEdgeWait):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	log.Warn("issuing keys before any edge has told its position", "waited", longestEdgeWait, "edges", len(w.unheard))
	w.release()
}
