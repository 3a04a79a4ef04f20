package aside

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
