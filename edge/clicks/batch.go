package clicks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"waypost"
)

// A batch's file is
//
//	"WPCLICKB", version 1, 3 bytes zero
//	number of segments, 4 bytes
//	boot, 16 bytes
//	sequence, 8 bytes
//	clicks, 8 bytes
//	next segment, 8 bytes
//	length of the node, 1 byte; the node
//	for each segment: number, 8 bytes; end of what is covered, 8 bytes
//	the body of the request that ships it: a waypost.ClickBatch, zstd
//	CRC-32C of all that, 4 bytes
//
// with little-endian numbers.
const (
	batchMagic   = "WPCLICKB"
	batchVersion = 1
	batchHead    = 8 + 4 + 4 + 16 + 8 + 8 + 8 + 1
	batchTail    = 4

	// maxBatchFile bounds the file, in bytes: what zstd may add to the largest batch,
	// and the segments that a journal of any sensible size can have.
	maxBatchFile = waypost.MaxClickBatch + 1<<20
)

var errBatchFile = errors.New("it is no whole batch of this journal")

// batchFile is a batch as it is kept: with what ships it, and with what it says
// about the journal.
type batchFile struct {
	boot   waypost.BootID
	node   string
	seq    uint64
	clicks uint64
	cover  cover
	body   []byte
}

// cover says which part of a boot's journal is in batches, this one and those
// before. A segment with a number below next that is not listed is so as a whole, one
// from next on not at all.
type cover struct {
	next     uint64
	segments []coveredSegment
}

type coveredSegment struct {
	number uint64
	end    int64 // what lies before, in bytes, is covered
}

// of gives the end of what is covered of a segment; whole when all of it is.
func (c *cover) of(number uint64) (end int64, whole bool) {
	if number >= c.next {
		return segmentHead, false
	}
	for _, s := range c.segments {
		if s.number == number {
			return s.end, false
		}
	}
	return 0, true
}

// newBatchFile fixes the bytes of a batch.
func newBatchFile(z *zstd.Encoder, b *waypost.ClickBatch, clicks uint64, c cover) batchFile {
	const usual = 40 // bytes of a total, and some more
	plain := waypost.AppendClickBatch(make([]byte, 0, 128+usual*len(b.Totals)), b)
	body := z.EncodeAll(plain, make([]byte, 0, len(plain)/2))
	return batchFile{boot: b.Boot, node: b.Node, seq: b.Seq, clicks: clicks, cover: c, body: body}
}

func (b *batchFile) encode() []byte {
	le := binary.LittleEndian
	out := make([]byte, 0, batchHead+len(b.node)+16*len(b.cover.segments)+len(b.body)+batchTail)
	out = append(append(out, batchMagic...), batchVersion, 0, 0, 0)
	out = le.AppendUint32(out, uint32(len(b.cover.segments)))
	out = append(out, b.boot[:]...)
	out = le.AppendUint64(out, b.seq)
	out = le.AppendUint64(out, b.clicks)
	out = le.AppendUint64(out, b.cover.next)
	out = append(append(out, byte(len(b.node))), b.node...)
	for _, s := range b.cover.segments {
		out = le.AppendUint64(out, s.number)
		out = le.AppendUint64(out, uint64(s.end))
	}
	out = append(out, b.body...)
	return le.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// decodeBatchFile reads what encode wrote. The body refers to b.
func decodeBatchFile(b []byte) (batchFile, error) {
	le := binary.LittleEndian
	if len(b) < batchHead+batchTail || string(b[:12]) != batchMagic+string([]byte{batchVersion, 0, 0, 0}) {
		return batchFile{}, errBatchFile
	}
	end := len(b) - batchTail
	if le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return batchFile{}, fmt.Errorf("%w: the checksum does not hold", errBatchFile)
	}
	f := batchFile{
		boot: waypost.BootID(b[16:32]), seq: le.Uint64(b[32:]), clicks: le.Uint64(b[40:]),
		cover: cover{next: le.Uint64(b[48:])},
	}
	segments, node, rest := uint64(le.Uint32(b[12:])), int(b[56]), b[batchHead:end]
	if len(rest) < node {
		return batchFile{}, errBatchFile
	}
	f.node, rest = string(rest[:node]), rest[node:]
	if segments > uint64(len(rest)/16) || !waypost.ValidNode(f.node) {
		return batchFile{}, errBatchFile
	}
	f.cover.segments = make([]coveredSegment, segments)
	for i := range f.cover.segments {
		s := coveredSegment{le.Uint64(rest), int64(le.Uint64(rest[8:]))}
		if s.end < segmentHead || s.end > maxSegment {
			return batchFile{}, errBatchFile
		}
		f.cover.segments[i], rest = s, rest[16:]
	}
	f.body = rest
	return f, nil
}

// readBatch reads the file of that name.
func readBatch(d *directory, n name) (batchFile, error) {
	raw, err := d.read(n.String(), maxBatchFile)
	if err != nil {
		return batchFile{}, err
	}
	f, err := decodeBatchFile(raw)
	if err == nil && (f.boot != n.boot.id || f.seq != n.n) {
		err = fmt.Errorf("%w: it is another", errBatchFile)
	}
	return f, err
}

// unreadable reports whether an error of readBatch or openSegment is the file's own,
// and not that of a system that may do better later.
func unreadable(err error) bool {
	return errors.Is(err, errBatchFile) || errors.Is(err, errSegmentHead) || errors.Is(err, syscall.EIO)
}

// writeBatch makes the batch durable. Before it returns without an error nothing
// may be sent, after it nothing may be changed.
func writeBatch(d *directory, n name, b *batchFile) error {
	f, err := d.create(n.String(), func(f *os.File) error {
		_, err := f.Write(b.encode())
		return err
	})
	if err != nil {
		return err
	}
	return f.Close()
}
