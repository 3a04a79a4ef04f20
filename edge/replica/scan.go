package replica

import (
	"context"
	"errors"

	"waypost"
	"waypost/replication"
)

// Records visits every record that the live store holds, as encoded, at one
// position, which it gives. What visit gets is its own only until it returns.
func (db *DB) Records(ctx context.Context, visit func(record []byte) error) (waypost.Position, error) {
	st := db.pin(0)
	if st == nil {
		return waypost.Position{}, nil
	}
	defer st.unpin(0)
	s, err := st.scan(ctx, visit)
	return s.position, err
}

// Recompute reads every record and gives the digest and the count that they make,
// to be held against what is kept along.
func (db *DB) Recompute(ctx context.Context) (digest, records uint64, err error) {
	_, err = db.Records(ctx, func(raw []byte) error {
		var r waypost.Record
		if err := replication.DecodeRecord(raw, &r); err != nil && !errors.Is(err, replication.ErrContent) {
			return err
		}
		digest ^= r.Stamp
		records++
		return nil
	})
	return digest, records, err
}
