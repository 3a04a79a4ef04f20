package rules

import (
	"encoding/binary"
	"errors"

	"waypost"
)

// A programme is
//
//	0  version 1
//	1  gates, see below
//	2  required facts (2), which its conditions and splits read
//	4  where the targets begin (2)
//	6  mode of the click budget
//	7  number of rules
//	8  if the link has a password: its verifier, see password.go
//	   if it needs the visitor: the key of its splits (16)
//	   if gated: valid from (8, Unix milliseconds); targets of an expired and of an
//	   exhausted link (1 each: its index)
//	   rules: size (2), id, number of conditions, conditions, action
//	   targets: number (1); of each the length (2) and the Location
//
// with little-endian numbers. Gates and mode keep their places in later versions, so that
// an edge that cannot read the rest knows whether it may pass over it. A condition is an
// operation, whose highest bit negates it, the length of its operand (2) and the operand.
// An action is a kind and
//
//	target: its index
//	split: subject, number of variants; of each the last hash (2), id, target
//	status: 2 bytes
const (
	version    = 1
	headSize   = 8
	keySize    = 16
	noTarget   = 0xff
	negation   = 0x80
	splitRange = 1 << 16

	gateValidFrom = 1 << 0
	gateExpired   = 1 << 1
	gateExhausted = 1 << 2
	gatePassword  = 1 << 3
	gateConfirm   = 1 << 4
)

// FactSet is a set of facts about a visitor.
type FactSet uint16

// The facts, and the set of all of them.
const (
	FactAgent FactSet = 1 << iota
	FactLanguage
	FactPlace // country and city
	FactAddress
	FactQuery
	FactTime
	FactVisitor // address and user agent, for a split
	FactCookie
	FactChance

	AllFacts = FactChance<<1 - 1
)

// The operations of conditions.
const (
	opAgent    = 1 // mask (4): one of the bits
	opCountry  = 2 // a bit for each of 26×26 codes (85)
	opCity     = 3 // names: length (1), bytes in lower case
	opLanguage = 4 // packed languages (10 each)
	opAddress  = 5 // mask (16), value (16) each
	opQuery    = 6 // mode, length of the key, key, value
	opTime     = 7 // from (8), before (8): Unix milliseconds
	opWeek     = 8 // see week.go
)

const (
	actionTarget = 1
	actionSplit  = 2
	actionStatus = 3
)

const (
	subjectVisitor = 1
	subjectCookie  = 2
	subjectNone    = 3
)

const (
	queryAny    = 1
	queryEquals = 2
	queryEmpty  = 3
)

// languageSize is the size of a packed language.
const languageSize = 10

// countryBytes is the size of a set of countries.
const countryBytes = (26*26 + 7) / 8

// factsOf returns the facts that an operation reads.
var factsOf = [...]FactSet{
	opAgent: FactAgent, opCountry: FactPlace, opCity: FactPlace, opLanguage: FactLanguage, opAddress: FactAddress,
	opQuery: FactQuery, opTime: FactTime, opWeek: FactTime,
}

// ErrProgramme says that bytes are no programme of this version.
var ErrProgramme = errors.New("not a valid programme of rules")

// programme is the parts of a programme. Its slices refer to the bytes.
type programme struct {
	gates     byte
	budget    byte
	required  FactSet
	rules     int
	password  []byte // verifier; nil: none
	key       []byte // of splits
	validFrom int64
	expired   byte // index of a target, or noTarget
	exhausted byte
	logic     []byte // the rules
	targets   []byte
}

