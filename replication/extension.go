package replication

import (
	"encoding/binary"
	"fmt"

	"waypost"
)

// extensionFlags is the type of the extension that holds waypost.LinkFlags, one
// byte; a longer value has more of a later version. It is written only when a flag
// is set.
const extensionFlags = 1

// Extensions gives the extension block of an encoded record that [DecodeRecord] has
// taken. It refers into b.
func Extensions(b []byte) []byte {
	return b[len(b)-int(binary.LittleEndian.Uint16(b[6:])):]
}

// DecodeExtensions fills in the fields of r that an extension block holds, for who
// keeps the block apart from the rest. It does not allocate unless it fails.
func DecodeExtensions(block []byte, r *waypost.Record) error {
	le := binary.LittleEndian
	r.Flags = 0
	rest := block
	for len(rest) > 0 {
		if len(block) > maxExtensions || len(rest) < 4 || 4+int(le.Uint16(rest[2:])) > len(rest) {
			return fmt.Errorf("%w: the extensions are malformed", ErrRecord)
		}
		kind, value := le.Uint16(rest), rest[4:4+int(le.Uint16(rest[2:]))]
		if kind == extensionFlags && len(value) > 0 {
			r.Flags = waypost.LinkFlags(value[0])
		}
		rest = rest[4+len(value):]
	}
	return nil
}

// appendExtensions appends the extension block of a record: type (2 bytes), length
// (2 bytes), value.
func appendExtensions(dst []byte, r *waypost.Record) []byte {
	if r.Flags == 0 {
		return dst
	}
	return append(dst, extensionFlags, 0, 1, 0, byte(r.Flags))
}
