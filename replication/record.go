package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"waypost"
)

// The one encoding of a record: written by the control plane, carried by the
// frames, and kept as the value in a replica. DESIGN.md has the table.
const (
	recordVersion    = 1
	recordHeaderSize = 48
	maxExtensions    = 4096

	// MaxRecord bounds an encoded record, in bytes.
	MaxRecord = recordHeaderSize + waypost.MaxName + waypost.MaxPayload + maxExtensions
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
// or waypost.MaxPayload, or without a name, is encoded into bytes that
// [DecodeRecord] refuses: who makes records from input decodes what it made.
func AppendRecord(dst []byte, r *waypost.Record) []byte {
	start := len(dst)
	le := binary.LittleEndian
	dst = append(dst, recordVersion, byte(r.Kind), byte(r.State), byte(min(len(r.Name), 255)))
	dst = le.AppendUint16(dst, r.Status)
	var extensions [5]byte
	ext := appendExtensions(extensions[:0], r)
	dst = le.AppendUint16(dst, uint16(len(ext)))
	dst = le.AppendUint32(dst, uint32(r.Domain))
	dst = le.AppendUint32(dst, r.Revision.Epoch)
	dst = le.AppendUint64(dst, r.Revision.Seq)
	dst = le.AppendUint64(dst, r.Stamp)
	dst = le.AppendUint64(dst, uint64(r.ExpiresAt))
	dst = le.AppendUint32(dst, uint32(min(len(r.Payload), waypost.MaxPayload+1)))
	dst = le.AppendUint32(dst, 0) // checksum, below
	dst = append(dst, r.Name...)
	dst = append(dst, r.Payload...)
	dst = append(dst, ext...)
	b := dst[start:]
	le.PutUint32(b[44:], recordChecksum(b))
	return dst
}

// recordChecksum covers everything but itself, and so binds the content to the
// key: kind, domain and name.
func recordChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:44], castagnoli), castagnoli, b[recordHeaderSize:])
}

// DecodeRecord reads one record, which must fill b exactly. It does not allocate
// unless it fails, and r refers into b. The error wraps [ErrRecord], or
// [ErrContent], with which r is filled in all the same.
//
// Kinds that this version does not know decode like any other. Extensions are
// checked for form, and those that it does not know are passed over: who stores or
// forwards b keeps them.
func DecodeRecord(b []byte, r *waypost.Record) error {
	if len(b) < recordHeaderSize {
		return fmt.Errorf("%w: %d bytes are less than a header", ErrRecord, len(b))
	}
	if b[0] != recordVersion {
		return fmt.Errorf("%w: version %d is unknown", ErrRecord, b[0])
	}
	le := binary.LittleEndian
	name, extensions, payload := int(b[3]), int(le.Uint16(b[6:])), uint64(le.Uint32(b[40:]))
	if name < 1 || name > waypost.MaxName || extensions > maxExtensions || payload > waypost.MaxPayload {
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
	if r.Kind == waypost.KindLink {
		return checkLink(r)
	}
	return nil
}

// RereadRecord is DecodeRecord for bytes that it has taken, or refused with
// [ErrContent], and judges nothing. It gives the extensions, too.
func RereadRecord(b []byte, r *waypost.Record) (extensions []byte) {
	extensions = fillRecord(b, r)
	if len(extensions) > 0 {
		_ = DecodeExtensions(extensions, r) // they were judged
	}
	return extensions
}

// fillRecord reads everything but the extensions, which it gives.
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

// RecordName gives the name of a record that [DecodeRecord] has taken, and RecordRevision
// its revision.
func RecordName(record []byte) []byte {
	return record[recordHeaderSize : recordHeaderSize+int(record[3])]
}

// RecordRevision is described with [RecordName].
func RecordRevision(record []byte) waypost.Revision {
	le := binary.LittleEndian
	return waypost.Revision{Epoch: le.Uint32(record[12:]), Seq: le.Uint64(record[16:])}
}

// checkLink keeps what could split a response header, or is no redirect, from
// ever being served, whoever wrote the row.
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
