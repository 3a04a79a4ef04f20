package lookup

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"waypost"
)

// A record in the table holds only the fields that an answer needs:
//
//	0  CRC-32C of all that follows, with the payload's beginning
//	4  flags
//	5  length of the name less one (its low 6 bits), beginning of the payload (2)
//	6  length of the rest of the payload (15), the high bit of the name's length (1)
//	8  domain (4), expiry (8), status (2), length of extensions (2): each only if flagged
//	   name, rest of the payload, extensions
//
// Numbers are little-endian. There is no padding.
const recordHead = 8

// nameMask selects the low bits of the length of a name less one. A name has at least one
// byte. The length of a payload leaves a bit for the highest one.
const (
	nameMask       = 1<<beginningShift - 1
	beginningShift = 6
	longName       = 1 << 15
)

const _ = uint(2<<beginningShift-waypost.MaxName) + uint(longName-1-waypost.MaxPayload) // or the lengths do not fit

// beginnings lists common beginnings of payloads. The table does not keep them; the
// reader adds them.
var beginnings = [...][]byte{nil, []byte("https://"), []byte("https://www."), []byte("http://")}

// beginningOf returns the longest beginning of a payload.
func beginningOf(payload []byte) (index byte) {
	for i, b := range beginnings {
		if len(b) > len(beginnings[index]) && bytes.HasPrefix(payload, b) {
			index = byte(i)
		}
	}
	return index
}

const (
	stateMask     = 0b11 // waypost.State; elsewhere: only the store has the record
	elsewhere     = 0b11
	statusShift   = 2 // index in statuses; otherStatus: flagged field
	statusMask    = 0b111
	otherStatus   = 4
	flagDomain    = 1 << 5 // else the default one
	flagExpiry    = 1 << 6 // else never
	flagExtension = 1 << 7 // else none
)

var statuses = [otherStatus]uint16{301, 302, 307, 308}

// maxRecord bounds a record in the table.
const maxRecord = recordHead + 4 + 8 + 2 + 2 + waypost.MaxName + waypost.MaxPayload + waypost.MaxExtensions

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flagsOf returns the flags of a record, and false when the table cannot hold it.
func flagsOf(r *waypost.Record, ext []byte) (flags byte, fits bool) {
	if !r.Kind.IsLink() || len(r.Name) == 0 || len(r.Name) > waypost.MaxName ||
		len(r.Payload) > waypost.MaxPayload || len(ext) > waypost.MaxExtensions || r.State >= elsewhere {
		return elsewhere, false
	}
	flags = byte(r.State) | otherStatus<<statusShift
	for i, status := range statuses {
		if status == r.Status {
			flags = byte(r.State) | byte(i)<<statusShift
		}
	}
	if r.Domain != waypost.DefaultDomain {
		flags |= flagDomain
	}
	if r.ExpiresAt != 0 {
		flags |= flagExpiry
	}
	if len(ext) > 0 {
		flags |= flagExtension
	}
	return flags, true
}

// appendRecord appends a record as the table keeps it. A record that the table cannot
// hold becomes a mark, for which readers ask the store.
func appendRecord(dst []byte, r *waypost.Record, ext []byte) []byte {
	flags, fits := flagsOf(r, ext)
	payload := r.Payload
	if !fits {
		payload, ext = nil, nil
		if r.Domain != waypost.DefaultDomain {
			flags |= flagDomain
		}
	}
	beginning := beginningOf(payload)
	payload = payload[len(beginnings[beginning]):]
	start, le := len(dst), binary.LittleEndian
	name, size := len(r.Name)-1, uint16(len(payload))
	if name > nameMask {
		size |= longName
	}
	dst = append(dst, 0, 0, 0, 0, flags, byte(name&nameMask)|beginning<<beginningShift)
	dst = le.AppendUint16(dst, size)
	if flags&flagDomain != 0 {
		dst = le.AppendUint32(dst, uint32(r.Domain))
	}
	if flags&flagExpiry != 0 {
		dst = le.AppendUint64(dst, uint64(r.ExpiresAt))
	}
	if flags>>statusShift&statusMask == otherStatus {
		dst = le.AppendUint16(dst, r.Status)
	}
	if flags&flagExtension != 0 {
		dst = le.AppendUint16(dst, uint16(len(ext)))
	}
	dst = append(dst, r.Name...)
	dst = append(dst, payload...)
	dst = append(dst, ext...)
	if l, ok := layoutOf(dst[start:]); ok {
		le.PutUint32(dst[start:], l.checksum(dst[start:]))
	}
	return dst
}

