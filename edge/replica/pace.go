package replica

import (
	"runtime"
	"time"
)

// pacer keeps a long computation from holding a processor that redirects wait for. The
// zero pacer is ready.
//
// The Go scheduler takes a processor from a goroutine after 10 ms only. Where there is
// one processor, yielding is not enough: the scheduler looks for bytes from the network
// only when nothing else can run, so that the computation has to sleep.
type pacer struct {
	done  int       // records
	since time.Time // of the last pause
}

const (
	paceRecords = 64 // between two looks at the clock: some 100 µs
	paceRun     = time.Millisecond
	pacePause   = 500 * time.Microsecond
)

// step is called after each record.
func (p *pacer) step() {
	if p.done++; p.done%paceRecords == 0 {
		p.pause()
	}
}

// pause lets others run.
func (p *pacer) pause() {
	if runtime.GOMAXPROCS(0) > 1 {
		runtime.Gosched()
		return
	}
	switch now := time.Now(); {
	case p.since.IsZero():
		p.since = now
	case now.Sub(p.since) >= paceRun:
		time.Sleep(pacePause)
		p.since = time.Now()
	}
}

// workers bounds the goroutines that compute for a restore, and Pebble's compactions,
// while redirects are answered: half of the processors, and two at the most.
func workers() int { return min(2, max(1, runtime.NumCPU()/2)) }
