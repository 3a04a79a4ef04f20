package clicks

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"waypost"
)

// recorder records clicks: it writes each into the segment of a shard.
type recorder struct {
	spares  *spares
	shards  []shard
	seed    maphash.Seed // of the shards' texts
	dropped atomic.Uint64
	full    atomic.Bool // the last click without room found no segment ready
}

func newRecorder(b *base, s *spares) *recorder {
	return &recorder{spares: s, shards: make([]shard, b.cfg.Shards), seed: maphash.MakeSeed()}
}

// shard is one of the places where clicks are recorded at the same time. The padding
// keeps two of them off one cache line, and off the pair that processors fetch together.
type shard struct {
	mu       sync.Mutex
	segment  *segment // nil until there is one
	closed   bool
	recorded uint64
	texts    texts
	_        [128]byte
}

// Record journals a click. Many goroutines may call it at once. It does not keep the
// code, does not allocate and makes no system call: it copies a record into mapped
// memory. A click is dropped and counted if there is no room for it, or no link can have
// its code.
func (j *Journal) Record(c waypost.Click) {
	if !waypost.ValidCode(c.Code) || !j.recorder.record(&c) {
		j.recorder.dropped.Add(1)
	}
}

// Takes reports whether there was room for every click lately, or there is again.
func (j *Journal) Takes() bool {
	r := j.recorder
	if !r.full.Load() {
		return true
	}
	if len(r.spares.ready) == 0 {
		return false
	}
	r.full.Store(false)
	return true
}

func (r *recorder) record(c *waypost.Click) bool {
	n := uint32(len(r.shards))
	first := rand.Uint32N(n)
	// A free shard is preferred to waiting for one, so that a link that everybody clicks
	// makes no queue.
	for i := range n {
		s := &r.shards[(first+i)%n]
		if s.mu.TryLock() && s.recordAndUnlock(r, c) {
			return true
		}
	}
	for i := range n {
		s := &r.shards[(first+i)%n]
		s.mu.Lock()
		if s.recordAndUnlock(r, c) {
			return true
		}
	}
	r.full.Store(true)
	return false
}

// recordAndUnlock is called with the lock held.
func (s *shard) recordAndUnlock(r *recorder, c *waypost.Click) bool {
	defer s.mu.Unlock()
	for !s.closed {
		if s.segment != nil {
			if s.segment.append(c, &s.texts, r.seed) {
				s.recorded++
				return true
			}
			s.seal()
		}
		if s.segment = r.spares.takeSegment(); s.segment == nil {
			return false
		}
		s.texts.forget()
	}
	return false
}

// seal releases the segment. The lock is held.
func (s *shard) seal() {
	if s.segment != nil {
		s.segment.done.Store(true)
		s.segment = nil
	}
}

// close makes the shards refuse further clicks.
func (r *recorder) close() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.seal()
		s.closed = true
		s.mu.Unlock()
	}
}

// giveUp seals one segment, if a shard has it.
func (r *recorder) giveUp(seg *segment) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		if s.segment == seg {
			s.seal()
		}
		s.mu.Unlock()
	}
}

// recorded counts the clicks since the journal was opened.
func (r *recorder) recorded() uint64 {
	var sum uint64
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		sum += s.recorded
		s.mu.Unlock()
	}
	return sum
}
