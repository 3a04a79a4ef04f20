package waypost

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// EpochID identifies one history of the changelog: 128 random bits.
type EpochID [16]byte

func (id EpochID) String() string { return hex.EncodeToString(id[:]) }

// Epoch is one history of the changelog. A new epoch is opened when PostgreSQL was failed
// over or restored, because sequence numbers may then mean other changes.
type Epoch struct {
	Ordinal uint32 // 1 of the first epoch; of later ones the minutes since 1970 at their opening, or more
	ID      EpochID
}

// Position is a point in the changelog: all transactions up to Seq of that epoch. The
// stamp is the random number of the transaction at Seq, which distinguishes two histories
// with the same count. Positions of different epochs are never compared.
type Position struct {
	Epoch Epoch
	Seq   uint64
	Stamp uint64
}

// IsZero reports whether p is the position of an empty replica.
func (p Position) IsZero() bool { return p == Position{} }

// Revision returns the position without the identity of its history.
func (p Position) Revision() Revision { return Revision{Epoch: p.Epoch.Ordinal, Seq: p.Seq} }

// String returns "ORDINAL-EPOCHID-SEQ-STAMP", as in the Waypost-Position header.
func (p Position) String() string {
	b := append(strconv.AppendUint(make([]byte, 0, 96), uint64(p.Epoch.Ordinal), 10), '-')
	b = append(hex.AppendEncode(b, p.Epoch.ID[:]), '-')
	b = append(strconv.AppendUint(b, p.Seq, 10), '-')
	return string(hex.AppendEncode(b, binary.BigEndian.AppendUint64(nil, p.Stamp)))
}

// MarshalText returns the text of [Position.String], for JSON and logs.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ParsePosition parses the text of [Position.String].
func ParsePosition(s string) (Position, error) {
	var p Position
	bad := Errorf(EInvalid, "position must be ORDINAL-EPOCHID-SEQ-STAMP")
	parts := strings.Split(s, "-")
	if len(s) > 96 || len(parts) != 4 || len(parts[1]) != 2*len(p.Epoch.ID) {
		return Position{}, bad
	}
	ordinal, err1 := strconv.ParseUint(parts[0], 10, 32)
	_, err2 := hex.Decode(p.Epoch.ID[:], []byte(parts[1]))
	seq, err3 := strconv.ParseUint(parts[2], 10, 63)
	stamp, err4 := strconv.ParseUint(parts[3], 16, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return Position{}, bad
	}
	p.Epoch.Ordinal, p.Seq, p.Stamp = uint32(ordinal), seq, stamp
	return p, nil
}

// Revision orders the versions of one row, by the transaction that wrote them.
type Revision struct {
	Epoch uint32 // ordinal
	Seq   uint64
}

// Newer reports whether r was written after o.
func (r Revision) Newer(o Revision) bool {
	return r.Epoch > o.Epoch || r.Epoch == o.Epoch && r.Seq > o.Seq
}
