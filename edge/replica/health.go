package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// health is what has gone wrong with one store. The first lasting failure stays
// until the store is replaced; a passing one until a background write succeeds.
type health struct {
	log     *slog.Logger
	mu      sync.Mutex
	lasting atomic.Pointer[failure]
	rotten  atomic.Pointer[failure] // a record that is not what was written; a repair heals it
	passing atomic.Pointer[failure]
	broken  chan struct{} // closed at the first lasting failure
	noise   limiter
	moved   chan struct{} // gets a token when a flush or compaction ends
}

// failure is one thing that went wrong.
type failure struct {
	err     error
	corrupt bool // bytes on disk are not what was written
}

func newHealth(log *slog.Logger) *health {
	return &health{log: log, broken: make(chan struct{}), moved: make(chan struct{}, 1)}
}

// current is what keeps the store from taking writes, or nil.
func (h *health) current() *failure {
	if f := h.failed(); f != nil {
		return f
	}
	return h.passing.Load()
}

// failed is what does not pass by itself, or nil.
func (h *health) failed() *failure {
	if f := h.lasting.Load(); f != nil {
		return f
	}
	return h.rotten.Load()
}

// rot notes that a record is not what was written, in files that are sound.
func (h *health) rot(err error) {
	if h.rotten.CompareAndSwap(nil, &failure{err: err, corrupt: true}) {
		h.log.Error("a record of the replica is not what was written: it waits for a repair, and serves the others", "error", err)
	}
}

func (h *health) err() error {
	if f := h.current(); f != nil {
		return f.err
	}
	return nil
}

// fail notes a lasting failure. It does no I/O but for the log, and may be called
// from anywhere.
func (h *health) fail(err error, corrupt bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lasting.Load() != nil {
		return
	}
	h.lasting.Store(&failure{err: err, corrupt: corrupt})
	close(h.broken)
	h.log.Error("the replica is degraded: it serves reads and takes no changes", "error", err, "corrupt", corrupt)
}

func (h *health) step() {
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// listener hears of Pebble's background work. Without DataCorruption of our own,
// Pebble would end the process. What is written is counted.
func (h *health) listener(m *metrics) *pebble.EventListener {
	ended := func(err error) {
		if err == nil && h.passing.Swap(nil) != nil {
			h.log.Info("background writes succeed again")
		}
		h.step()
	}
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if pebble.IsCorruptionError(err) {
				h.fail(fmt.Errorf("background work: %w", err), true)
				return
			}
			h.passing.Store(&failure{err: fmt.Errorf("background write: %w", err)})
			if h.noise.allow() {
				h.log.Error("a background write failed and is tried again", "error", err)
			}
			h.step()
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			h.fail(fmt.Errorf("data corruption in %s: %w", info.Path, info.Details), true)
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				m.flushes.Inc()
				m.wrote(info.Output)
			}
			ended(info.Err)
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err == nil && info.Reason != "move" { // which only gives tables another level
				m.compactions.Inc()
				m.wrote(info.Output.Tables)
			}
			ended(info.Err)
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			if h.noise.allow() {
				h.log.Warn("the disk is slow", "detail", info.String())
			}
		},
	}
}

// logger takes Pebble's log lines. Its Fatalf does not end the process: Pebble
// goes on after it, and the store takes no further write.
type logger struct{ health *health }

var errFatal = errors.New("pebble cannot go on")

func (l logger) Infof(format string, args ...any) {
	l.health.log.Debug("pebble", "detail", fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	if l.health.noise.allow() {
		l.health.log.Warn("pebble reports an error", "detail", fmt.Sprintf(format, args...))
	}
}

func (l logger) Fatalf(format string, args ...any) {
	l.health.fail(fmt.Errorf("%w: %s", errFatal, fmt.Sprintf(format, args...)), false)
}

// limiter allows one thing a second.
type limiter struct{ last atomic.Int64 }

func (l *limiter) allow() bool {
	now := time.Now().UnixNano()
	last := l.last.Load()
	return now-last >= int64(time.Second) && l.last.CompareAndSwap(last, now)
}
