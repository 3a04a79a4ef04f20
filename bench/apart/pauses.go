//go:build linux

package apart

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Pauses are times in which a thread that never sleeps did not run.
type Pauses struct {
	Part    float64 // of the time, 0 to 1
	Longest time.Duration
}

func (p Pauses) String() string {
	return fmt.Sprintf("%.1f %%, longest %.1f ms", 100*p.Part, float64(p.Longest.Microseconds())/1e3)
}

// pause is from when on it is one: shorter ones are interrupts.
const pause = 500 * time.Microsecond

// Pauses has a thread on one processor of each half do nothing but read the clock for some time, and tells how long it was kept from
// that: by other programs, or by whatever lends this machine its processors. No server there can have better latencies than
// these leave it.
func (h Halves) Pauses(during time.Duration) (server, client Pauses, err error) {
	if !h.Apart() { // two threads on one processor would be each other's pauses
		server, err = pauses(&h.server, during)
		return server, server, err
	}
	clients := make(chan error, 1)
	go func() {
		var err error
		client, err = pauses(&h.client, during)
		clients <- err
	}()
	server, err = pauses(&h.server, during)
	return server, client, errors.Join(err, <-clients)
}

func pauses(of *unix.CPUSet, during time.Duration) (p Pauses, err error) {
	var first unix.CPUSet
	for cpu := 0; first.Count() == 0; cpu++ {
		if of.IsSet(cpu) {
			first.Set(cpu)
		}
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with it
		if err := unix.SchedSetaffinity(0, &first); err != nil {
			done <- fmt.Errorf("choosing a processor: %w", err)
			return
		}
		var missed time.Duration
		start := time.Now()
		for last := time.Duration(0); last < during; {
			now := time.Since(start)
			if d := now - last; d > pause {
				missed += d
				p.Longest = max(p.Longest, d)
			}
			last = now
		}
		p.Part = float64(missed) / float64(time.Since(start))
		done <- nil
	}()
	err = <-done
	return p, err
}
