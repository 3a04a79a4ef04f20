package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"waypost"
	"waypost/replication"
)

// Keys in a store begin with one byte that says what they are.
const (
	prefixMeta   = 'm'
	prefixRecord = 'r' // slot (2), kind (1), domain (4), all big-endian, name
)

var (
	stateKey  = []byte{prefixMeta, 's'}
	repairKey = []byte{prefixMeta, 'r'} // is there while a repair is under way
)

const recordKeyHeader = 1 + 2 + 1 + 4

// appendRecordKey appends the key of a record. Records of a slot lie together, so
// that a slot can be read, compared and replaced by itself.
func appendRecordKey(dst []byte, slot uint16, kind waypost.Kind, domain waypost.DomainID, name []byte) []byte {
	dst = append(dst, prefixRecord)
	dst = binary.BigEndian.AppendUint16(dst, slot)
	dst = append(dst, byte(kind))
	dst = binary.BigEndian.AppendUint32(dst, uint32(domain))
	return append(dst, name...)
}

// parseRecordKey takes the key of a record apart, and is false for all other keys.
func parseRecordKey(key []byte) (kind waypost.Kind, domain waypost.DomainID, name []byte, ok bool) {
	if len(key) < recordKeyHeader || key[0] != prefixRecord {
		return 0, 0, nil, false
	}
	return waypost.Kind(key[3]), waypost.DomainID(binary.BigEndian.Uint32(key[4:])), key[recordKeyHeader:], true
}

// appendStored appends what a store of that format keeps of a record.
func appendStored(dst []byte, format uint32, raw []byte) []byte {
	if format < compactFormat {
		return append(dst, raw...)
	}
	return replication.Compact(dst, raw)
}

// appendRecord appends the record that a store keeps as value under a key.
func appendRecord(dst, key, value []byte) ([]byte, error) {
	kind, domain, name, ok := parseRecordKey(key)
	if !ok {
		return dst, fmt.Errorf("%w: a key of %d bytes", replication.ErrRecord, len(key))
	}
	return replication.Expand(dst, value, kind, domain, name)
}

// state is what a store holds, written in the same batch as the rows.
type state struct {
	format   uint32
	cluster  replication.Cluster
	position waypost.Position
	digest   uint64 // XOR of the stamps of all records
	records  uint64 // how many there are

	// A repair is under way, which the key repairKey says on disk: slots are of different
	// positions. The position is the epoch alone, so that no source takes it for one.
	repairing bool
}

// storeFormat numbers the layout of a store. It also grows with Pebble's own
// format, so that an older binary never opens what it cannot read. A store of an
// older format is read and written as it is, until a snapshot replaces it.
const (
	firstFormat   = 1 // records in full
	compactFormat = 2 // records in the compact form
	storeFormat   = compactFormat
)

// Format is the layout of the stores that this version writes, and the newest that it
// reads.
const Format = storeFormat

const stateSize = 4 + 16 + 4 + 16 + 8 + 8 + 8 + 8 + 4

// errNewerFormat says that the data were written by a newer version of this
// program; nothing was touched.
var errNewerFormat = errors.New("the replica was written by a newer version of waypost: run that version, or remove the directory to take a new snapshot")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *state) append(dst []byte) []byte {
	start, le := len(dst), binary.LittleEndian
	dst = le.AppendUint32(dst, s.format)
	dst = append(dst, s.cluster[:]...)
	dst = le.AppendUint32(dst, s.position.Epoch.Ordinal)
	dst = append(dst, s.position.Epoch.ID[:]...)
	dst = le.AppendUint64(dst, s.position.Seq)
	dst = le.AppendUint64(dst, s.position.Stamp)
	dst = le.AppendUint64(dst, s.digest)
	dst = le.AppendUint64(dst, s.records)
	return le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func decodeState(b []byte) (s state, err error) {
	le := binary.LittleEndian
	if len(b) >= 4 && le.Uint32(b) > storeFormat {
		return s, errNewerFormat
	}
	if len(b) != stateSize || le.Uint32(b) < firstFormat || le.Uint32(b[stateSize-4:]) != crc32.Checksum(b[:stateSize-4], castagnoli) {
		return s, fmt.Errorf("the store's state of %d bytes is not one of format %d or older", len(b), storeFormat)
	}
	s.format = le.Uint32(b)
	copy(s.cluster[:], b[4:])
	s.position.Epoch.Ordinal = le.Uint32(b[20:])
	copy(s.position.Epoch.ID[:], b[24:])
	s.position.Seq = le.Uint64(b[40:])
	s.position.Stamp = le.Uint64(b[48:])
	s.digest = le.Uint64(b[56:])
	s.records = le.Uint64(b[64:])
	return s, nil
}
