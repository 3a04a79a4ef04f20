package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// Keys in a store begin with one byte for their kind.
const (
	prefixMeta   = 'm'
	prefixRecord = 'r' // slot (2), kind (1), domain (4), all big-endian, name
)

var (
	stateKey  = []byte{prefixMeta, 's'}
	repairKey = []byte{prefixMeta, 'r'} // present while a repair is under way

	recordStart, recordEnd = []byte{prefixRecord}, []byte{prefixRecord + 1}
)

const recordKeyHeader = 1 + 2 + 1 + 4

// appendRecordKey appends the key of a record. Records of a slot lie together, so that a
// slot can be read, compared and replaced alone.
func appendRecordKey(dst []byte, slot uint16, kind waypost.Kind, domain waypost.DomainID, name []byte) []byte {
	dst = append(dst, prefixRecord)
	dst = binary.BigEndian.AppendUint16(dst, slot)
	dst = append(dst, byte(kind))
	dst = binary.BigEndian.AppendUint32(dst, uint32(domain))
	return append(dst, name...)
}

// parseRecordKey splits the key of a record, and returns false for all other keys.
func parseRecordKey(key []byte) (kind waypost.Kind, domain waypost.DomainID, name []byte, ok bool) {
	if len(key) < recordKeyHeader || key[0] != prefixRecord {
		return 0, 0, nil, false
	}
	return waypost.Kind(key[3]), waypost.DomainID(binary.BigEndian.Uint32(key[4:])), key[recordKeyHeader:], true
}

// state describes the content of a store. It is written in the same batch as the rows.
type state struct {
	cluster  replication.Cluster
	position waypost.Position
	digest   uint64 // XOR of the stamps of all records
	records  uint64 // how many there are

	// repairing means that slots are of different positions, because a repair is under way.
	// On disk the key repairKey says so. The position is the epoch alone then, so that no
	// source accepts it.
	repairing bool
}

// storeFormat numbers the layout of a store. It also grows with Pebble's own format, so
// that an older binary never opens a store that it cannot read.
const storeFormat = 1

// Format is the layout of the stores that this version reads and writes.
const Format = storeFormat

const stateSize = 4 + 16 + 4 + 16 + 8 + 8 + 8 + 8 + 4

// errNewerFormat means that a newer version of this program wrote the data. Nothing was
// changed.
var errNewerFormat = errors.New("the replica was written by a newer version of waypost: run that version, or remove the directory to take a new snapshot")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *state) append(dst []byte) []byte {
	start, le := len(dst), binary.LittleEndian
	dst = le.AppendUint32(dst, storeFormat)
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
	if len(b) != stateSize || le.Uint32(b) != storeFormat || le.Uint32(b[stateSize-4:]) != crc32.Checksum(b[:stateSize-4], castagnoli) {
		return s, fmt.Errorf("the store's state of %d bytes is not of format %d", len(b), storeFormat)
	}
	copy(s.cluster[:], b[4:])
	s.position.Epoch.Ordinal = le.Uint32(b[20:])
	copy(s.position.Epoch.ID[:], b[24:])
	s.position.Seq = le.Uint64(b[40:])
	s.position.Stamp = le.Uint64(b[48:])
	s.digest = le.Uint64(b[56:])
	s.records = le.Uint64(b[64:])
	return s, nil
}

// readState reads the state of a store, or of a Pebble snapshot of one.
func readState(from pebble.Reader) (s state, err error) {
	raw, closer, err := from.Get(stateKey)
	if err != nil {
		return s, err
	}
	s, err = decodeState(raw)
	if err = errors.Join(err, closer.Close()); err != nil {
		return s, err
	}
	switch _, closer, err := from.Get(repairKey); {
	case err == nil:
		s.repairing = true
		return s, closer.Close()
	case !errors.Is(err, pebble.ErrNotFound):
		return s, err
	}
	return s, nil
}

// markRepair writes, or removes, the mark of a repair in the batch that begins or ends
// it.
func markRepair(b *pebble.Batch, was, is bool) (err error) {
	switch {
	case is && !was:
		err = errors.Join(b.Set(repairKey, nil, nil), b.DeleteRange(logStart, logEnd, nil))
	case was && !is:
		err = b.Delete(repairKey, nil)
	}
	if err != nil {
		return fmt.Errorf("mark a repair: %w", err)
	}
	return nil
}
