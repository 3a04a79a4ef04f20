package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// slotSum is what a slot was found to hold.
type slotSum struct {
	replication.Sum        // of the records that are what was written
	rotten          error  // why another is not; nil: all are
	serving         uint64 // of them, links that lead visitors somewhere
}

// unlike is the sum of a slot with a record that is not what was written: no source has
// that many.
var unlike = replication.Sum{Records: ^uint64(0)}

// told is the sum as it is compared with a source's.
func (s *slotSum) told() replication.Sum {
	if s.rotten != nil {
		return unlike
	}
	return s.Sum
}

// slotOf is the slot that a key lies in, which slotKey bounds.
func slotOf(key []byte) uint16 { return binary.BigEndian.Uint16(key[1:]) }

// readRecord reads the record that is kept as value under a key of a slot into buf, and
// holds it against its checksum and its place.
func readRecord(buf, key, value []byte, slot uint16, r *waypost.Record) ([]byte, error) {
	buf, err := appendRecord(buf[:0], key, value)
	if err == nil {
		err = replication.DecodeRecord(buf, r)
	}
	if err != nil && !errors.Is(err, replication.ErrContent) {
		return buf, err
	}
	kind, domain, name, _ := parseRecordKey(key)
	if r.Kind != kind || r.Domain != domain || !bytes.Equal(r.Name, name) || waypost.Slot(kind, domain, name) != slot {
		return buf, errMislaid
	}
	return buf, nil
}

// addUp adds up the slots first to last as a reader shows them, into sums, one for each.
func addUp(ctx context.Context, from pebble.Reader, first, last uint16, sums []slotSum) error {
	it, err := from.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: slotKey(int(first)), UpperBound: slotKey(int(last) + 1)})
	if err != nil {
		return fmt.Errorf("add up slots: %w", err)
	}
	var buf []byte
	now := time.Now().UnixMilli()
	var pace pacer
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		pace.step()
		if err = ctx.Err(); err != nil {
			break
		}
		key := it.Key()
		slot := slotOf(key)
		sum := &sums[slot-first]
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var r waypost.Record
		var rotten error
		if buf, rotten = readRecord(buf, key, value, slot, &r); rotten != nil {
			sum.rotten = rotten
			continue
		}
		sum.Digest ^= r.Stamp
		sum.Records++
		sum.serving += count(replication.Serves(&r, now))
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("add up slots: %w", err)
	}
	return nil
}

// slotKey is where a slot's records begin.
func slotKey(slot int) []byte {
	return binary.BigEndian.AppendUint16([]byte{prefixRecord}, uint16(slot))
}
