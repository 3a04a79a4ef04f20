package aside

import "time"

// Few is up to how many processors Briefly does something.
const Few = few

// Besides is how much room there is beside that of threads.
func Besides(processors int) int { return besides(processors) }

// Linger has room be kept for a time that nobody needs any more, and gives what ends that.
func Linger(d time.Duration) (end func()) {
	room.Lock()
	defer room.Unlock()
	room.linger, room.briefly = d, d
	return func() {
		room.Lock()
		defer room.Unlock()
		room.linger, room.briefly = linger, lingerBriefly
	}
}

// LingerBriefly is Linger for what has room briefly.
func LingerBriefly(d time.Duration) (end func()) {
	room.Lock()
	defer room.Unlock()
	room.briefly = d
	return func() {
		room.Lock()
		defer room.Unlock()
		room.briefly = lingerBriefly
	}
}

// TakeBack ends the room that nobody uses at once, as it ends by itself after a while.
func TakeBack() {
	room.Lock()
	room.until = time.Time{}
	room.Unlock()
	change()
}

// TakeBackWhatIsOver ends it if it was kept for long enough.
func TakeBackWhatIsOver() { change() }

// Rest has the worker's thread end, as it does after a while without work.
func (w *Worker) Rest() {
	w.mu.Lock()
	ended := w.ended
	if w.jobs != nil {
		close(w.jobs)
		w.jobs = nil
	}
	w.mu.Unlock()
	if ended != nil {
		<-ended
	}
}
