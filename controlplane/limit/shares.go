package limit

import (
	"context"
	"slices"
	"sync"
)

// Shares divides a stock, of places or of bytes, among keys such as workspaces. A key
// that has used its share takes nothing from the others. Its methods may be called by
// many goroutines at once.
type Shares[K comparable] struct {
	all, each int

	mu      sync.Mutex
	used    int
	of      map[K]int // has no zeros
	waiting []*claim[K]
}

// claim is one that waits.
type claim[K comparable] struct {
	key     K
	granted chan struct{} // closed when it is
}

// NewShares divides all so that a key has at most each.
func NewShares[K comparable](all, each int) *Shares[K] {
	return &Shares[K]{all: all, each: each, of: make(map[K]int)}
}

// TryTake takes n for a key, and reports false if its share or the stock has less. The
// caller returns it.
func (s *Shares[K]) TryTake(key K, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takePlaces(key, n)
}

func (s *Shares[K]) takePlaces(key K, n int) bool {
	if s.used+n > s.all || s.of[key]+n > s.each {
		return false
	}
	s.used += n
	s.of[key] += n
	return true
}

// Take takes one for a key as soon as there is one, and reports false when ctx has ended
// before. The caller returns it.
func (s *Shares[K]) Take(ctx context.Context, key K) bool {
	s.mu.Lock()
	if s.takePlaces(key, 1) {
		s.mu.Unlock()
		return true
	}
	c := &claim[K]{key: key, granted: make(chan struct{})}
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	select {
	case <-c.granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, c); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return false
	}
	return true // granted at the last moment
}

// Return returns n of a key.
func (s *Shares[K]) Return(key K, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.of[key] -= n; s.of[key] == 0 {
		delete(s.of, key)
	}
	for i := 0; i < len(s.waiting) && n > 0; {
		c := s.waiting[i]
		if !s.takePlaces(c.key, 1) {
			i++
			continue
		}
		close(c.granted)
		s.waiting = slices.Delete(s.waiting, i, i+1)
		n-- // none of the others can have more than was returned
	}
}
