package clicks

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/internal/pacer"
)

// A compacted segment holds clicks of a boot that are in no batch yet, in less room than
// segments. It has no identity, so that compacted segments can be merged, with less
// detail, as long as none of their clicks was sent. Its file is
//
//	blocks, one after the other: each a batch of api/clickbatch, zstd
//	"WPCLICKF", version 1, grade, 2 bytes zero
//	boot, 16 bytes
//	number, 8 bytes
//	the newest batch of the boot when it was made, 8 bytes
//	length of the node, 1 byte; the node
//	the checkpoint
//	number of blocks, 4 bytes
//	for each block: length, 4 bytes; CRC-32C, 4 bytes; clicks, 8 bytes
//	CRC-32C of all that from the magic on, 4 bytes
//	length of all that from the magic on, 4 bytes
//
// with little-endian numbers. Links are in order, by domain and code, over all blocks. A
// link with more clicks than a block may hold continues in the next one. Each block is
// small enough to become a batch as it is.
const (
	compactedMagic   = "WPCLICKF"
	compactedVersion = 1
	compactedHead    = 8 + 4 + 16 + 8 + 8 + 1
	compactedTail    = 4 + 4
	maxFoot          = 8 << 20

	maxBlockLinks = 16_384
	maxBlockRows  = 65_536 // and as many visitors
)

// grade says how much detail a compacted segment keeps.
type grade uint8

const (
	exactGrade   grade = iota // clicks have their time
	quarterGrade              // clicks have the time of their quarter of an hour
	totalGrade                // and no visitor, and of the profile only bot, rule and variant
)

var errCompacted = errors.New("it is no whole compacted segment of this journal")

// compacted is a compacted segment on the disk.
type compacted struct {
	name   name
	node   string
	grade  grade
	seq    uint64 // the newest batch when it was made
	blocks []block
	size   int64 // of the file

	// Guarded by the catalog's lock:
	used     int  // blocks that are in batches
	batching bool // the next block becomes a batch, so no merge may take the file
	merging  bool // the file is being merged, so no batch is made of it
	damaged  bool // some block cannot be read
}

type block struct {
	at     int64
	length uint32
	crc    uint32
	clicks uint64
}

// whole reports whether the file may be merged. The lock is held.
func (f *compacted) whole() bool { return f.used == 0 && !f.batching }

// clicks counts the clicks that are in no batch.
func (f *compacted) clicks() (sum uint64) {
	for _, b := range f.blocks[f.used:] {
		sum += b.clicks
	}
	return sum
}

// foot encodes the part of the file after the blocks.
func (f *compacted) foot(c *checkpoint) []byte {
	le := binary.LittleEndian
	out := append([]byte(compactedMagic), compactedVersion, byte(f.grade), 0, 0)
	out = append(out, f.name.boot.id[:]...)
	out = le.AppendUint64(out, f.name.n)
	out = le.AppendUint64(out, f.seq)
	out = append(append(out, byte(len(f.node))), f.node...)
	out = c.append(out)
	out = le.AppendUint32(out, uint32(len(f.blocks)))
	for _, b := range f.blocks {
		out = le.AppendUint32(out, b.length)
		out = le.AppendUint32(out, b.crc)
		out = le.AppendUint64(out, b.clicks)
	}
	out = le.AppendUint32(out, crc32.Checksum(out, castagnoli))
	return le.AppendUint32(out, uint32(len(out)))
}

// openCompacted reads the foot of the file of that name.
func openCompacted(d *directory, n name) (*compacted, checkpoint, error) {
	file, err := os.Open(d.path(n.String()))
	if err != nil {
		return nil, checkpoint{}, err
	}
	f, c, err := readCompacted(file, n)
	return f, c, errors.Join(err, file.Close())
}

