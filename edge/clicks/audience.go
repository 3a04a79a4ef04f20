package clicks

import (
	"hash/maphash"

	"waypost"
	"waypost/api/clickbatch"
)

// Audience tells who clicked, from what the journal holds. It is used by one goroutine
// at a time, off the redirect path.
type Audience interface {
	// Profile describes the visitor of a click. Visitor is who it was, as a hash that
	// has the day's secret in it; 0 when nobody can be told, for there is no address, or
	// the secret is gone. It does not keep the click.
	Profile(c *waypost.Click) (p waypost.ClickProfile, visitor uint64)
}

// faces remembers what the audience said of the visitors of one tally. What is told of a
// visitor is found by a hash of what the record has of it, under a seed of this
// process: two visitors that meet in 64 bits count as one.
type faces struct {
	audience Audience
	seed     maphash.Seed
	round    uint32 // entries of other rounds are forgotten
	entries  []face
	click    waypost.Click // what the audience sees, so that no click has to be allocated
	profiles profiles
}

type face struct {
	key     uint64
	visitor uint64
	profile uint32
	round   uint32
}

const maxFaces = 1 << 12 // as much as a processor's second cache takes beside a tally

func newFaces(a Audience) faces {
	f := faces{audience: a, seed: maphash.MakeSeed(), entries: make([]face, maxFaces)}
	f.reset()
	return f
}

func (f *faces) reset() {
	f.round++
	f.profiles.reset()
}

// of gives the number of a click's profile, and its visitor. The click is the one that a scan gave. It reports false when
// there is no room for another profile.
func (f *faces) of(c *waypost.Click, from *scan) (profile uint32, visitor uint64, ok bool) {
	if f.audience == nil {
		profile, ok = f.profiles.number(&waypost.ClickProfile{Bot: c.Bot})
		return profile, 0, ok
	}
	key := maphash.Bytes(f.seed, from.who(c))
	e := &f.entries[key%maxFaces]
	if e.key == key && e.round == f.round {
		return e.profile, e.visitor, true
	}
	f.click = *c
	from.textsOf(&f.click)
	p, visitor := f.audience.Profile(&f.click)
	if !p.Valid() { // one that no batch may have must not cost the batch
		p = waypost.ClickProfile{Bot: p.Bot}
	}
	if profile, ok = f.profiles.number(&p); !ok {
		return 0, 0, false
	}
	*e = face{key, visitor, profile, f.round}
	return profile, visitor, true
}

// profiles is a dictionary.
type profiles struct {
	list    []waypost.ClickProfile
	numbers map[waypost.ClickProfile]uint32
	bytes   int      // as encoded
	anybody [2]int64 // number + 1 of the profiles of people and of bots of whom nothing is known
}

const maxProfileBytes = 2 << 20

func (p *profiles) reset() {
	p.list, p.bytes, p.anybody = p.list[:0], 0, [2]int64{}
	if p.numbers == nil {
		p.numbers = make(map[waypost.ClickProfile]uint32)
	}
	clear(p.numbers)
}

// number gives that of a profile; false if there are too many.
func (p *profiles) number(of *waypost.ClickProfile) (uint32, bool) {
	bot := 0
	if of.Bot {
		bot = 1
	}
	unknown := *of == waypost.ClickProfile{Bot: of.Bot}
	if unknown && p.anybody[bot] > 0 {
		return uint32(p.anybody[bot] - 1), true
	}
	n, known := p.numbers[*of]
	if !known {
		size := 7 + len(of.Country) + len(of.City) + len(of.Device) + len(of.Browser) + len(of.OS) + len(of.Referrer)
		if len(p.list) == clickbatch.MaxProfiles || p.bytes+size > maxProfileBytes {
			return 0, false
		}
		n = uint32(len(p.list))
		p.list, p.bytes = append(p.list, *of), p.bytes+size
		p.numbers[*of] = n
	}
	if unknown {
		p.anybody[bot] = int64(n) + 1
	}
	return n, true
}
