package analytics

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane/postgres/scoped"
)

// target is the link that an address leads to. Alias is the number of the address among
// the aliases of the link; 0: it is the link's own.
type target struct {
	place
	alias uint8
}

// place is a link and its workspace.
type place struct{ link, workspace int64 }

// findLinks looks codes up, all at once, each by the index: as a join the planner would
// rather read all links. Links that were deleted are found, too: their edges did
// redirect, and so are codes of aliases, also of those that were removed since.
const findLinks = `
SELECT s.place - 1, l.id, l.workspace_id, l.n
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS s (domain_id, code, place)
CROSS JOIN LATERAL (
	SELECT id, workspace_id, 0::smallint AS n FROM link WHERE domain_id = s.domain_id AND code = s.code
	UNION ALL
	SELECT l.id, l.workspace_id, 0 FROM link_former_key f JOIN link l ON l.id = f.link_id WHERE f.domain_id = s.domain_id AND f.code = s.code
	UNION ALL
	SELECT l.id, l.workspace_id, r.n FROM retired_code r JOIN link l ON l.id = r.link_id WHERE r.domain_id = s.domain_id AND r.code = s.code
	LIMIT 1) l`

// targetsOf returns the target of each of the batch's links, zero where no link has the
// code. Most come from the cache. Only a database that was restored, or has failed over
// to a server that was behind, uses ids again. It has then also lost the highest id in
// the cache. So targetsOf looks the link with that id up again, and empties the cache if
// the link is gone or another one.
func (db *Store) targetsOf(ctx context.Context, b *waypost.ClickBatch) ([]target, error) {
	targets := make([]target, len(b.Links))
	now := time.Now()
	asked, newest := db.links.find(b.Links, targets, now)
	still, err := db.findTargets(ctx, b, asked, targets, newest)
	if err == nil && !still {
		db.links.forget()
		clear(targets)
		asked, newest = db.links.find(b.Links, targets, now)
		_, err = db.findTargets(ctx, b, asked, targets, newest)
	}
	if err != nil {
		return nil, err
	}
	db.links.remember(b.Links, targets, asked, now)
	return targets, nil
}

// findTargets looks some of the batch's links up, in the order of the index, so that each
// of its pages is read once. It reports whether the remembered link still exists; a zero
// link counts as existing.
func (db *Store) findTargets(
	ctx context.Context, b *waypost.ClickBatch, asked []int, targets []target, remembered namedLink,
) (still bool, err error) {
	if len(asked) == 0 && remembered.link == 0 {
		return true, nil
	}
	slices.SortFunc(asked, func(i, j int) int {
		return cmp.Or(cmp.Compare(b.Links[i].Domain, b.Links[j].Domain), cmp.Compare(b.Links[i].Code, b.Links[j].Code))
	})
	domains, codes := make([]int64, len(asked)), make([]string, len(asked))
	for k, i := range asked {
		domains[k], codes[k] = int64(b.Links[i].Domain), string(b.Links[i].Code)
		targets[i] = target{}
	}
	var q pgx.Batch
	scoped.Ingest.LookingUp().EnterBatch(&q)
	q.Queue(moreTime, ingestTimeLimit)
	look := func(domains []int64, codes []string, found func(place int64, t target)) {
		var place int64
		var t target
		q.Queue(findLinks, domains, codes).Query(scoped.ForEach([]any{&place, &t.link, &t.workspace, &t.alias}, func() error {
			found(place, t)
			return nil
		}))
	}
	look(domains, codes, func(place int64, t target) { targets[asked[place]] = t })
	if still = remembered.link == 0; !still {
		look([]int64{int64(remembered.domain)}, []string{string(remembered.code)}, func(_ int64, t target) {
			still = t.place == remembered.place
		})
	}
	return still, scoped.Classify("find the links of clicks", db.pool.SendBatch(ctx, &q).Close())
}

// linkCache maps the codes of clicks to links, so that a batch need not ask PostgreSQL
// for links of earlier batches. When it had room for two million of ten million links
// that were clicked alike, a tenth fewer clicks were folded. A code never names another
// link, but links are purged, so an entry lives for two cacheAges at most. When it is
// full it forgets some. It is empty at first.
type linkCache struct {
	most int // sets, a power of two: see cacheSets

	mu   sync.Mutex
	seed maphash.Seed
	sets [][cacheWays]cachedLink // a power of two
	held int
	made time.Time // when there was nothing in it

	newest namedLink // the highest id that was ever in it; zero: it is empty
}

// namedLink is a link with its name.
type namedLink struct {
	domain waypost.DomainID
	code   waypost.Code
	place
}

const (
	cacheWays = 4
	cacheAge  = 10 * time.Minute
	cacheLife = 24 * time.Hour // until all is forgotten: ages come again after 42 hours

	firstCacheSets = 1 << 8 // they are half full before they become twice as many
)

// cacheSets returns how many sets a cache may have on a machine with that many bytes of
// memory: for 4 % of it, at least 8 and at most 512 MiB, which is a quarter of a million
// to sixteen million links.
func cacheSets(memory int64) int {
	const least, most = 8 << 20, 512 << 20
	sets := uint64(min(max(memory/25, least), most)) / uint64(unsafe.Sizeof([cacheWays]cachedLink{}))
	return 1 << (bits.Len64(sets) - 1)
}

// cacheKey is a domain, a code and its length. Longer codes are not remembered; those
// that are generated are not longer.
type cacheKey [15]byte

const longestCached = len(cacheKey{}) - 5

type cachedLink struct {
	key cacheKey
	age uint8 // cacheAges since 1970, modulo 256
	place
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

// find fills in the cached targets. It returns the indexes of the other links, and the
// highest id that was ever in the cache.
func (c *linkCache) find(links []waypost.LinkClicks, targets []target, now time.Time) (others []int, newest namedLink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.made) > cacheLife {
		c.empty()
	}
	age := ageOf(now)
	for i := range links {
		key, ok := cacheKeyOf(&links[i])
		if e := c.entry(key); ok && e != nil && age-e.age <= 1 {
			targets[i] = target{place: e.place}
			continue
		}
		others = append(others, i)
	}
	return others, c.newest
}

// entry returns the entry of a key, or nil. The lock is held.
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

// remember keeps the targets with these indexes, except those without a link, and
// aliases, because an entry has no room for their numbers.
func (c *linkCache) remember(links []waypost.LinkClicks, targets []target, numbers []int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.seed, c.sets, c.made = maphash.MakeSeed(), make([][cacheWays]cachedLink, firstCacheSets), now
	}
	age := ageOf(now)
	for _, i := range numbers {
		if key, ok := cacheKeyOf(&links[i]); ok && targets[i].link != 0 && targets[i].alias == 0 {
			c.put(cachedLink{key, age, targets[i].place})
			if targets[i].link > c.newest.link {
				c.newest = namedLink{links[i].Domain, waypost.Code(strings.Clone(string(links[i].Code))), targets[i].place}
			}
		}
	}
}

// put stores a link in an empty or outdated entry, or else in place of any entry. The
// lock is held.
func (c *linkCache) put(l cachedLink) {
	if have := c.entry(l.key); have != nil {
		*have = l
		return
	}
	if c.held >= len(c.sets)*cacheWays/2 && len(c.sets) < c.most {
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
	c.empty()
}

// empty forgets everything. The lock is held.
func (c *linkCache) empty() { c.sets, c.held, c.newest = nil, 0, namedLink{} }
