package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"waypost"
	"waypost/rules"
)

// The one encoding of a record: written by the control plane, carried by the
// frames, and kept as the value in a replica. DESIGN.md has the table.
const (
	recordVersion    = 1
	recordHeaderSize = 48

	// MaxRecord bounds an encoded record, in bytes.
	MaxRecord = recordHeaderSize + waypost.MaxName + waypost.MaxPayload + waypost.MaxExtensions
)

var (
	// ErrRecord says that bytes are not a record: cut, rotten, of an unknown
	// version, or beyond the bounds. Nothing in them can be trusted.
	ErrRecord = errors.New("not a valid record")
	// ErrContent says that a record is sound as a record (key, revision and stamp
	// hold) but that its content breaks a rule and must never be served.
	ErrContent = errors.New("the record's content must not be served")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendRecord appends the encoding of r to dst. A record beyond waypost.MaxName
// or waypost.MaxPayload, or without a name, is encoded into bytes that [DecodeRecord]
// refuses, so a caller that makes records from input decodes its own encoding.
func AppendRecord(dst []byte, r *waypost.Record) []byte {
	start := len(dst)
	le := binary.LittleEndian
	dst = append(dst, recordVersion, byte(r.Kind), byte(r.State), byte(min(len(r.Name), 255)))
	dst = le.AppendUint16(dst, r.Status)
	ext := extensionsSize(r)
	dst = le.AppendUint16(dst, uint16(ext))
	dst = le.AppendUint32(dst, uint32(r.Domain))
	dst = le.AppendUint32(dst, r.Revision.Epoch)
	dst = le.AppendUint64(dst, r.Revision.Seq)
	dst = le.AppendUint64(dst, r.Stamp)
	dst = le.AppendUint64(dst, uint64(r.ExpiresAt))
	dst = le.AppendUint32(dst, uint32(min(len(r.Payload), waypost.MaxPayload+1)))
	dst = le.AppendUint32(dst, 0) // checksum, below
	dst = append(dst, r.Name...)
	dst = append(dst, r.Payload...)
	dst = appendExtensions(dst, r)
	b := dst[start:]
	le.PutUint32(b[44:], recordChecksum(b))
	return dst
}

// recordChecksum covers everything but itself, and so binds the content to the
// key: kind, domain and name.
func recordChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:44], castagnoli), castagnoli, b[recordHeaderSize:])
}

// DecodeRecord reads one record, which must fill b exactly. It does not allocate unless
// it fails, and r refers into b. The error wraps [ErrRecord], or [ErrContent]; after
// ErrContent, r is filled in nevertheless.
//
// Kinds that this version does not know decode like any other. Extensions are checked for
// form, and unknown extensions are passed over: callers that store or forward b keep
// them.
func DecodeRecord(b []byte, r *waypost.Record) error {
	if len(b) < recordHeaderSize {
		return fmt.Errorf("%w: %d bytes are less than a header", ErrRecord, len(b))
	}
	if b[0] != recordVersion {
		return fmt.Errorf("%w: version %d is unknown", ErrRecord, b[0])
	}
	le := binary.LittleEndian
	name, extensions, payload := int(b[3]), int(le.Uint16(b[6:])), uint64(le.Uint32(b[40:]))
	if name < 1 || name > waypost.MaxName || extensions > waypost.MaxExtensions || payload > waypost.MaxPayload {
		return fmt.Errorf("%w: lengths %d, %d, %d are out of bounds", ErrRecord, name, payload, extensions)
	}
	if recordHeaderSize+name+int(payload)+extensions != len(b) {
		return fmt.Errorf("%w: its length is not %d", ErrRecord, len(b))
	}
	if le.Uint32(b[44:]) != recordChecksum(b) {
		return fmt.Errorf("%w: the checksum does not hold", ErrRecord)
	}
	if err := DecodeExtensions(fillRecord(b, r), r); err != nil {
		return err
	}
	if r.Kind.IsLink() {
		return checkLink(r)
	}
	return nil
}

// RereadRecord is DecodeRecord for bytes that it has taken, or refused with
// [ErrContent], and judges nothing. It returns the extensions, too.
func RereadRecord(b []byte, r *waypost.Record) (extensions []byte) {
	extensions = fillRecord(b, r)
	if len(extensions) > 0 {
		_ = DecodeExtensions(extensions, r) // they were judged
	}
	return extensions
}