// parse reads the head of a programme. It does not allocate.
func (p *programme) parse(b []byte) bool {
	if len(b) < headSize || b[0] != version {
		return false
	}
	le := binary.LittleEndian
	p.gates, p.required, p.budget, p.rules = b[1], FactSet(le.Uint16(b[2:])), b[6], int(b[7])
	at := int(le.Uint16(b[4:]))
	if at > len(b) || at < headSize || at > MaxLogic || p.rules > MaxRules {
		return false
	}
	rest := b[headSize:at]
	p.targets = b[at:]
	p.password, p.key, p.validFrom, p.expired, p.exhausted = nil, nil, 0, noTarget, noTarget
	if p.gates&gatePassword != 0 {
		if len(rest) < passwordSize {
			return false
		}
		p.password, rest = rest[:passwordSize], rest[passwordSize:]
	}
	if p.required&FactVisitor != 0 {
		if len(rest) < keySize {
			return false
		}
		p.key, rest = rest[:keySize], rest[keySize:]
	}
	if p.gates&gateValidFrom != 0 {
		if len(rest) < 8 {
			return false
		}
		p.validFrom, rest = int64(le.Uint64(rest)), rest[8:]
	}
	for _, gate := range [...]struct {
		bit   byte
		index *byte
	}{{gateExpired, &p.expired}, {gateExhausted, &p.exhausted}} {
		if p.gates&gate.bit == 0 {
			continue
		}
		if len(rest) < 1 {
			return false
		}
		*gate.index, rest = rest[0], rest[1:]
	}
	p.logic = rest
	return true
}

// target returns a target by its index.
func (p *programme) target(index byte) (location []byte, ok bool) {
	b := p.targets
	if len(b) < 1 || index >= b[0] {
		return nil, false
	}
	b = b[1:]
	for ; ; index-- {
		if len(b) < 2 {
			return nil, false
		}
		n := int(binary.LittleEndian.Uint16(b))
		if len(b) < 2+n {
			return nil, false
		}
		if index == 0 {
			return b[2 : 2+n : 2+n], n > 0
		}
		b = b[2+n:]
	}
}

// RequiredFacts returns the facts that a programme reads. It does not allocate.
func RequiredFacts(b []byte) FactSet {
	if len(b) < headSize {
		return 0
	}
	return FactSet(binary.LittleEndian.Uint16(b[2:]))
}

// OutlivesExpiry reports whether a link with a programme leads visitors on after its
// expiry. PostgreSQL finds such programmes by bit 9.
func OutlivesExpiry(b []byte) bool { return len(b) >= headSize && b[1]&gateExpired != 0 }

// IsExact reports whether a link with a programme has an exact budget.
func IsExact(b []byte) bool { return len(b) >= headSize && b[6] == BudgetExact }

// gated reports whether a programme lets visitors through one by one: nothing but a
// redirect that counts may disclose its targets.
func gated(b []byte) bool {
	return len(b) < headSize || b[6] != 0 || b[1]&(gatePassword|gateConfirm) != 0
}

// Confirms reports whether visitors of the link of a programme confirm that they want to
// follow it, before they are led on.
func Confirms(b []byte) bool { return len(b) >= headSize && b[1]&gateConfirm != 0 }

// scheduled is the flag of a programme with the offsets of a time zone, which have to be
// compiled again before they end. PostgreSQL finds such programmes by bit 15.
const scheduled = 1 << 7

// Known reports whether a programme says that it is of the version of this package.
func Known(b []byte) bool { return len(b) > 0 && b[0] == version }

// Check reports whether bytes are a programme that Compile may have made: all that the
// evaluation relies on, which refuses it otherwise when it gets there. The error wraps
// [ErrProgramme].
func Check(b []byte) error {
	var p programme
	if len(b) > waypost.MaxProgramme || !p.parse(b) || p.required&^AllFacts != 0 ||
		p.gates&^(gateValidFrom|gateExpired|gateExhausted|gatePassword|gateConfirm|scheduled) != 0 || p.budget > BudgetExact {
		return ErrProgramme
	}
	required, ok := p.checkTargets()
	if !ok {
		return ErrProgramme
	}
	if p.password != nil {
		if !affordable(p.password) {
			return ErrProgramme
		}
		required |= FactCookie | FactTime
	}
	rest := p.logic
	for range p.rules {
		id, conditions, parts, after, ok := cutRule(rest)
		if !ok {
			return ErrProgramme
		}
		reads, ok := p.checkRule(id, conditions, parts)
		if !ok {
			return ErrProgramme
		}
		required |= reads
		rest = after
	}
	if len(rest) != 0 || required&^p.required != 0 {
		return ErrProgramme
	}
	return nil
}

