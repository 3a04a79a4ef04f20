package lookup

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"waypost"
)

// A record in the table is what an answer needs and no more:
//
//	0  CRC-32C of all that follows
//	4  flags
//	5  length of the name
//	6  length of the payload
//	8  domain (4), expiry (8), status (2), length of the extensions (2): each only if flagged
//	   name, payload, extensions
//
// Numbers are little-endian. There is no padding.
const recordHead = 8

const (
	stateMask     = 0b11 // waypost.State; elsewhere: what there is, is in the store only
	elsewhere     = 0b11
	statusShift   = 2 // index in statuses; otherStatus: flagged field
	statusMask    = 0b111
	otherStatus   = 4
	flagDomain    = 1 << 5 // else the default one
	flagExpiry    = 1 << 6 // else never
	flagExtension = 1 << 7 // else none
)

var statuses = [otherStatus]uint16{301, 302, 307, 308}

// maxExtensions bounds the extensions of a record, in bytes.
const maxExtensions = 1 << 12

// maxRecord bounds a record in the table.
const maxRecord = recordHead + 4 + 8 + 2 + 2 + waypost.MaxName + waypost.MaxPayload + maxExtensions

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flagsOf gives the flags of a record, and false when the table cannot hold it.
func flagsOf(r *waypost.Record, ext []byte) (flags byte, fits bool) {
	if r.Kind != waypost.KindLink || len(r.Name) == 0 || len(r.Name) > waypost.MaxName ||
		len(r.Payload) > waypost.MaxPayload || len(ext) > maxExtensions || r.State >= elsewhere {
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

// appendRecord appends what the table keeps of a record. One that it cannot hold is
// kept as a mark that there is something, which only the store can tell.
func appendRecord(dst []byte, r *waypost.Record, ext []byte) []byte {
	flags, fits := flagsOf(r, ext)
	payload := r.Payload
	if !fits {
		payload, ext = nil, nil
		if r.Domain != waypost.DefaultDomain {
			flags |= flagDomain
		}
	}
	start, le := len(dst), binary.LittleEndian
	dst = append(dst, 0, 0, 0, 0, flags, byte(len(r.Name)))
	dst = le.AppendUint16(dst, uint16(len(payload)))
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
	le.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

// layout says where the parts of a record lie.
type layout struct {
	name, payload, extension, end int
}

// layoutOf reads the layout of the record that b begins with, and false when that
// does not lie within b. Of what it says, nothing is certain but that.
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
	l.payload = at + int(b[5])
	l.extension = l.payload + int(binary.LittleEndian.Uint16(b[6:]))
	l.end = l.extension + extension
	return l, l.end <= len(b)
}

// domainOf gives the domain of a record whose layout is known.
func domainOf(b []byte) waypost.DomainID {
	if b[4]&flagDomain == 0 {
		return waypost.DefaultDomain
	}
	return waypost.DomainID(binary.LittleEndian.Uint32(b[recordHead:]))
}

// has reports whether a record of that layout is the one of a key.
func (l layout) has(b []byte, domain waypost.DomainID, name []byte) bool {
	return bytes.Equal(b[l.name:l.payload], name) && domainOf(b) == domain
}

// intact reports whether a whole record is what was written.
func intact(b []byte) bool {
	return binary.LittleEndian.Uint32(b) == crc32.Checksum(b[4:], castagnoli)
}

// decode fills in a record from an intact one, to whose bytes it then refers. It
// is false for a mark.
func (l layout) decode(b []byte, r *waypost.Record) (extensions []byte, ok bool) {
	flags, at, le := b[4], recordHead, binary.LittleEndian
	if flags&stateMask == elsewhere {
		return nil, false
	}
	r.Kind, r.State, r.Domain = waypost.KindLink, waypost.State(flags&stateMask), waypost.DefaultDomain
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
	r.Payload = b[l.payload:l.extension:l.extension]
	return b[l.extension:l.end:l.end], true
}
