package clicks

import (
	"runtime"
	"slices"
	"time"
)

// Background work on clicks shares the processors with redirects. The Go scheduler lets a
// goroutine run for 10 ms, and polls the network only when no goroutine is ready. Work
// that merely yields would therefore hold a single processor. So the work is cut into
// slices, and sleeps between them. With more processors, another one polls the network
// meanwhile.
const (
	workSlice = 100 * time.Microsecond
	workRest  = 3 * workSlice

	// mostPaced is the number of processors up to which work is cut.
	mostPaced = 3

	// Late work takes most of a processor, but still lets the network be polled.
	lateSlice = time.Millisecond
	lateRest  = workSlice
)

// pacer cuts the work of one goroutine into slices. A nil pacer does nothing.
type pacer struct {
	stop  <-chan struct{} // closed: a caller waits for the work, so it takes no rests
	due   time.Time       // the work is late from then on
	began time.Time       // of the slice
	whole bool            // there are enough processors
	steps uint
}

// begin starts a piece of work that should be done within a time.
func (p *pacer) begin(within time.Duration) {
	p.began = time.Now()
	p.due = p.began.Add(within)
	p.whole = runtime.GOMAXPROCS(0) > mostPaced
}

// step follows each small step, of up to some microseconds.
func (p *pacer) step() {
	const perLook = 16 // steps for each look at the clock
	if p == nil {
		return
	}
	if p.steps++; p.steps%perLook == 0 {
		p.pause()
	}
}

// pause sleeps if the slice is over.
func (p *pacer) pause() {
	if p == nil || p.whole {
		return
	}
	now := time.Now()
	length, rest := workSlice, workRest
	if now.After(p.due) {
		length, rest = lateSlice, lateRest
	}
	if now.Sub(p.began) < length {
		return
	}
	select {
	case <-p.stop:
		return
	default:
	}
	time.Sleep(rest)
	p.began = time.Now()
}

// sortPaced sorts s. Scratch is memory for at least as many elements.
func sortPaced[T any](p *pacer, s, scratch []T, compare func(a, b T) int) {
	const run = 256
	for i := 0; i < len(s); i += run {
		slices.SortFunc(s[i:min(i+run, len(s))], compare)
		p.pause()
	}
	from, to := s, scratch[:len(s)]
	for width := run; width < len(s); width *= 2 {
		for i := 0; i < len(s); i += 2 * width {
			middle, end := min(i+width, len(s)), min(i+2*width, len(s))
			mergeRuns(p, to[i:end], from[i:middle], from[middle:end], compare)
		}
		from, to = to, from
	}
	if len(s) > 0 && &from[0] != &s[0] {
		copy(s, from)
	}
}

// mergeRuns merges two sorted runs into dst.
func mergeRuns[T any](p *pacer, dst, a, b []T, compare func(a, b T) int) {
	for i := range dst {
		if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
			dst[i], a = a[0], a[1:]
		} else {
			dst[i], b = b[0], b[1:]
		}
		p.step()
	}
}
