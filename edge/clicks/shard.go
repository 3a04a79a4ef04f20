package clicks

import (
	"math/rand/v2"
	"sync"

	"waypost"
)

// shard is one of the places where clicks are recorded at the same time. The
// padding keeps two of them off one cache line, and off the pair that processors
// fetch together.
type shard struct {
	mu       sync.Mutex
	segment  *segment // nil until there is one
	closed   bool
	recorded uint64
	texts    texts
	_        [128]byte
}

// Record journals a click. It may be called by many goroutines at once, does not
// keep the code, does not allocate and calls neither anybody nor the system: it copies
// a record into mapped memory. A click for which there is no room is dropped and
// counted, and so is one whose code no link can have.
func (j *Journal) Record(c waypost.Click) {
	if !waypost.ValidCode(c.Code) || !j.record(&c) {
		j.dropped.Add(1)
	}
}

func (j *Journal) record(c *waypost.Click) bool {
	n := uint32(len(j.shards))
	first := rand.Uint32N(n)
	// A shard that is free is found before one is waited for, so that a link that all
	// the world clicks makes no queue.
	for i := range n {
		s := &j.shards[(first+i)%n]
		if s.mu.TryLock() && s.recordAndUnlock(j, c) {
			return true
		}
	}
	for i := range n {
		s := &j.shards[(first+i)%n]
		s.mu.Lock()
		if s.recordAndUnlock(j, c) {
			return true
		}
	}
	return false
}

// recordAndUnlock is called with the lock held.
func (s *shard) recordAndUnlock(j *Journal, c *waypost.Click) bool {
	defer s.mu.Unlock()
	for !s.closed {
		if s.segment != nil {
			if s.segment.append(c, &s.texts, j.seed) {
				s.recorded++
				return true
			}
			s.seal()
		}
		select {
		case s.segment = <-j.spares:
			s.texts.forget()
			j.takes.Add(1)
			j.signal(j.taken)
		default:
			return false
		}
	}
	return false
}

// seal lets go of the segment. The lock is held.
func (s *shard) seal() {
	if s.segment != nil {
		s.segment.done.Store(true)
		s.segment = nil
	}
}

// close makes the shard take no more.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seal()
	s.closed = true
}

// giveUp seals one certain segment, if this shard has it.
func (s *shard) giveUp(seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.segment == seg {
		s.seal()
	}
}