// layout holds the offsets of the parts of a record.
type layout struct {
	name, payload, extension, end int
	beginning                     byte // of the payload, which is left out: index in beginnings
}

// layoutOf reads the layout of the record at the beginning of b, and returns false when
// the record does not lie within b. All else may still be damaged.
func layoutOf(b []byte) (l layout, ok bool) {
	if len(b) < recordHead {
		return l, false
	}
	flags, at, extension := b[4], recordHead, 0
	if flags&flagDomain != 0 {
		at += 4
	}
	if flags&flagExpiry != 0 {
		at += 8
	}
	if flags>>statusShift&statusMask == otherStatus {
		at += 2
	}
	if flags&flagExtension != 0 {
		if len(b) < at+2 {
			return l, false
		}
		extension = int(binary.LittleEndian.Uint16(b[at:]))
		at += 2
	}
	l.name = at
	size := binary.LittleEndian.Uint16(b[6:])
	l.payload = at + int(b[5]&nameMask) + int(size/longName)<<beginningShift + 1
	l.beginning = b[5] >> beginningShift
	l.extension = l.payload + int(size&^longName)
	l.end = l.extension + extension
	return l, l.end <= len(b)
}

// domainOf returns the domain of a record of known layout.
func domainOf(b []byte) waypost.DomainID {
	if b[4]&flagDomain == 0 {
		return waypost.DefaultDomain
	}
	return waypost.DomainID(binary.LittleEndian.Uint32(b[recordHead:]))
}

// has reports whether a record of that layout has a key.
func (l layout) has(b []byte, domain waypost.DomainID, name []byte) bool {
	return bytes.Equal(b[l.name:l.payload], name) && domainOf(b) == domain
}

// checksum computes the checksum of a record.
func (l layout) checksum(b []byte) uint32 {
	sum := crc32.Checksum(b[4:l.payload], castagnoli)
	if l.beginning != 0 {
		sum = crc32.Update(sum, castagnoli, beginnings[l.beginning%byte(len(beginnings))])
	}
	return crc32.Update(sum, castagnoli, b[l.payload:l.end])
}

// intact reports whether the checksum of a record is right.
func (l layout) intact(b []byte) bool { return binary.LittleEndian.Uint32(b) == l.checksum(b) }

// expand appends a record with the beginning of its payload, and returns its new layout.
// Inlining it would slow down the search before it.
//
//go:noinline
func (l layout) expand(dst, b []byte) ([]byte, layout) {
	beginning := beginnings[l.beginning%byte(len(beginnings))]
	dst = append(dst, b[:l.payload]...)
	dst = append(dst, beginning...)
	dst = append(dst, b[l.payload:l.end]...)
	l.extension += len(beginning)
	l.end += len(beginning)
	l.beginning = 0
	return dst, l
}

// decode fills in r from an intact record with all of its payload; r then refers to its
// refers. It returns false for a mark.
func (l layout) decode(b []byte, r *waypost.Record) (extensions []byte, ok bool) {
	flags, at, le := b[4], recordHead, binary.LittleEndian
	if flags&stateMask == elsewhere {
		return nil, false
	}
	*r = waypost.Record{State: waypost.State(flags & stateMask), Domain: waypost.DefaultDomain}
	if flags&flagDomain != 0 {
		r.Domain = waypost.DomainID(le.Uint32(b[at:]))
		at += 4
	}
	if flags&flagExpiry != 0 {
		r.ExpiresAt = int64(le.Uint64(b[at:]))
		at += 8
	}
	if i := flags >> statusShift & statusMask; i == otherStatus {
		r.Status = le.Uint16(b[at:])
	} else {
		r.Status = statuses[i%otherStatus]
	}
	r.Name = b[l.name:l.payload:l.payload]
	r.Kind = waypost.KindOf(r.Name)
	r.Payload = b[l.payload:l.extension:l.extension]
	return b[l.extension:l.end:l.end], true
}