func readCompacted(file *os.File, n name) (*compacted, checkpoint, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, checkpoint{}, err
	}
	size := info.Size()
	tail := make([]byte, 4)
	if size < compactedHead+compactedTail {
		return nil, checkpoint{}, errCompacted
	}
	if _, err := file.ReadAt(tail, size-4); err != nil {
		return nil, checkpoint{}, err
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	if length < compactedHead+4 || length > maxFoot || length > size-4 {
		return nil, checkpoint{}, errCompacted
	}
	foot := make([]byte, length)
	if _, err := file.ReadAt(foot, size-4-length); err != nil {
		return nil, checkpoint{}, err
	}
	f, c, err := decodeFoot(foot, size-4-length)
	if err == nil && (f.name.boot.id != n.boot.id || f.name.n != n.n) {
		err = fmt.Errorf("%w: it is another", errCompacted)
	}
	if err != nil {
		return nil, checkpoint{}, err
	}
	f.name, f.size = n, size
	return f, c, nil
}

// decodeFoot reads the foot of a file with that many bytes of blocks.
func decodeFoot(b []byte, before int64) (*compacted, checkpoint, error) {
	bad := func(err error) (*compacted, checkpoint, error) {
		return nil, checkpoint{}, fmt.Errorf("%w: %w", errCompacted, err)
	}
	le := binary.LittleEndian
	if len(b) < compactedHead+4 ||
		string(b[:9]) != compactedMagic+string([]byte{compactedVersion}) || b[9] > byte(totalGrade) || b[10] != 0 || b[11] != 0 {
		return bad(errors.New("its beginning is wrong"))
	}
	end := len(b) - 4
	if le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return bad(errors.New("the checksum does not match"))
	}
	f := &compacted{
		grade: grade(b[9]), seq: le.Uint64(b[36:]),
		name: name{kind: compactedKind, boot: bootName{id: waypost.BootID(b[12:28])}, n: le.Uint64(b[28:])},
	}
	node, rest := int(b[44]), b[compactedHead:end]
	if len(rest) < node || !waypost.ValidNode(string(rest[:node])) {
		return bad(errors.New("its node is wrong"))
	}
	f.node = string(rest[:node])
	c, rest, err := cutCheckpoint(rest[node:])
	if err != nil {
		return bad(err)
	}
	if len(rest) < 4 || uint64(le.Uint32(rest)) != uint64(len(rest)-4)/16 || len(rest)%16 != 4 {
		return bad(errors.New("its blocks are wrong"))
	}
	at := int64(0)
	for rest = rest[4:]; len(rest) > 0; rest = rest[16:] {
		next := block{at, le.Uint32(rest), le.Uint32(rest[4:]), le.Uint64(rest[8:])}
		at += int64(next.length)
		if next.length > maxBatchFile || at > before {
			return bad(errors.New("its blocks are wrong"))
		}
		f.blocks = append(f.blocks, next)
	}
	if at != before {
		return bad(errors.New("its blocks are wrong"))
	}
	return f, c, nil
}

// readBlock reads one block.
func (f *compacted) readBlock(file io.ReaderAt, z *zstd.Decoder, n int, p *pacer.Pacer) (waypost.ClickBatch, error) {
	b := f.blocks[n]
	packed := make([]byte, b.length)
	if _, err := file.ReadAt(packed, b.at); err != nil {
		return waypost.ClickBatch{}, err
	}
	if crc32.Checksum(packed, castagnoli) != b.crc {
		return waypost.ClickBatch{}, fmt.Errorf("%w: the checksum of block %d does not match", errCompacted, n)
	}
	plain, err := z.DecodeAll(packed, nil)
	if err != nil {
		return waypost.ClickBatch{}, fmt.Errorf("%w: block %d: %w", errCompacted, n, err)
	}
	p.Pause()
	batch, err := clickbatch.Codec{Pause: p.Pause}.Decode(plain)
	if err != nil {
		return waypost.ClickBatch{}, fmt.Errorf("%w: block %d: %w", errCompacted, n, err)
	}
	return batch, nil
}

// compareLinks orders the links in a compacted segment.
func compareLinks(a, b *waypost.LinkClicks) int {
	if a.Domain != b.Domain {
		return cmp.Compare(a.Domain, b.Domain)
	}
	return cmp.Compare(a.Code, b.Code)
}
