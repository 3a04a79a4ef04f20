package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/time/rate"
)

// health records the failures of one store. The first lasting failure stays until the
// store is replaced, a damaged record until a repair, and a passing failure until a
// background write succeeds. Any goroutine may use it.
type health struct {
	log        *slog.Logger
	mu         sync.Mutex // held while the first lasting failure is set
	lasting    atomic.Pointer[failure]
	rotten     atomic.Pointer[failure] // damaged or missing records in intact files
	passing    atomic.Pointer[failure]
	broken     chan struct{} // closed at the first lasting failure
	logLimiter *rate.Limiter
	moved      chan struct{} // gets a token when a flush or compaction ends
}

// failure is the reason why a store takes no writes.
type failure struct {
	err     error
	corrupt bool // bytes on disk are damaged
}

func newHealth(log *slog.Logger) *health {
	return &health{log: log, broken: make(chan struct{}), moved: make(chan struct{}, 1), logLimiter: oneASecond()}
}

// current returns the present failure, or nil.
func (h *health) current() *failure {
	if f := h.failed(); f != nil {
		return f
	}
	return h.passing.Load()
}

// failed returns the failure that does not pass alone, or nil.
func (h *health) failed() *failure {
	if f := h.lasting.Load(); f != nil {
		return f
	}
	return h.rotten.Load()
}

// damaged reports whether bytes on disk are damaged, or records missing.
func (h *health) damaged() bool {
	f := h.lasting.Load()
	return f != nil && f.corrupt || h.rotten.Load() != nil
}

// rot records damaged or missing records in intact files.
func (h *health) rot(err error) {
	if h.rotten.CompareAndSwap(nil, &failure{err: err, corrupt: true}) {
		h.log.Error("found damage in the replica; serving it until it is repaired", "error", err)
	}
}

func (h *health) err() error {
	if f := h.current(); f != nil {
		return f.err
	}
	return nil
}

// fail records a lasting failure. Apart from the log it does no I/O.
func (h *health) fail(err error, corrupt bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lasting.Load() != nil {
		return
	}
	h.lasting.Store(&failure{err: err, corrupt: corrupt})
	close(h.broken)
	h.log.Error("refusing changes because the replica is degraded; serving reads", "error", err, "corrupt", corrupt)
}

func (h *health) step() {
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// listener watches Pebble's background work, and counts the written bytes. Without its
// own DataCorruption, Pebble would end the process.
func (h *health) listener(m *metrics) *pebble.EventListener {
	ended := func(err error) {
		if err == nil && h.passing.Swap(nil) != nil {
			h.log.Info("recovered from failed background writes")
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
			if h.logLimiter.Allow() {
				h.log.Error("retrying a background write that failed", "error", err)
			}
			h.step()
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			h.fail(fmt.Errorf("data corruption in %s: %w", info.Path, info.Details), true)
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				m.wrote(info.Output)
			}
			ended(info.Err)
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err == nil && info.Reason != "move" { // a move changes only the level of a table
				m.wrote(info.Output.Tables)
			}
			ended(info.Err)
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			if h.logLimiter.Allow() {
				h.log.Warn("waiting for a slow disk", "detail", info.String())
			}
		},
	}
}

// logger takes Pebble's log lines. Its Fatalf does not end the process: Pebble continues
// after it, and the store takes no further write.
type logger struct{ health *health }

var errFatal = errors.New("pebble cannot go on")

func (l logger) Infof(format string, args ...any) {
	l.health.log.Debug("pebble", "detail", fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	if l.health.logLimiter.Allow() {
		l.health.log.Warn("received an error from Pebble", "detail", fmt.Sprintf(format, args...))
	}
}

func (l logger) Fatalf(format string, args ...any) {
	l.health.fail(fmt.Errorf("%w: %s", errFatal, fmt.Sprintf(format, args...)), false)
}

// oneASecond limits lines of the log.
func oneASecond() *rate.Limiter { return rate.NewLimiter(1, 1) }
