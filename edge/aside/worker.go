package aside

import (
	"sync"
	"time"
)

// Worker does one thing after the other on a thread that stands aside, with room made for it. It has the thread
// only while there is something to do, and for a while longer. The zero Worker is ready.
type Worker struct {
	mu     sync.Mutex    // held by whoever has something done
	jobs   chan func()   // nil: there is no thread
	did    chan struct{} // has a token when a job is done
	ended  chan struct{} // closed when the thread has ended
	closed bool
}

// Do returns when do has. After Close it does it where it is called.
func (w *Worker) Do(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		do()
		return
	}
	if w.jobs == nil {
		w.jobs, w.did, w.ended = make(chan func()), make(chan struct{}), make(chan struct{})
		go w.work(w.jobs, w.did, w.ended)
	}
	w.jobs <- do
	<-w.did
}

// Close ends the thread, and waits for that.
func (w *Worker) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.jobs != nil {
		close(w.jobs)
		<-w.ended
		w.jobs = nil
	}
}

func (w *Worker) work(jobs <-chan func(), did chan<- struct{}, ended chan<- struct{}) {
	defer close(ended)
	defer MakeRoom(1)()
	Thread()
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		select {
		case do, ok := <-jobs:
			if !ok {
				return
			}
			do()
			did <- struct{}{}
			idle.Reset(linger)
		case <-idle.C:
			if w.rest() {
				return
			}
			idle.Reset(linger)
		}
	}
}

// rest ends the thread's time, unless somebody comes just now.
func (w *Worker) rest() bool {
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	w.jobs = nil
	return true
}
