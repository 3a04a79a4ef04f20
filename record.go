package waypost

import (
	"crypto/sha256"
	"strconv"
)

// Kind is the type of a replicated row.
type Kind uint8

const (
	KindLink   Kind = 1 // name: code; payload: Location
	KindDomain Kind = 2 // name: domain id; payload: the row of domain as JSON, see changelog_payload and DecodeDomain
	KindRange  Kind = 3 // name: range id; payload: the row of key_range as JSON, see changelog_payload
	KindLease  Kind = 4 // name: lease id; payload: the row of key_lease as JSON, see changelog_payload
	KindSalt   Kind = 5 // name: day, YYYY-MM-DD; payload: 32 bytes in hex, or nothing once they are destroyed

	KindPattern Kind = 6 // a link with a pattern as its code: name: pattern; payload: Location with placeholders
)

// IsLink reports whether records of a kind are links: with a code of their own, or with a
// pattern.
func (k Kind) IsLink() bool { return k == KindLink || k == KindPattern }

// State decides how an edge answers for a link.
type State uint8

const (
	Live     State = 0
	Disabled State = 1 // answers 410 until it is enabled again
	Deleted  State = 2 // a tombstone: answers 410
	Purged   State = 3 // the row is gone: the record is removed; never stored
)

// LinkFlags are the choices of a link that a redirect depends on. Unknown bits are kept.
type LinkFlags uint8

const (
	ForwardQuery LinkFlags = 1 << 0 // the visitor's query is appended to the target's
	ForwardPath  LinkFlags = 1 << 1 // the path behind the code is appended to the target's
	Exhausted    LinkFlags = 1 << 2 // its click budget is used up
	Aliased      LinkFlags = 1 << 3 // further addresses lead to the link
	AliasOf      LinkFlags = 1 << 4 // an alias of a link; payload: the key of the link, see ParseAlias
)

// Slots is the number of parts into which keys are divided for digests and snapshots.
const Slots = 4096

// MaxName bounds a record's name and MaxPayload its payload, in bytes. A Location is at
// most three times as long as the longest URL, because escaping triples a byte.
const (
	MaxName    = MaxCodeLength
	MaxPayload = 3 * MaxURLLength
)

// MaxProgramme bounds a programme of rules, and MaxExtensions all that a record has
// besides its payload, in bytes.
const (
	MaxProgramme  = 20<<10 + 64
	MaxExtensions = MaxProgramme + 4<<10
)

// Record is one row on an edge. It refers to bytes of its decoder, so that decoding does
// not allocate.
type Record struct {
	Kind      Kind
	State     State
	Flags     LinkFlags // links and patterns only
	Status    uint16    // redirect status; links and patterns only
	Domain    DomainID  // links and patterns only; otherwise 0
	Name      []byte
	Revision  Revision
	Stamp     uint64 // random, new at every write of the row
	ExpiresAt int64  // Unix milliseconds; 0: never
	Payload   []byte
	Programme []byte // what package rules evaluates; links and patterns only; nil: none
}

// ParseAlias returns the key of the link that a record leads to, and false for a record
// that is no alias or cannot be read. The payload of an alias is DOMAIN/CODE, with a
// decimal number. The code refers to the record.
func ParseAlias(r *Record) (domain DomainID, code []byte, ok bool) {
	if r.Flags&AliasOf == 0 || r.State != Live {
		return 0, nil, false
	}
	for i, c := range r.Payload {
		switch {
		case c == '/' && i > 0:
			return domain, r.Payload[i+1:], ValidCode(r.Payload[i+1:])
		case c < '0' || c > '9' || i == len("4294967295"):
			return 0, nil, false
		}
		domain = domain*10 + DomainID(c-'0')
	}
	return 0, nil, false
}

// AppendAlias appends the payload of an alias of the link with a key.
func AppendAlias(dst []byte, domain DomainID, code []byte) []byte {
	return append(append(strconv.AppendUint(dst, uint64(domain), 10), '/'), code...)
}

// Slot returns the slot of a key: the first 12 bits of SHA-256 over "KIND/DOMAIN/NAME",
// with decimal numbers. PostgreSQL computes the same in waypost_slot().
func Slot(kind Kind, domain DomainID, name []byte) uint16 {
	var buf [len("255/4294967295/") + MaxName]byte
	b := strconv.AppendUint(buf[:0], uint64(kind), 10)
	b = append(b, '/')
	b = strconv.AppendUint(b, uint64(domain), 10)
	b = append(b, '/')
	b = append(b, name...)
	sum := sha256.Sum256(b)
	return uint16(sum[0])<<4 | uint16(sum[1])>>4
}