// fillRecord reads everything except the extensions, which it returns.
func fillRecord(b []byte, r *waypost.Record) (extensions []byte) {
	le, body, name, payload := binary.LittleEndian, b[recordHeaderSize:], int(b[3]), int(binary.LittleEndian.Uint32(b[40:]))
	*r = waypost.Record{
		Kind:   waypost.Kind(b[1]),
		State:  waypost.State(b[2]),
		Status: le.Uint16(b[4:]),
		Domain: waypost.DomainID(le.Uint32(b[8:])),
		Name:   body[:name:name],
		Revision: waypost.Revision{
			Epoch: le.Uint32(b[12:]),
			Seq:   le.Uint64(b[16:]),
		},
		Stamp:     le.Uint64(b[24:]),
		ExpiresAt: int64(le.Uint64(b[32:])),
		Payload:   body[name : name+payload : name+payload],
	}
	return body[name+payload:]
}

// RecordName returns the name of a record that [DecodeRecord] has taken, and
// RecordRevision its revision.
func RecordName(record []byte) []byte {
	return record[recordHeaderSize : recordHeaderSize+int(record[3])]
}

// RecordRevision is described with [RecordName].
func RecordRevision(record []byte) waypost.Revision {
	le := binary.LittleEndian
	return waypost.Revision{Epoch: le.Uint32(record[12:]), Seq: le.Uint64(record[16:])}
}

// checkLink finds content that must never be served, whatever wrote the row: a location
// that could split a response header, a status that is no redirect, or damaged rules.
// Rules of a later version pass, and lead to the link's own target.
func checkLink(r *waypost.Record) error {
	if hasControl(r.Payload) {
		return fmt.Errorf("%w: a control byte in a location", ErrContent)
	}
	if r.State != waypost.Live && r.State != waypost.Disabled {
		return nil // answers 410 or nothing, whatever the rest says
	}
	if len(r.Payload) == 0 {
		return fmt.Errorf("%w: an empty location", ErrContent)
	}
	if rules.Known(r.Programme) || len(r.Programme) > waypost.MaxProgramme {
		if err := rules.Check(r.Programme); err != nil {
			return fmt.Errorf("%w: %w", ErrContent, err)
		}
	}
	switch r.Status {
	case 301, 302, 307, 308:
		return nil
	}
	return fmt.Errorf("%w: status %d is no redirect", ErrContent, r.Status)
}

// hasControl looks for bytes below 0x20 and 0x7f, eight at a time.
// https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord
func hasControl(b []byte) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		del := x ^ 0x7f*each
		if ((x-0x20*each)&^x|(del-each)&^del)&high != 0 {
			return true
		}
	}
	for _, c := range b {
		if c < 0x20 || c == 0x7f {
			return true
		}
	}
	return false
}

// The types of extensions. An extension is written only when it says something.
const (
	extensionFlags     = 1 // waypost.LinkFlags, one byte; a longer value has more of a later version
	extensionProgramme = 2 // of rules
)

// Extensions returns the extension block of an encoded record that [DecodeRecord] has
// taken. It refers into b.
func Extensions(b []byte) []byte {
	return b[len(b)-int(binary.LittleEndian.Uint16(b[6:])):]
}

// DecodeExtensions fills in the fields of r that an extension block holds, for stores
// that keep the block apart. It does not allocate unless it fails.
func DecodeExtensions(block []byte, r *waypost.Record) error {
	le := binary.LittleEndian
	r.Flags, r.Programme = 0, nil
	rest := block
	for len(rest) > 0 {
		if len(block) > waypost.MaxExtensions || len(rest) < 4 || 4+int(le.Uint16(rest[2:])) > len(rest) {
			return fmt.Errorf("%w: the extensions are malformed", ErrRecord)
		}
		kind, value := le.Uint16(rest), rest[4:4+int(le.Uint16(rest[2:]))]
		switch {
		case kind == extensionFlags && len(value) > 0:
			r.Flags = waypost.LinkFlags(value[0])
		case kind == extensionProgramme && len(value) > 0:
			r.Programme = value[:len(value):len(value)]
		}
		rest = rest[4+len(value):]
	}
	return nil
}

// appendExtensions appends the extension block of a record: type (2 bytes), length
// (2 bytes), value.
func appendExtensions(dst []byte, r *waypost.Record) []byte {
	if r.Flags != 0 {
		dst = append(dst, extensionFlags, 0, 1, 0, byte(r.Flags))
	}
	if n := programmeSize(r); n > 0 {
		dst = append(dst, extensionProgramme, 0, byte(n), byte(n>>8))
		dst = append(dst, r.Programme[:n]...)
	}
	return dst
}

// extensionsSize returns the number of bytes that appendExtensions appends.
func extensionsSize(r *waypost.Record) (n int) {
	if r.Flags != 0 {
		n = extensionHead + 1
	}
	if p := programmeSize(r); p > 0 {
		n += extensionHead + p
	}
	return n
}

const extensionHead = 4

// programmeSize returns the length of a record's programme. It cuts an oversized
// programme, so that the record is refused as damaged.
func programmeSize(r *waypost.Record) int { return min(len(r.Programme), waypost.MaxProgramme+1) }
