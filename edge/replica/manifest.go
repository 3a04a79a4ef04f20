package replica

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost/replication"
)

// errManifest means that a store's MANIFEST, in which Pebble lists its tables, does not
// end with a whole record.
var errManifest = errors.New("the MANIFEST does not end with a whole record")

// checkManifest reads the MANIFEST of a store to its end, which Pebble does not: it takes
// the first record that it cannot read for the end, and forgets the tables that the
// others name. After a power cut that may be right, because the record was never
// finished.
func checkManifest(fs vfs.FS, dir string) error {
	desc, err := pebble.Peek(dir, fs)
	if err != nil {
		return fmt.Errorf("look for the MANIFEST: %w", err)
	}
	if !desc.Exists {
		return nil // Pebble refuses the store
	}
	f, err := fs.Open(desc.ManifestFilename)
	if err != nil {
		return fmt.Errorf("open the MANIFEST: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = readManifest(f, info.Size())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read the MANIFEST: %w", err)
	}
	return nil
}

// readManifest reads all records of a MANIFEST of some bytes.
func readManifest(from io.Reader, size int64) error {
	const block, header = 32 << 10, 7 // no header of a record spans two blocks
	records := record.NewReader(from, 0)
	for whole := int64(0); ; whole = records.Offset() {
		r, err := records.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		} else if errors.Is(err, io.EOF) {
			// The reader skips zeros, which only the end of a block may have.
			if left := size - whole; left > 0 && (size%block != 0 || left >= header) {
				return fmt.Errorf("%w: zeros follow byte %d of %d", errManifest, whole, size)
			}
			return nil
		}
		if err != nil && isErrno(err) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%w: after byte %d of %d: %w", errManifest, whole, size, err)
		}
	}
}

// newestInTables returns the newest sequence number of the keys in the tables of a store.
func newestInTables(pdb *pebble.DB) (newest pebble.SeqNum, err error) {
	levels, err := pdb.SSTables()
	if err != nil {
		return 0, fmt.Errorf("list the tables: %w", err)
	}
	for _, tables := range levels {
		for i := range tables {
			newest = max(newest, tables[i].LargestSeqNum)
		}
	}
	return newest, nil
}

// errOldNumbers means that the MANIFEST has lost the sequence numbers that were given to
// writes. Pebble uses them again, and would hide new records behind those in its tables.
var errOldNumbers = errors.New("the MANIFEST is older than the tables")

// judgeNumber reports why a batch that was applied does not count.
func (st *store) judgeNumber(b *pebble.Batch) error {
	newest := &st.guarded.newest
	if *newest == 0 {
		return nil
	}
	switch number := b.SeqNum(); {
	case number == 0: // Pebble has taken the batch's memory
	case number > *newest:
		*newest = 0
	default:
		err := fmt.Errorf("%w: a write has number %d, and tables have %d", errOldNumbers, number, *newest)
		st.health.fail(err, true)
		return fmt.Errorf("%w: %w", replication.ErrDiverged, err)
	}
	return nil
}
