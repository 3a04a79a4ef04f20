// Package pacer keeps background work from holding a processor that redirects wait for.
//
// The Go scheduler lets a goroutine run for 10 ms, and polls the network only when no
// goroutine is ready. Work that merely yields would therefore hold a single processor.
// So the work is cut into slices, and sleeps between them. With more processors, another
// one polls the network during the work.
package pacer

import (
	"runtime"
	"time"
)

const (
	slice = 100 * time.Microsecond
	rest  = 3 * slice

	// Work without a time limit takes a quarter of a processor, too. Its slices are
	// longer, because on an idle processor a sleep lasts a millisecond at least.
	longSlice = time.Millisecond
	longRest  = 3 * longSlice

	// Late work takes most of a processor, but still lets the network be polled.
	lateSlice = time.Millisecond
	lateRest  = slice

	// mostPaced is the number of processors up to which work is cut.
	mostPaced = 3

	// stepsPerLook is the number of steps for each look at the clock.
	stepsPerLook = 16
)

// Pacer paces the work of one goroutine. The zero value is ready, and its work is never
// late. A nil Pacer does nothing.
type Pacer struct {
	// Once Stop is closed, Pause returns at once, because a caller waits for the work.
	Stop <-chan struct{}

	due   time.Time // the work is late from then on; zero: never
	began time.Time // of the slice
	steps uint
}

// Begin starts a piece of work that should be done within a time.
func (p *Pacer) Begin(within time.Duration) {
	p.began = time.Now()
	p.due = p.began.Add(within)
}

// Step follows each small step, of up to some microseconds.
func (p *Pacer) Step() {
	if p == nil {
		return
	}
	if p.steps++; p.steps%stepsPerLook == 0 {
		p.Pause()
	}
}

// Pause sleeps if the slice is over.
func (p *Pacer) Pause() {
	if p == nil {
		return
	}
	now := time.Now()
	length, pause := slice, rest
	switch {
	case p.due.IsZero():
		length, pause = longSlice, longRest
	case now.After(p.due):
		length, pause = lateSlice, lateRest
	}
	switch {
	case p.began.IsZero():
		p.began = now
		return
	case now.Sub(p.began) < length:
		return
	case runtime.GOMAXPROCS(0) > mostPaced:
		p.began = now
		return
	}
	select {
	case <-p.Stop:
		return
	default:
	}
	time.Sleep(pause)
	p.began = time.Now()
}
