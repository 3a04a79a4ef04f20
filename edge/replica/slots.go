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
	"waypost/internal/pacer"
	"waypost/replication"
)

// slotSum describes the records of a slot.
type slotSum struct {
	replication.Sum        // of the intact records
	rotten          error  // error of a damaged record; nil: there is none
	serving         uint64 // of them, links that redirect visitors
}

// errMisplaced means that a record lies under another record's key.
var errMisplaced = fmt.Errorf("%w: the record on disk is another link's", replication.ErrRecord)

// damagedSum is the sum of a slot with a damaged record. No source has that many.
var damagedSum = replication.Sum{Records: ^uint64(0)}

// comparable returns the sum that is compared with a source's.
func (s *slotSum) comparable() replication.Sum {
	if s.rotten != nil {
		return damagedSum
	}
	return s.Sum
}

// slotOf returns the slot of a record's key.
func slotOf(key []byte) uint16 { return binary.BigEndian.Uint16(key[1:]) }

// readRecord reads the record under a key, and compares it with its checksum and its
// place. The record refers to value.
func readRecord(key, value []byte, r *waypost.Record) error {
	err := judgeRecord(key, value, r)
	if errors.Is(err, replication.ErrContent) {
		err = nil
	}
	return err
}

// judgeRecord is readRecord, and returns replication.ErrContent for an intact record that
// must not be served.
func judgeRecord(key, value []byte, r *waypost.Record) error {
	err := replication.DecodeRecord(value, r)
	if err != nil && !errors.Is(err, replication.ErrContent) {
		return err
	}
	kind, domain, name, ok := parseRecordKey(key)
	if !ok || r.Kind != kind || r.Domain != domain || !bytes.Equal(r.Name, name) || waypost.Slot(kind, domain, name) != slotOf(key) {
		return errMisplaced
	}
	return err
}

// addUp adds up the records of the slots first to last into sums, one for each.
func addUp(ctx context.Context, from pebble.Reader, first, last uint16, sums []slotSum) error {
	it, err := from.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: slotKey(int(first)), UpperBound: slotKey(int(last) + 1)})
	if err != nil {
		return fmt.Errorf("add up slots: %w", err)
	}
	now := time.Now().UnixMilli()
	var pace pacer.Pacer
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		pace.Step()
		if err = ctx.Err(); err != nil {
			break
		}
		key := it.Key()
		sum := &sums[slotOf(key)-first]
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var r waypost.Record
		if rotten := readRecord(key, value, &r); rotten != nil {
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

// slotKey returns the key at which a slot's records begin.
func slotKey(slot int) []byte {
	return binary.BigEndian.AppendUint16([]byte{prefixRecord}, uint16(slot))
}
