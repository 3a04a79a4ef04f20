package clicks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"syscall"

	"waypost"
	"waypost/api/clickbatch"
)

// A batch's file is
//
//	"WPCLICKB", version 1, 3 bytes zero
//	boot, 16 bytes
//	sequence, 8 bytes
//	clicks, 8 bytes
//	length of the node, 1 byte; the node
//	the checkpoint
//	the body of the request that ships it: a batch of api/clickbatch, zstd
//	CRC-32C of all that, 4 bytes
//
// with little-endian numbers.
const (
	batchMagic   = "WPCLICKB"
	batchVersion = 1
	batchHead    = 8 + 4 + 16 + 8 + 8 + 1
	batchTail    = 4

	// maxBatchFile bounds the file, in bytes. It leaves room for the bytes that zstd adds
	// to the largest batch, and for the segments of a journal of any sensible size.
	maxBatchFile = clickbatch.MaxBytes + 2<<20
)

var errBatchFile = errors.New("it is no whole batch of this journal")

// batchFile is a batch on the disk: the body that ships it, and a checkpoint.
type batchFile struct {
	boot   waypost.BootID
	node   string
	seq    uint64
	clicks uint64
	body   []byte

	checkpoint checkpoint
}

// size is about the size of the file, in bytes.
func (b *batchFile) size() int64 { return int64(batchHead + len(b.body) + batchTail) }

// append encodes the file behind out.
func (b *batchFile) append(out []byte) []byte {
	le, start := binary.LittleEndian, len(out)
	out = append(append(out, batchMagic...), batchVersion, 0, 0, 0)
	out = append(out, b.boot[:]...)
	out = le.AppendUint64(out, b.seq)
	out = le.AppendUint64(out, b.clicks)
	out = append(append(out, byte(len(b.node))), b.node...)
	out = append(b.checkpoint.append(out), b.body...)
	return le.AppendUint32(out, crc32.Checksum(out[start:], castagnoli))
}

// decodeBatchFile reads the bytes that append wrote. The body refers to b.
func decodeBatchFile(b []byte) (f batchFile, err error) {
	le := binary.LittleEndian
	if len(b) < batchHead+batchTail || string(b[:8]) != batchMagic {
		return batchFile{}, errBatchFile
	}
	end := len(b) - batchTail
	if le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return batchFile{}, fmt.Errorf("%w: the checksum does not match", errBatchFile)
	}
	if [4]byte(b[8:]) != [4]byte{batchVersion} {
		return batchFile{}, fmt.Errorf("%w: its version is unknown", errBatchFile)
	}
	f = batchFile{boot: waypost.BootID(b[12:28]), seq: le.Uint64(b[28:]), clicks: le.Uint64(b[36:])}
	node, rest := int(b[44]), b[batchHead:end]
	if len(rest) < node {
		return batchFile{}, errBatchFile
	}
	if f.node, rest = string(rest[:node]), rest[node:]; !waypost.ValidNode(f.node) {
		return batchFile{}, errBatchFile
	}
	if f.checkpoint, f.body, err = cutCheckpoint(rest); err != nil {
		return batchFile{}, fmt.Errorf("%w: %w", errBatchFile, err)
	}
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

// unreadable reports whether an error of reading one of the journal's files is due to the
// file. Otherwise it is due to the system, which may succeed later.
func unreadable(err error) bool {
	return errors.Is(err, errBatchFile) || errors.Is(err, errSegmentHead) || errors.Is(err, errCompacted) ||
		errors.Is(err, errPack) || errors.Is(err, syscall.EIO)
}
