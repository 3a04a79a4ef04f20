package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"waypost"
	"waypost/internal/atomicfile"
	"waypost/replication"
)

// Format is the version of the file.
const Format = 1

// The file is a line of text, and then for each statement its length (2), the statement
// with its signature, and the CRC-32C of these (4), little-endian. It is written as a
// whole.
var header = fmt.Sprintf("waypost blocks %d\n", Format)

const maxFile = 64 + waypost.MaxBlocks*(replication.MaxSignedBlock+6)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open reads the file, keeps blocks in it from then on, and reads the list made by hand;
// isDefault reports whether a host belongs to the default domain. Open takes the readable
// blocks of a damaged file and sets the file aside. It is called once.
func (b *Blocks) Open(file, list string, isDefault func(host string) bool) {
	b.mu.Lock()
	b.file = file
	b.mu.Unlock()
	if err := b.load(); err != nil {
		b.cfg.Logger.Error("cannot read all blocks of codes; the file is set aside, and the control plane and other edges have the rest",
			"error", err)
		if err := atomicfile.SetAside(file); err != nil {
			b.cfg.Logger.Error("cannot set the blocks of codes aside", "error", err)
		}
	}
	b.known = b.Order()
	b.list.path, b.list.isDefault = list, isDefault
	b.readList()
	close(b.opened)
}

// load adds the blocks of the file.
func (b *Blocks) load() error {
	b.mu.Lock()
	file := b.file
	b.mu.Unlock()
	all, err := read(file)
	_, full := b.Take(all...)
	return errors.Join(err, full)
}

// read returns the statements in a file that can be read; none when there is no file.
func read(file string) (all []replication.SignedBlock, err error) {
	text, err := atomicfile.Read(file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(text) < len(header) || string(text[:len(header)]) != header {
		return nil, fmt.Errorf("%s is no file of blocks of version %d", file, Format)
	}
	var damaged error
	for rest := text[len(header):]; len(rest) > 0; {
		if len(rest) < 2 {
			return all, fmt.Errorf("%s ends too early", file)
		}
		n := int(binary.LittleEndian.Uint16(rest))
		if len(rest) < 2+n+4 {
			return all, fmt.Errorf("%s ends too early", file)
		}
		block, err := replication.DecodeBlock(rest[2 : 2+n])
		if err == nil && crc32.Checksum(rest[:2+n], castagnoli) != binary.LittleEndian.Uint32(rest[2+n:]) {
			err = errors.New("a checksum does not hold")
		}
		if err == nil {
			all = append(all, block)
		} else {
			damaged = fmt.Errorf("%s: %w", file, err)
		}
		rest = rest[2+n+4:]
	}
	return all, damaged
}

// save writes the file unless it has all statements.
func (b *Blocks) save() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	present, err := read(b.file)
	if err != nil {
		b.cfg.Logger.Warn("writing a damaged file of blocks again", "error", err)
	}
	var there replication.BlockSet
	_, _ = there.Take(present...) // it has room for as many as this one
	if err == nil && there.Digest() == b.Digest() {
		return nil
	}
	all := b.All()
	text := []byte(header)
	for i := range all {
		at := len(text)
		text = replication.AppendBlock(append(text, 0, 0), &all[i])
		binary.LittleEndian.PutUint16(text[at:], uint16(len(text)-at-2))
		text = binary.LittleEndian.AppendUint32(text, crc32.Checksum(text[at:], castagnoli))
	}
	return atomicfile.Write(b.file, text, 0o600)
}
