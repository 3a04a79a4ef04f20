package audience

import "sync/atomic"

// cache is a bounded map by bytes. When the young half is full it becomes the old one,
// and entries that were not used since are forgotten. One goroutine uses the cache;
// others read the counts.
type cache[V any] struct {
	half         int // entries
	young, old   map[string]V
	hits, misses atomic.Uint64
}

func newCache[V any](entries int) *cache[V] {
	return &cache[V]{half: entries / 2, young: map[string]V{}}
}

// get allocates only when it moves an entry to the young half.
func (c *cache[V]) get(key []byte) (v V, ok bool) {
	if v, ok = c.young[string(key)]; ok {
		c.hits.Add(1)
		return v, true
	}
	if v, ok = c.old[string(key)]; ok {
		c.hits.Add(1)
		c.put(key, v)
		return v, true
	}
	c.misses.Add(1)
	return v, false
}

func (c *cache[V]) put(key []byte, v V) {
	if len(c.young) >= c.half {
		c.old, c.young = c.young, make(map[string]V, c.half)
	}
	c.young[string(key)] = v
}
