package audience

// cache is a bounded map of texts, by bytes. When the young half is full it becomes the
// old one, and entries that were not used since are forgotten. One goroutine uses the
// cache.
type cache struct {
	half       int // entries
	young, old map[string]string
}

func newCache(entries int) *cache {
	return &cache{half: entries / 2, young: map[string]string{}}
}

// get allocates only when it moves an entry to the young half.
func (c *cache) get(key []byte) (v string, ok bool) {
	if v, ok = c.young[string(key)]; ok {
		return v, true
	}
	if v, ok = c.old[string(key)]; ok {
		c.put(key, v)
		return v, true
	}
	return v, false
}

func (c *cache) put(key []byte, v string) {
	if len(c.young) >= c.half {
		c.old, c.young = c.young, make(map[string]string, c.half)
	}
	c.young[string(key)] = v
}
