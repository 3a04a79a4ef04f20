// Package semaphore shares a resource among keys such as workspaces and networks.
package semaphore

import (
	"context"
	"slices"
	"sync"
)

// Keyed is a semaphore in which one key holds at most its share, so that the key leaves
// the rest to others. Its memory is bounded by the permits that are held and waited for.
// Its methods may be called by many goroutines at once.
type Keyed[K comparable] struct {
	all, each int

	mu      sync.Mutex
	used    int
	held    map[K]int    // has no zeros
	waiting []*waiter[K] // by rising round
	round   uint64       // the latest one with a waiter that got its permit
}

// waiter waits for a permit in a round, in which each key has one waiter at most.
type waiter[K comparable] struct {
	key     K
	round   uint64
	granted chan struct{} // closed when the waiter has its permit
}

// NewKeyed returns a semaphore of size all in which one key holds at most each.
func NewKeyed[K comparable](all, each int) *Keyed[K] {
	return &Keyed[K]{all: all, each: each, held: make(map[K]int)}
}

// TryAcquire acquires n permits for a key, or none and reports false if the semaphore or
// the key's share has fewer left. The caller releases them.
func (s *Keyed[K]) TryAcquire(key K, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquire(key, n)
}

func (s *Keyed[K]) acquire(key K, n int) bool {
	if s.used+n > s.all || s.held[key]+n > s.each {
		return false
	}
	s.used += n
	s.held[key] += n
	return true
}

// Acquire waits for one permit for a key, and reports false if ctx ends before. Keys that
// wait are served in turns, so that a key with many waiters delays another key by one of
// them at a time. The caller releases the permit.
func (s *Keyed[K]) Acquire(ctx context.Context, key K) bool {
	s.mu.Lock()
	if s.acquire(key, 1) {
		s.mu.Unlock()
		return true
	}
	w := s.enqueue(key)
	s.mu.Unlock()
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return false
	}
	return true // granted at the last moment
}

func (s *Keyed[K]) enqueue(key K) *waiter[K] {
	w := &waiter[K]{key: key, round: s.round, granted: make(chan struct{})}
	for _, other := range s.waiting {
		if other.key == key {
			w.round = max(w.round, other.round+1)
		}
	}
	at := len(s.waiting)
	for at > 0 && s.waiting[at-1].round > w.round {
		at--
	}
	s.waiting = slices.Insert(s.waiting, at, w)
	return w
}

// Release releases n permits of a key.
func (s *Keyed[K]) Release(key K, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.held[key] -= n; s.held[key] == 0 {
		delete(s.held, key)
	}
	for i := 0; i < len(s.waiting) && s.used < s.all; {
		if w := s.waiting[i]; s.acquire(w.key, 1) {
			close(w.granted)
			s.round = max(s.round, w.round)
			s.waiting = slices.Delete(s.waiting, i, i+1)
		} else {
			i++
		}
	}
}

// Held returns how many permits are held.
func (s *Keyed[K]) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
