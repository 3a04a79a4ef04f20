// Package cache keeps answers of a database for a second, so that many callers ask once.
package cache

import (
	"sync"
	"time"
)

// Times and bounds of a cache.
const (
	validFor   = time.Second  // for which an answer of the database is used
	renewAfter = validFor / 2 // after which one caller asks the database again
	maxKeys    = 10_000       // keys
)

// Cache holds answers of the database for validFor. Before an answer expires, one caller
// asks the database again while the other callers use the cached answer (refresh-ahead),
// so that they do not all ask at its expiry. The zero value is ready.
type Cache[K comparable, V any] struct {
	mu       sync.Mutex
	entries  map[K]cached[V] // bounded by maxKeys
	clearing int             // how often the cache was cleared
}

type cached[V any] struct {
	value   V
	asked   time.Time
	renewed bool // a caller is asking again, or has failed to
}

// Get returns the cached value of a key, or the answer of ask. It does not cache the
// answer when ask returns false. It returns an error of ask only after the cached value
// has expired.
func (c *Cache[K, V]) Get(key K, now time.Time, ask func() (V, bool, error)) (V, bool, error) {
	value, left, renew, clearing := c.lookUp(key, now)
	if left > 0 && !renew {
		return value, true, nil
	}
	began := time.Now()
	answer, ok, err := ask()
	switch {
	case err != nil && time.Since(began) < left:
		return value, true, nil //nolint:nilerr // the cached value will do
	case err == nil:
		c.put(key, answer, ok, now, clearing)
	}
	return answer, ok, err
}

// lookUp returns a cached value, the time for which it is valid, and whether the caller
// is to ask again. Clearing is an argument of put.
func (c *Cache[K, V]) lookUp(key K, now time.Time) (value V, left time.Duration, renew bool, clearing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	age := now.Sub(e.asked)
	if ok && age > -validFor { // otherwise the clock was set back
		left = max(0, validFor-age)
	}
	if renew = left > 0 && age >= renewAfter && !e.renewed; renew {
		e.renewed = true
		c.entries[key] = e
	}
	return e.value, left, renew, c.clearing
}

// put caches an answer, unless the cache was cleared after the question was asked. An
// answer that is not ok removes the key.
func (c *Cache[K, V]) put(key K, value V, ok bool, asked time.Time, clearing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if clearing != c.clearing {
		return
	}
	if !ok {
		delete(c.entries, key)
		return
	}
	if c.entries == nil || len(c.entries) >= maxKeys {
		c.entries = make(map[K]cached[V])
	}
	c.entries[key] = cached[V]{value: value, asked: asked}
}

// Clear forgets all answers, also answers that are under way.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
	c.clearing++
}
