package aside

import "time"

// Besides is how much room there is beside that of threads.
func Besides(processors int) int { return besides(processors) }

// Linger has room be kept for a time that nobody needs any more, and gives what ends that.
func Linger(d time.Duration) (end func()) {
	room.Lock()
	defer room.Unlock()
	room.linger = d
	return func() {
		room.Lock()
		defer room.Unlock()
		room.linger = linger
	}
}

// TakeBack ends the room at once, as it ends by itself after a while.
func TakeBack() { takeBack() }

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
