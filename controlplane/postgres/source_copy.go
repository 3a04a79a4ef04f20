package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"waypost"
)

// copiedRecords reads the rows of selectRecords as COPY … (FORMAT binary) gives them: that
// takes a third of what reading the rows of a query does.
// https://www.postgresql.org/docs/15/sql-copy.html#id-1.9.3.55.9.4
type copiedRecords struct {
	visit   func(record []byte) error
	refused error // of visit; the rest is passed over

	started, ended bool
	rest           []byte // of a row that is not complete yet
	record         waypost.Record
	buf            []byte
}

var (
	copySignature = []byte("PGCOPY\n\377\r\n\x00")
	errCopy       = errors.New("what COPY has sent is not in its format")
)

const (
	copyHeader = 11 + 4 + 4 // signature, flags, length of the extension
	copyFields = 11
	// postgresEpoch is where the times of PostgreSQL begin, in Unix microseconds.
	postgresEpoch = 946_684_800_000_000
)

// Write implements io.Writer.
func (c *copiedRecords) Write(p []byte) (int, error) {
	b := p
	if len(c.rest) > 0 {
		c.rest = append(c.rest, p...)
		b = c.rest
	}
	for len(b) > 0 {
		n, err := c.next(b)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	c.rest = append(c.rest[:0], b...)
	return len(p), nil
}

// end says whether everything came.
func (c *copiedRecords) end() error {
	if !c.ended || len(c.rest) > 0 {
		return errCopy
	}
	return nil
}

// next takes what comes next, and says how long it was; 0: it is not complete yet.
func (c *copiedRecords) next(b []byte) (n int, err error) {
	if !c.started {
		if len(b) < copyHeader {
			return 0, nil
		}
		if !bytes.HasPrefix(b, copySignature) || binary.BigEndian.Uint64(b[11:]) != 0 {
			return 0, errCopy
		}
		c.started = true
		return copyHeader, nil
	}
	if len(b) < 2 {
		return 0, nil
	}
	switch fields := int16(binary.BigEndian.Uint16(b)); {
	case fields == -1 && !c.ended:
		c.ended = true
		return 2, nil
	case fields != copyFields || c.ended:
		return 0, errCopy
	}
	var row [copyFields][]byte // nil: null
	n = 2
	for i := range row {
		if len(b) < n+4 {
			return 0, nil
		}
		size := int(int32(binary.BigEndian.Uint32(b[n:])))
		n += 4
		if size < 0 {
			continue
		}
		if len(b) < n+size {
			return 0, nil
		}
		row[i] = b[n : n+size : n+size]
		n += size
	}
	if c.refused == nil {
		err = c.take(&row)
	}
	return n, err
}

// take makes a row a record and hands it on.
func (c *copiedRecords) take(row *[copyFields][]byte) error {
	var ints [copyFields]int64
	for i, field := range row {
		switch i {
		case 2, 7: // name and payload
			continue
		case 6:
			if field == nil {
				continue
			}
		}
		switch len(field) {
		case 2:
			ints[i] = int64(int16(binary.BigEndian.Uint16(field)))
		case 4:
			ints[i] = int64(int32(binary.BigEndian.Uint32(field)))
		case 8:
			ints[i] = int64(binary.BigEndian.Uint64(field))
		default:
			return fmt.Errorf("%w: a number of %d bytes", errCopy, len(field))
		}
	}
	r := &c.record
	*r = waypost.Record{
		Kind: waypost.Kind(ints[0]), Domain: waypost.DomainID(ints[1]), Name: row[2],
		State: waypost.State(ints[3]), Status: uint16(ints[4]), Flags: waypost.LinkFlags(ints[5]),
		Payload:  row[7],
		Revision: waypost.Revision{Epoch: uint32(ints[8]), Seq: uint64(ints[9])}, Stamp: uint64(ints[10]),
	}
	if row[6] != nil {
		expires := time.UnixMicro(ints[6] + postgresEpoch)
		r.ExpiresAt = millis(&expires)
	}
	c.buf = encode(c.buf[:0], r)
	c.refused = c.visit(c.buf)
	return nil
}
