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
)

// A fold keeps clicks of a boot that are in no batch yet, in less room than segments. It
// has no identity, so that folds can be merged with each other, and with less detail, for as long as
// nothing of them was sent. Its file is
//
//	blocks, one behind the other: each a waypost.ClickBatch, zstd
//	"WPCLICKF", version 1, grade, 2 bytes zero
//	boot, 16 bytes
//	number, 8 bytes
//	the newest batch of the boot when it was made, 8 bytes
//	length of the node, 1 byte; the node
//	the cover
//	number of blocks, 4 bytes
//	for each block: length, 4 bytes; CRC-32C, 4 bytes; clicks, 8 bytes
//	CRC-32C of all that from the magic on, 4 bytes
//	length of all that from the magic on, 4 bytes
//
// with little-endian numbers. Links are in order, by domain and code, over all blocks; one
// that has more than a block may hold goes on in the next. Each block is small enough to
// become a batch as it is.
const (
	foldMagic   = "WPCLICKF"
	foldVersion = 1
	foldHead    = 8 + 4 + 16 + 8 + 8 + 1
	foldTail    = 4 + 4
	maxFoldFoot = 8 << 20

	maxBlockLinks = 16_384
	maxBlockRows  = 65_536 // and as many visitors
)

// grade is how much detail there is.
type grade uint8

const (
	exactGrade   grade = iota // clicks have their time
	quarterGrade              // and here that of their quarter of an hour
	totalGrade                // and no profile or visitor: only bots are told from people
)

var errFoldFile = errors.New("it is no whole fold of this journal")

// fold is one that is on the disk.
type fold struct {
	name   name
	node   string
	grade  grade
	seq    uint64 // the newest batch when it was made
	blocks []foldBlock
	size   int64 // of the file

	// Guarded by the journal's mu:
	used     int  // so many blocks are in batches
	batching bool // the next one becomes a batch: it is not merged any more
	merging  bool // no batch is made of it
	damaged  bool // some block cannot be read
}

type foldBlock struct {
	at     int64
	length uint32
	crc    uint32
	clicks uint64
}

// whole reports whether the fold may be merged. The lock is held.
func (f *fold) whole() bool { return f.used == 0 && !f.batching }

// clicks is the number of those in no batch.
func (f *fold) clicks() (sum uint64) {
	for _, b := range f.blocks[f.used:] {
		sum += b.clicks
	}
	return sum
}

// foot encodes what follows the blocks.
func (f *fold) foot(c *cover) []byte {
	le := binary.LittleEndian
	out := append([]byte(foldMagic), foldVersion, byte(f.grade), 0, 0)
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

// openFold reads what follows the blocks of the file of that name.
func openFold(d *directory, n name) (*fold, cover, error) {
	file, err := os.Open(d.path(n.String()))
	if err != nil {
		return nil, cover{}, err
	}
	f, c, err := readFold(file, n)
	return f, c, errors.Join(err, file.Close())
}

func readFold(file *os.File, n name) (*fold, cover, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, cover{}, err
	}
	size := info.Size()
	tail := make([]byte, 4)
	if size < foldHead+foldTail {
		return nil, cover{}, errFoldFile
	}
	if _, err := file.ReadAt(tail, size-4); err != nil {
		return nil, cover{}, err
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	if length < foldHead+4 || length > maxFoldFoot || length > size-4 {
		return nil, cover{}, errFoldFile
	}
	foot := make([]byte, length)
	if _, err := file.ReadAt(foot, size-4-length); err != nil {
		return nil, cover{}, err
	}
	f, c, err := decodeFoot(foot, size-4-length)
	if err == nil && (f.name.boot.id != n.boot.id || f.name.n != n.n) {
		err = fmt.Errorf("%w: it is another", errFoldFile)
	}
	if err != nil {
		return nil, cover{}, err
	}
	f.name, f.size = n, size
	return f, c, nil
}

// decodeFoot reads what follows so many bytes of blocks.
func decodeFoot(b []byte, before int64) (*fold, cover, error) {
	bad := func(err error) (*fold, cover, error) { return nil, cover{}, fmt.Errorf("%w: %w", errFoldFile, err) }
	le := binary.LittleEndian
	if len(b) < foldHead+4 || string(b[:9]) != foldMagic+string([]byte{foldVersion}) || b[9] > byte(totalGrade) || b[10] != 0 || b[11] != 0 {
		return bad(errors.New("its beginning is wrong"))
	}
	end := len(b) - 4
	if le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return bad(errors.New("the checksum does not hold"))
	}
	f := &fold{grade: grade(b[9]), name: name{kind: foldKind, boot: bootName{id: waypost.BootID(b[12:28])}, n: le.Uint64(b[28:])}, seq: le.Uint64(b[36:])}
	node, rest := int(b[44]), b[foldHead:end]
	if len(rest) < node || !waypost.ValidNode(string(rest[:node])) {
		return bad(errors.New("its node is wrong"))
	}
	f.node = string(rest[:node])
	c, rest, err := cutCover(rest[node:])
	if err != nil {
		return bad(err)
	}
	if len(rest) < 4 || uint64(le.Uint32(rest)) != uint64(len(rest)-4)/16 || len(rest)%16 != 4 {
		return bad(errors.New("its blocks are wrong"))
	}
	at := int64(0)
	for rest = rest[4:]; len(rest) > 0; rest = rest[16:] {
		block := foldBlock{at, le.Uint32(rest), le.Uint32(rest[4:]), le.Uint64(rest[8:])}
		at += int64(block.length)
		if block.length > maxBatchFile || at > before {
			return bad(errors.New("its blocks are wrong"))
		}
		f.blocks = append(f.blocks, block)
	}
	if at != before {
		return bad(errors.New("its blocks are wrong"))
	}
	return f, c, nil
}

// readBlock reads one block.
func (f *fold) readBlock(file io.ReaderAt, z *zstd.Decoder, n int) (waypost.ClickBatch, error) {
	b := f.blocks[n]
	packed := make([]byte, b.length)
	if _, err := file.ReadAt(packed, b.at); err != nil {
		return waypost.ClickBatch{}, err
	}
	if crc32.Checksum(packed, castagnoli) != b.crc {
		return waypost.ClickBatch{}, fmt.Errorf("%w: the checksum of block %d does not hold", errFoldFile, n)
	}
	plain, err := z.DecodeAll(packed, nil)
	if err != nil {
		return waypost.ClickBatch{}, fmt.Errorf("%w: block %d: %w", errFoldFile, n, err)
	}
	batch, err := clickbatch.Decode(plain)
	if err != nil {
		return waypost.ClickBatch{}, fmt.Errorf("%w: block %d: %w", errFoldFile, n, err)
	}
	return batch, nil
}

// compareLinks is the order of the links in a fold.
func compareLinks(a, b *waypost.LinkClicks) int {
	if a.Domain != b.Domain {
		return cmp.Compare(a.Domain, b.Domain)
	}
	return cmp.Compare(a.Code, b.Code)
}