// checkTargets checks the targets of actions and gates.
func (p *programme) checkTargets() (required FactSet, ok bool) {
	b := p.targets
	if len(b) < 1 || b[0] > MaxTargets+2 {
		return 0, false
	}
	n := b[0]
	for b = b[1:]; len(b) >= 2; n-- {
		size := int(binary.LittleEndian.Uint16(b))
		if n == 0 || len(b) < 2+size || !waypost.ValidLocation(b[2:2+size]) {
			return 0, false
		}
		b = b[2+size:]
	}
	if n != 0 || len(b) != 0 {
		return 0, false
	}
	for _, index := range []byte{p.expired, p.exhausted} {
		if _, ok := p.target(index); index != noTarget && !ok {
			return 0, false
		}
	}
	if p.gates&gateValidFrom != 0 {
		required |= FactTime
	}
	return required, true
}

// cutRule takes the first rule off b. Its parts are its id, the number of its conditions,
// and its conditions with the action. They are results of their own, because the compiler
// keeps no struct of this size in registers, which took half the time of a rule.
func cutRule(b []byte) (id byte, conditions int, parts, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, 0, nil, nil, false
	}
	size := int(binary.LittleEndian.Uint16(b))
	if size < 4 || size > len(b) {
		return 0, 0, nil, nil, false
	}
	return b[2], int(b[3]), b[4:size], b[size:], true
}

// cutCondition takes the first condition off b.
func cutCondition(b []byte) (op byte, operand, rest []byte, ok bool) {
	if len(b) < 3 {
		return 0, nil, nil, false
	}
	size := int(binary.LittleEndian.Uint16(b[1:]))
	if len(b) < 3+size {
		return 0, nil, nil, false
	}
	return b[0], b[3 : 3+size : 3+size], b[3+size:], true
}

func (p *programme) checkRule(id byte, conditions int, rest []byte) (required FactSet, ok bool) {
	if id == 0 || id > MaxID || conditions > MaxConditions {
		return 0, false
	}
	for range conditions {
		op, operand, after, ok := cutCondition(rest)
		op &^= negation
		if !ok || !checkOperand(op, operand) {
			return 0, false
		}
		required |= factsOf[op]
		rest = after
	}
	reads, ok := p.checkAction(rest)
	return required | reads, ok
}

func (p *programme) checkAction(b []byte) (required FactSet, ok bool) {
	if len(b) < 1 {
		return 0, false
	}
	switch b[0] {
	case actionTarget:
		if len(b) != 2 {
			return 0, false
		}
		_, ok := p.target(b[1])
		return 0, ok
	case actionStatus:
		return 0, refuses(b)
	case actionSplit:
		return p.checkSplit(b)
	}
	return 0, false
}

func (p *programme) checkSplit(b []byte) (required FactSet, ok bool) {
	if len(b) < 3 || b[2] < 1 || b[2] > MaxVariants || len(b) != 3+splitEntry*int(b[2]) {
		return 0, false
	}
	switch b[1] {
	case subjectVisitor:
		required = FactVisitor
	case subjectCookie:
		required = FactCookie | FactChance
	case subjectNone:
		required = FactChance
	default:
		return 0, false
	}
	last := -1
	for e := b[3:]; len(e) > 0; e = e[splitEntry:] {
		most := int(binary.LittleEndian.Uint16(e))
		if _, ok := p.target(e[3]); !ok || most <= last || e[2] == 0 || e[2] > MaxID {
			return 0, false
		}
		last = most
	}
	return required, last == splitRange-1
}

// splitEntry is the size of a variant: the last hash (2), id, target.
const splitEntry = 4

func checkOperand(op byte, b []byte) bool {
	switch op {
	case opAgent:
		return len(b) == 4
	case opCountry:
		return len(b) == countryBytes
	case opCity:
		for len(b) > 0 {
			n := int(b[0])
			if n == 0 || len(b) < 1+n {
				return false
			}
			b = b[1+n:]
		}
		return true
	case opLanguage:
		return len(b) > 0 && len(b)%languageSize == 0
	case opAddress:
		return len(b) > 0 && len(b)%32 == 0
	case opQuery:
		return len(b) >= 3 && b[0] >= queryAny && b[0] <= queryEmpty && b[1] > 0 && len(b) >= 2+int(b[1])
	case opTime:
		return len(b) == 16
	case opWeek:
		return checkWeek(b)
	}
	return false
}
