package clicks

import (
	"hash/maphash"

	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/api/clickbatch"
)

// Profiler describes visitors. One goroutine at a time uses it, off the redirect path.
type Profiler interface {
	// Profile describes the visitor of a click. Visitor identifies the visitor, as a hash
	// that is keyed with the day's secret; 0 if there is no address, or the secret is gone.
	// Profile does not keep the click.
	Profile(c *waypost.Click) (p waypost.ClickProfile, visitor uint64)
}

// profileCache remembers the profiles of the visitors of one tally. It finds them by a
// hash of the record's bytes, under a seed of this process: two visitors that collide in
// 64 bits count as one.
type profileCache struct {
	profiler Profiler
	seed     maphash.Seed
	round    uint32 // entries of other rounds are void
	entries  []cachedProfile
	click    waypost.Click // the profiler's argument, so that it is not allocated
	profiles profiles
}

type cachedProfile struct {
	key     uint64
	visitor uint64
	profile uint32
	round   uint32
}

const maxCachedProfiles = 1 << 12 // fits a processor's second-level cache next to a tally

func newProfileCache(p Profiler) profileCache {
	f := profileCache{profiler: p, seed: maphash.MakeSeed(), entries: make([]cachedProfile, maxCachedProfiles)}
	f.reset()
	return f
}

func (f *profileCache) reset() {
	f.round++
	f.profiles.reset()
}

// of returns the number of the profile of a scan's current click, and its visitor; false
// if there is no room for another profile.
func (f *profileCache) of(c *waypost.Click, from *scan) (profile uint32, visitor uint64, ok bool) {
	if f.profiler == nil {
		p := undescribed(c.Bot, c.Rule, c.Variant)
		profile, ok = f.profiles.number(&p)
		return profile, 0, ok
	}
	key := maphash.Bytes(f.seed, from.who(c))
	e := &f.entries[key%maxCachedProfiles]
	if e.key == key && e.round == f.round {
		return e.profile, e.visitor, true
	}
	f.click = *c
	from.textsOf(&f.click)
	p, visitor := f.profiler.Profile(&f.click)
	if !p.Valid() { // an invalid profile must not cost the batch
		p = waypost.ClickProfile{Bot: p.Bot}
	}
	p.Rule, p.Variant = answerOf(c.Rule, c.Variant)
	if p.UTM = composedUTM(f.click.UTM); !p.UTM.Valid() {
		p.UTM = ""
	}
	if profile, ok = f.profiles.number(&p); !ok {
		return 0, 0, false
	}
	*e = cachedProfile{key, visitor, profile, f.round}
	return profile, visitor, true
}

// composedUTM returns the utm values of a click in NFC, so that names that look alike are
// counted together. The few that would grow, and might not fit then, stay as they are.
func composedUTM(values []byte) waypost.UTM {
	if composed := norm.NFC.Bytes(values); len(composed) <= len(values) {
		values = composed
	}
	return waypost.UTM(values)
}

// undescribed returns the profile of an unknown visitor.
func undescribed(bot bool, rule, variant uint8) waypost.ClickProfile {
	p := waypost.ClickProfile{Bot: bot}
	p.Rule, p.Variant = answerOf(rule, variant)
	return p
}

// answerOf returns a rule and a variant, or none if a batch may not have them.
func answerOf(rule, variant uint8) (uint8, uint8) {
	if rule > waypost.MaxRule || variant > waypost.MaxVariant {
		return 0, 0
	}
	return rule, variant
}

// profiles is a dictionary of profiles.
type profiles struct {
	list    []waypost.ClickProfile
	numbers map[waypost.ClickProfile]uint32
	bytes   int // as encoded
}

const maxProfileBytes = 2 << 20

func (p *profiles) reset() {
	p.list, p.bytes = p.list[:0], 0
	if p.numbers == nil {
		p.numbers = make(map[waypost.ClickProfile]uint32)
	}
	clear(p.numbers)
}

// number returns the number of a profile; false if there are too many.
func (p *profiles) number(of *waypost.ClickProfile) (uint32, bool) {
	if n, known := p.numbers[*of]; known {
		return n, true
	}
	size := 14 + len(of.Country) + len(of.City) + len(of.Device) + len(of.Browser) + len(of.OS) + len(of.Referrer) + len(of.UTM)
	if len(p.list) == clickbatch.MaxProfiles || p.bytes+size > maxProfileBytes {
		return 0, false
	}
	n := uint32(len(p.list))
	p.list, p.bytes = append(p.list, *of), p.bytes+size
	p.numbers[*of] = n
	return n, true
}
