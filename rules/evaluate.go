package rules

import (
	"encoding/binary"
	"net/netip"
	"unicode"
	"unicode/utf8"

	"github.com/dchest/siphash"

	"waypost"
	"waypost/rules/agents"
)

// Facts describe a visitor to the conditions of rules. Only the facts of [RequiredFacts]
// must be filled in. The slices are only read.
type Facts struct {
	At        int64      // Unix milliseconds
	Address   netip.Addr // of the visitor
	UserAgent []byte     // as it was sent
	Agent     agents.Set // of the user agent
	Languages Languages
	Country   [2]byte // ISO 3166-1 alpha-2; zero: unknown
	City      string  // an English name; "": unknown
	Query     []byte  // as it was sent, without the question mark
	Cookie    []byte  // as it was sent
	Link      uint32  // in the names of cookies, as in a Request
	Variant   uint8   // that the visitor's cookie names
	Chance    uint16  // random
	Passed    bool    // the visitor need not give the link's password
	Confirmed bool    // the visitor has said that the link is to be followed

	words [2]uint64 // Address, as conditions compare it
}

// Trace records an evaluation.
type Trace struct {
	Gate  string // that decided: state, valid_from, expired, exhausted, password, confirm, broken; "" for the rules
	Steps []Step // of the rules, until one matched
}

// Step is the evaluation of one rule.
type Step struct {
	Rule   int `json:"rule"`   // its id
	Failed int `json:"failed"` // index of the first condition that did not hold; -1: all hold
}

// Resolve decides by a record and its programme. Expiry is checked here, at every read.
// A record without a programme needs no fact but the time, and that only if it expires.
// It does not allocate.
//
// A programme that is damaged, or of a later version, is passed over: the link leads to
// its own target, unless its head cannot be read or has a gate or budget, when the answer
// is 503. [waypost.Resolution.Broken] says so.
func Resolve(r *waypost.Record, f *Facts) waypost.Resolution { return resolve(r, f, nil) }

// Explain is Resolve with a record of the evaluation.
func Explain(r *waypost.Record, f *Facts) (waypost.Resolution, Trace) {
	var t Trace
	res := resolve(r, f, &t)
	return res, t
}

func resolve(r *waypost.Record, f *Facts, t *Trace) waypost.Resolution {
	if !r.Kind.IsLink() || r.State != waypost.Live || len(r.Programme) == 0 {
		res := waypost.Resolve(r, f.At)
		if t != nil && r.State != waypost.Live {
			t.Gate = "state"
		} else if t != nil && !res.Link {
			t.Gate = "expired"
		}
		return res
	}
	var p programme
	if !p.parse(r.Programme) {
		return broken(r, f, t)
	}
	gone := waypost.Resolution{Status: 410, Flags: r.Flags}
	switch {
	case p.gates&gateValidFrom != 0 && f.At < p.validFrom:
		t.gate("valid_from")
		return waypost.NotFound
	case r.ExpiresAt != 0 && f.At >= r.ExpiresAt:
		t.gate("expired")
		return p.instead(p.expired, gone)
	case r.Flags&waypost.Exhausted != 0:
		t.gate("exhausted")
		return p.instead(p.exhausted, gone)
	case p.password != nil && !f.Passed && !passes(p.password, f):
		t.gate("password")
		return waypost.Resolution{Status: 200, Flags: r.Flags, Gated: true, Password: true}
	}
	res := waypost.Resolve(r, f.At)
	if p.rules > 0 || gated(r.Programme) {
		temporary(&res)
	}
	if !p.decide(&res, f, t) {
		return broken(r, f, t)
	}
	if res.Link && p.gates&gateConfirm != 0 && !f.Confirmed {
		t.gate("confirm")
		return waypost.Resolution{Status: 200, Flags: r.Flags, Gated: true, Confirm: true}
	}
	if res.Link {
		res.Gated = gated(r.Programme)
		if res.Budget = p.budget; p.budget != 0 {
			res.Exhausted, _ = p.target(p.exhausted)
		}
	}
	return res
}

