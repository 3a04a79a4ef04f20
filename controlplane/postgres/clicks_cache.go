package postgres

import (
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"waypost"
)

// linkCache remembers which links the codes of clicks name, so that PostgreSQL is not asked
// for the same ones with every batch. A code never names another link, but links are purged: so
// nothing is remembered for longer than two cacheAges. It grows to 64 MiB, two million links, and
// forgets some then. The zero value is empty.
type linkCache struct {
	mu   sync.Mutex
	seed maphash.Seed
	sets [][cacheWays]cachedLink // a power of two
	held int
	made time.Time // when there was nothing in it
}

const (
	cacheWays = 4
	cacheAge  = 10 * time.Minute
	cacheLife = 24 * time.Hour // until all is forgotten: ages come again after 42 hours

	// A table is half full before it grows.
	firstCacheSets, mostCacheSets = 1 << 8, 1 << 19
)

// cacheKey is a domain, a code and its length. Longer codes are not remembered; those
// that are generated are not longer.
type cacheKey [15]byte

const longestCached = len(cacheKey{}) - 5

type cachedLink struct {
	key cacheKey
	age uint8 // cacheAges since 1970, modulo 256
	target
}

func cacheKeyOf(l *waypost.LinkClicks) (k cacheKey, ok bool) {
	if len(l.Code) > longestCached {
		return k, false
	}
	binary.LittleEndian.PutUint32(k[:], uint32(l.Domain))
	k[4] = byte(len(l.Code))
	copy(k[5:], l.Code)
	return k, true
}

func ageOf(now time.Time) uint8 { return uint8(now.Unix() / int64(cacheAge/time.Second)) }

// find fills in the targets that are remembered. It gives the numbers of the others, and that of
// the highest id among those that are; -1 for none.
func (c *linkCache) find(links []waypost.LinkClicks, targets []target, now time.Time) (others []int, newest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest = -1
	if now.Sub(c.made) > cacheLife {
		c.sets, c.held = nil, 0
	}
	age := ageOf(now)
	for i := range links {
		key, ok := cacheKeyOf(&links[i])
		if e := c.entry(key); ok && e != nil && age-e.age <= 1 {
			if targets[i] = e.target; newest < 0 || e.link > targets[newest].link {
				newest = i
			}
			continue
		}
		others = append(others, i)
	}
	return others, newest
}

// entry gives that of a key, nil if there is none. The lock is held.
func (c *linkCache) entry(key cacheKey) *cachedLink {
	if len(c.sets) == 0 {
		return nil
	}
	set := c.set(key)
	for i := range set {
		if set[i].key == key && set[i].link != 0 {
			return &set[i]
		}
	}
	return nil
}

func (c *linkCache) set(key cacheKey) *[cacheWays]cachedLink {
	return &c.sets[maphash.Bytes(c.seed, key[:])&uint64(len(c.sets)-1)]
}

// remember keeps the targets with these numbers, but for those that are none.
func (c *linkCache) remember(links []waypost.LinkClicks, targets []target, numbers []int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.seed, c.sets, c.made = maphash.MakeSeed(), make([][cacheWays]cachedLink, firstCacheSets), now
	}
	age := ageOf(now)
	for _, i := range numbers {
		if key, ok := cacheKeyOf(&links[i]); ok && targets[i].link != 0 {
			c.put(cachedLink{key, age, targets[i]})
		}
	}
}

// put puts a link where there is none, or one that is too old, or else in place of any. The
// lock is held.
func (c *linkCache) put(l cachedLink) {
	if have := c.entry(l.key); have != nil {
		*have = l
		return
	}
	if c.held >= len(c.sets)*cacheWays/2 && len(c.sets) < mostCacheSets {
		c.grow()
	}
	set := c.set(l.key)
	free := rand.IntN(cacheWays)
	for i := range set {
		if set[i].link == 0 {
			set[i] = l
			c.held++
			return
		}
		if l.age-set[i].age > 1 {
			free = i
		}
	}
	set[free] = l
}

func (c *linkCache) grow() {
	old := c.sets
	c.sets, c.held = make([][cacheWays]cachedLink, 2*len(old)), 0
	for i := range old {
		for _, l := range old[i] {
			if l.link == 0 {
				continue
			}
			// The links of one set fall into two.
			set := c.set(l.key)
			for k := range set {
				if set[k].link == 0 {
					set[k] = l
					c.held++
					break
				}
			}
		}
	}
}

// forget forgets everything.
func (c *linkCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets, c.held = nil, 0
}
