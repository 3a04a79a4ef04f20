package server

import (
	"waypost"
	"waypost/internal/codes"
	"waypost/internal/patterns"
	"waypost/rules"
)

// Finder finds the links of visits, one after another. It does not allocate once it has
// its buffers. The zero Finder is ready.
type Finder struct {
	walk codes.Walk
	at   address
}

// Find moves a visit to the first of its codes that is blocked or that has a link for the
// visit; nil blocks block nothing. The record is good until the next Find.
func (f *Finder) Find(
	links Links, blocks Blocks, domain waypost.DomainID, traits waypost.DomainTraits, host []byte, visit *waypost.Visit,
) (codes.Found, error) {
	f.at.links, f.at.blocks, f.at.domain, f.at.traits, f.at.host, f.at.broken = links, blocks, domain, traits, host, false
	return f.walk.Find(visit, traits, &f.at)
}

// cookie identifies the cookies of the link that was found for a visit.
func (f *Finder) cookie(visit *waypost.Visit) cookie {
	return cookie{sentCode(visit), rules.CookieNumber(&f.at.record)}
}

// rest frees the memory of a large record.
func (f *Finder) rest() {
	if f.at.large {
		f.at.record, f.at.large = waypost.Record{}, false
	}
}

// address is a host, and the index of its codes.
type address struct {
	links  Links
	blocks Blocks
	domain waypost.DomainID
	traits waypost.DomainTraits
	host   []byte

	record waypost.Record
	buf    []byte // of the record
	own    []byte // of the record of the link that an alias leads to
	large  bool   // the record has a buffer that is not kept
	broken bool   // an alias leads to no link
}

// Policy implements [codes.Index]. A block also holds after its domain was removed and
// the host has become one of the default domain.
func (a *address) Policy(code []byte, folded bool) (waypost.BlockPolicy, error) {
	if a.blocks == nil {
		return 0, nil
	}
	policy := a.blocks.Policy(a.host, code, folded)
	if policy == 0 && a.domain == waypost.DefaultDomain && len(a.host) > 0 {
		policy = a.blocks.Policy(nil, code, folded)
	}
	return policy, nil
}

// Patterns implements [codes.Index].
func (a *address) Patterns() (*patterns.Index, error) { return a.links.Patterns(a.domain), nil }

// Record implements [codes.Index]. An alias has the record of its link; no alias leads to
// another.
func (a *address) Record(code []byte) (*waypost.Record, error) {
	for range 2 { // between two look-ups the link of an alias may have got another key
		buf, found, err := a.links.Link(a.domain, code, a.buf[:0], &a.record)
		keep(&a.buf, buf)
		if err != nil || !found {
			return nil, err
		}
		a.large = cap(buf) > maxKept
		if a.record.Flags&waypost.AliasOf == 0 {
			return &a.record, nil
		}
		if found, err := a.follow(); err != nil || found {
			return &a.record, err
		}
	}
	a.broken = true
	return nil, nil //nolint:nilnil // there is no link
}

// follow goes on from the record of an alias to the record of its link.
func (a *address) follow() (found bool, err error) {
	domain, code, ok := waypost.ParseAlias(&a.record)
	if !ok {
		return false, nil
	}
	own, found, err := a.links.Link(domain, code, a.own[:0], &a.record)
	keep(&a.own, own)
	a.large = cap(own) > maxKept
	return found && a.record.Flags&waypost.AliasOf == 0, err
}