// temporary makes a permanent redirect one that no browser keeps: the next visit may be
// answered in another way.
func temporary(res *waypost.Resolution) {
	switch res.Status {
	case 301:
		res.Status = 302
	case 308:
		res.Status = 307
	}
	res.MaxAge = 0
}

func (t *Trace) gate(name string) {
	if t != nil {
		t.Gate = name
	}
}

// instead returns the redirect to the target of a gate, which is no click, or gone for a
// gate without a target.
func (p *programme) instead(index byte, gone waypost.Resolution) waypost.Resolution {
	if location, ok := p.target(index); ok {
		return waypost.Resolution{Status: 302, Location: location, Flags: gone.Flags}
	}
	return gone
}

// broken returns the answer of a record with a programme that cannot be read.
func broken(r *waypost.Record, f *Facts, t *Trace) waypost.Resolution {
	t.gate("broken")
	if gated(r.Programme) || r.Programme[1]&gateValidFrom != 0 || r.Flags&waypost.Exhausted != 0 {
		return waypost.Resolution{Status: 503, Broken: true}
	}
	res := waypost.Resolve(r, f.At)
	temporary(&res)
	res.Broken = true
	return res
}

// decide sets the answer of the first rule that matches: all its conditions hold. It
// returns false for a programme that is damaged there.
func (p *programme) decide(res *waypost.Resolution, f *Facts, t *Trace) (ok bool) {
	logic := p.logic
	for range p.rules {
		id, conditions, rest, after, ok := cutRule(logic)
		if !ok {
			return false
		}
		held := 0
		for held < conditions {
			op, operand, next, ok := cutCondition(rest)
			if !ok {
				return false
			}
			is, ok := holds(op&^negation, operand, f)
			if !ok {
				return false
			}
			if is == (op&negation != 0) {
				break
			}
			rest = next
			held++
		}
		matches := held == conditions
		if t != nil {
			t.step(id, held, matches)
		}
		if matches {
			res.Rule = id
			return p.act(res, rest, f)
		}
		logic = after
	}
	return true
}

// step records the evaluation of a rule, and how many of its conditions held.
func (t *Trace) step(rule byte, held int, matches bool) {
	failed := held
	if matches {
		failed = -1
	}
	t.Steps = append(t.Steps, Step{Rule: int(rule), Failed: failed})
}

// act sets the answer of an action.
func (p *programme) act(res *waypost.Resolution, b []byte, f *Facts) (ok bool) {
	if len(b) < 2 {
		return false
	}
	switch b[0] {
	case actionTarget:
		res.Location, ok = p.target(b[1])
		return ok
	case actionStatus:
		if !refuses(b) {
			return false
		}
		*res = waypost.Resolution{Status: int(binary.LittleEndian.Uint16(b[1:])), Rule: res.Rule, Flags: res.Flags}
		return true
	case actionSplit:
		return p.split(res, b, f)
	}
	return false
}

// refuses reports whether an action of a status is whole and has one of the two.
func refuses(b []byte) bool {
	return len(b) == 3 && (binary.LittleEndian.Uint16(b[1:]) == 404 || binary.LittleEndian.Uint16(b[1:]) == 410)
}

// split sets the answer of a variant.
func (p *programme) split(res *waypost.Resolution, b []byte, f *Facts) (ok bool) {
	if len(b) < 3 || len(b) != 3+splitEntry*int(b[2]) {
		return false
	}
	variants, hash := b[3:], f.Chance
	switch b[1] {
	case subjectVisitor:
		if p.key == nil { // the head does not say that the splits have one
			return false
		}
		hash = VisitorHash(p.key, f.Address, f.UserAgent)
	case subjectCookie:
		res.Keep = true
		for e := variants; len(e) > 0 && f.Variant != 0; e = e[splitEntry:] {
			if e[2] == f.Variant {
				hash = binary.LittleEndian.Uint16(e)
				res.Keep = false // it is kept already
				break
			}
		}
	}
	for e := variants; len(e) > 0; e = e[splitEntry:] {
		if hash <= binary.LittleEndian.Uint16(e) {
			res.Variant = e[2]
			res.Location, ok = p.target(e[3])
			return ok
		}
	}
	return false
}

