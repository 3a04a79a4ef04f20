package replication

import (
	"encoding/binary"
	"fmt"

	"waypost"
)

// Extensions gives the extension block of an encoded record that [DecodeRecord] has
// taken. It refers into b.
func Extensions(b []byte) []byte {
	return b[len(b)-int(binary.LittleEndian.Uint16(b[6:])):]
}

// DecodeExtensions fills in the fields of r that an extension block holds, for who
// keeps the block apart from the rest. It does not allocate unless it fails.
func DecodeExtensions(block []byte, _ *waypost.Record) error {
	if len(block) > maxExtensions || !validExtensions(block) {
		return fmt.Errorf("%w: the extensions are malformed", ErrRecord)
	}
	return nil // this version knows none of them
}
