package replication

import (
	"encoding/binary"
	"fmt"

	"waypost"
)

// The compact form of a record is for stores that keep it under a key which says its
// kind, domain and name. It begins with another byte than a record does:
//
//	2, state, flags (1: expires, 2: has extensions, of others none)
//	status, epoch, sequence, and if flagged the length of the extensions: unsigned varints
//	if flagged the expiry (8); checksum (4), stamp (8), payload, extensions
//
// It leaves nothing out: the checksum is that of the record, and covers the key.
const (
	compactVersion = 2

	compactExpires   = 1 << 0
	compactExtension = 1 << 1
)

// Compact appends the compact form of a record that [DecodeRecord] has taken.
func Compact(dst, record []byte) []byte {
	le := binary.LittleEndian
	name, extensions := int(record[3]), le.Uint16(record[6:])
	var flags byte
	if le.Uint64(record[32:]) != 0 {
		flags |= compactExpires
	}
	if extensions != 0 {
		flags |= compactExtension
	}
	dst = append(dst, compactVersion, record[2], flags)
	dst = binary.AppendUvarint(dst, uint64(le.Uint16(record[4:])))
	dst = binary.AppendUvarint(dst, uint64(le.Uint32(record[12:])))
	dst = binary.AppendUvarint(dst, le.Uint64(record[16:]))
	if flags&compactExtension != 0 {
		dst = binary.AppendUvarint(dst, uint64(extensions))
	}
	if flags&compactExpires != 0 {
		dst = append(dst, record[32:40]...)
	}
	dst = append(dst, record[44:48]...)
	dst = append(dst, record[24:32]...)
	return append(dst, record[recordHeaderSize+name:]...)
}

// Expand appends the record whose compact form b is; a record in full it appends as
// it is. What it appends is judged by DecodeRecord only.
func Expand(dst, b []byte, kind waypost.Kind, domain waypost.DomainID, name []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != compactVersion {
		return append(dst, b...), nil
	}
	bad := func() ([]byte, error) { return dst, fmt.Errorf("%w: it does not expand", ErrRecord) }
	if len(b) < 3 || b[2]&^(compactExpires|compactExtension) != 0 || len(name) > waypost.MaxName {
		return bad()
	}
	state, flags, rest, le := b[1], b[2], b[3:], binary.LittleEndian
	var numbers [4]uint64 // status, epoch, sequence, length of the extensions
	for i, most := range [...]uint64{1<<16 - 1, 1<<32 - 1, 1<<64 - 1, maxExtensions} {
		if i == 3 && flags&compactExtension == 0 {
			break
		}
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > most {
			return bad()
		}
		numbers[i], rest = n, rest[size:]
	}
	var expires uint64
	if flags&compactExpires != 0 {
		if len(rest) < 8 {
			return bad()
		}
		expires, rest = le.Uint64(rest), rest[8:]
	}
	extensions := int(numbers[3])
	if len(rest) < 12+extensions || len(rest) > 12+extensions+waypost.MaxPayload {
		return bad()
	}
	dst = append(dst, recordVersion, byte(kind), state, byte(len(name)))
	dst = le.AppendUint16(dst, uint16(numbers[0]))
	dst = le.AppendUint16(dst, uint16(extensions))
	dst = le.AppendUint32(dst, uint32(domain))
	dst = le.AppendUint32(dst, uint32(numbers[1]))
	dst = le.AppendUint64(dst, numbers[2])
	dst = append(dst, rest[4:12]...)
	dst = le.AppendUint64(dst, expires)
	dst = le.AppendUint32(dst, uint32(len(rest)-12-extensions))
	dst = append(dst, rest[:4]...)
	dst = append(dst, name...)
	return append(dst, rest[12:]...), nil
}