// VisitorHash returns the place of a visitor among the 65,536 of a split: SipHash-2-4
// under the link's own key of 16 bytes, of the network (/24 or /48) and the user agent.
// Nothing of it is stored. It does not allocate.
func VisitorHash(key []byte, address netip.Addr, userAgent []byte) uint16 {
	var buf [7 + waypost.MaxAgent]byte
	address = address.Unmap()
	if address.Is4() {
		a := address.As4()
		buf[0] = 4
		copy(buf[1:], a[:3])
	} else if address.Is6() {
		a := address.As16()
		buf[0] = 6
		copy(buf[1:], a[:6])
	}
	n := 7 + copy(buf[7:], userAgent)
	le := binary.LittleEndian
	return uint16(siphash.Hash(le.Uint64(key), le.Uint64(key[8:]), buf[:n]))
}

// holds evaluates an operation.
func holds(op byte, b []byte, f *Facts) (is, ok bool) {
	le := binary.LittleEndian
	switch op {
	case opAgent:
		if len(b) != 4 {
			return false, false
		}
		return uint32(f.Agent)&le.Uint32(b) != 0, true
	case opCountry:
		i, known := countryIndex(f.Country)
		if len(b) != countryBytes {
			return false, false
		}
		return known && b[i/8]&(1<<(i%8)) != 0, true
	case opCity:
		return hasCity(b, f.City), true
	case opLanguage:
		for ; len(b) >= languageSize; b = b[languageSize:] {
			if f.Languages.Match(Language{Primary: [3]byte(b), Script: [4]byte(b[3:]), Region: [3]byte(b[7:])}) {
				return true, true
			}
		}
		return false, true
	case opAddress:
		return f.Address.IsValid() && hasAddress(b, f.words), true
	case opQuery:
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return false, false
		}
		return hasQuery(f.Query, b[0], b[2:2+b[1]], b[2+b[1]:]), true
	case opTime:
		if len(b) != 16 {
			return false, false
		}
		return f.At >= int64(le.Uint64(b)) && f.At < int64(le.Uint64(b[8:])), true
	case opWeek:
		return inWeek(b, f.At), true
	}
	return false, false
}

// countryIndex numbers the codes AA to ZZ.
func countryIndex(c [2]byte) (i int, ok bool) {
	if c[0] < 'A' || c[0] > 'Z' || c[1] < 'A' || c[1] > 'Z' {
		return 0, false
	}
	return int(c[0]-'A')*26 + int(c[1]-'A'), true
}

// hasCity reports whether a list of names in lower case has a city, in any case.
func hasCity(b []byte, city string) bool {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n {
			return false
		}
		if n > 0 && lowersTo(city, b[1:1+n]) {
			return true
		}
		b = b[1+n:]
	}
	return false
}

// lowersTo reports whether s is lower in lower case. It does not allocate.
func lowersTo(s string, lower []byte) bool {
	for _, r := range s {
		c, n := utf8.DecodeRune(lower)
		if n == 0 || c != unicode.ToLower(r) {
			return false
		}
		lower = lower[n:]
	}
	return len(lower) == 0
}

// wordsOf returns the 16 bytes of an address as two words.
func wordsOf(address netip.Addr) [2]uint64 {
	b, le := address.As16(), binary.LittleEndian
	return [2]uint64{le.Uint64(b[:]), le.Uint64(b[8:])}
}

// hasAddress reports whether an address is in one of the networks of a list.
func hasAddress(b []byte, words [2]uint64) bool {
	le := binary.LittleEndian
	for ; len(b) >= 32; b = b[32:] {
		if words[0]&le.Uint64(b) == le.Uint64(b[16:]) && words[1]&le.Uint64(b[8:]) == le.Uint64(b[24:]) {
			return true
		}
	}
	return false
}
