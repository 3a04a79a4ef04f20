//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"iter"

	"golang.org/x/sys/unix"
)

// prepared is a snapshot that was made before it is taken, outside of the Go heap: making it is the source's work, and
// another machine's.
type prepared struct {
	ranges []preparedRange
}

// preparedRange is a range whose records lie one behind the other, each behind its length.
type preparedRange struct {
	slotRange // without its records
	text      []byte
}

func prepare(ranges iter.Seq[slotRange]) (_ *prepared, err error) {
	const piece = 64 << 20
	var free []byte
	p := &prepared{}
	for r := range ranges {
		size := 0
		for _, record := range r.records {
			size += 2 + len(record)
		}
		if size > len(free) {
			if free, err = unix.Mmap(-1, 0, max(piece, size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
				return nil, fmt.Errorf("making room for a snapshot: %w", err)
			}
		}
		text := free[:0:size]
		for _, record := range r.records {
			text = append(binary.LittleEndian.AppendUint16(text, uint16(len(record))), record...)
		}
		free = free[size:]
		p.ranges = append(p.ranges, preparedRange{slotRange{digest: r.digest, next: r.next}, text})
	}
	return p, nil
}

// all gives them as often as they are wanted.
func (p *prepared) all(yield func(slotRange) bool) {
	var records [][]byte
	for _, r := range p.ranges {
		records = records[:0]
		for text := r.text; len(text) > 0; {
			n := 2 + int(binary.LittleEndian.Uint16(text))
			records, text = append(records, text[2:n:n]), text[n:]
		}
		r.records = records
		if !yield(r.slotRange) {
			return
		}
	}
}
