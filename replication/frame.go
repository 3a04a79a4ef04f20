package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ProtocolVersion is stated in every hello. A follower refuses any other.
const ProtocolVersion = 1

type frameType uint8

const (
	frameHello     frameType = 1 // first on every connection
	frameBatch     frameType = 2
	frameHeartbeat frameType = 3
	frameReset     frameType = 4 // last: take a snapshot
	frameBye       frameType = 5 // last: come back, perhaps to another
	frameSlots     frameType = 6
	frameEnd       frameType = 7 // last of a snapshot
	frameReport    frameType = 8 // report your position, once all before this is on your disk
	frameSums      frameType = 9
	frameBlocks    frameType = 10 // statements about blocked short addresses
	frameSignature frameType = 16 // of the hello, batch or heartbeat that comes next
	frameKey       frameType = 17 // the public key of the signatures; sent before the hello
	frameTestimony frameType = 18 // for the position of the hello or heartbeat that comes next, which has no signature of its own
)

func (t frameType) String() string {
	names := [...]string{"", "hello", "batch", "heartbeat", "reset", "bye", "slots", "end", "report", "sums", "blocks"}
	switch {
	case int(t) < len(names) && t > 0:
		return names[t]
	case t == frameSignature:
		return "signature"
	case t == frameKey:
		return "key"
	case t == frameTestimony:
		return "testimony"
	}
	return "unknown"
}

const (
	flagZstd     = 1 << 0 // the payload is its length (4 bytes) and a zstd frame
	flagLastPart = 1 << 1 // slots: the range is complete
)

const (
	frameHeaderSize = 12

	// maxFrame bounds a frame's payload, compressed or not, in bytes.
	maxFrame = 32 << 20
	// frameTarget is the size of frames when there is a choice. A single processor unpacks
	// one within a millisecond or two, for which redirects wait.
	frameTarget = 256 << 10
	// worthCompressing is the payload below which zstd is not tried.
	worthCompressing = 512
	// keptBuffer is the largest buffer that a reader keeps for its next frame.
	keptBuffer = 4 << 20
)

// errFrame says that the bytes read are not a sound frame. The connection is then of no
// further use, and a new one may do better.
var errFrame = errors.New("broken frame")

// encoder makes frames. It may be used by many goroutines at once.
type encoder struct {
	free chan *packer // those not in use
}

// packer compresses, one payload at a time.
type packer struct {
	zstd *zstd.Encoder
	buf  []byte
}

func newPacker() *packer {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // of options alone
	}
	return &packer{zstd: z}
}

// keptPackers bounds the packers that an encoder keeps, because each has some MiB of
// memory.
const keptPackers = 4

func newEncoder() *encoder { return &encoder{free: make(chan *packer, keptPackers)} }

func (e *encoder) takePacker() *packer {
	select {
	case p := <-e.free:
		return p
	default:
		return newPacker()
	}
}

func (e *encoder) give(p *packer) {
	if cap(p.buf) > keptBuffer {
		p.buf = nil
	}
	select {
	case e.free <- p:
	default:
	}
}

// frame makes one frame of a payload of at most maxFrame bytes, compressed when
// that saves at least a tenth.
func (e *encoder) frame(t frameType, flags byte, payload []byte) []byte {
	if len(payload) < worthCompressing {
		return plainFrame(t, flags, payload)
	}
	p := e.takePacker()
	defer e.give(p)
	p.buf = binary.LittleEndian.AppendUint32(append(p.buf[:0], make([]byte, frameHeaderSize)...), uint32(len(payload)))
	packed := p.zstd.EncodeAll(payload, p.buf)
	if len(packed)-frameHeaderSize >= len(payload)/10*9 {
		return plainFrame(t, flags, payload)
	}
	p.buf = packed
	return sealFrame(bytes.Clone(packed), t, flags|flagZstd)
}

func plainFrame(t frameType, flags byte, payload []byte) []byte {
	return sealFrame(append(make([]byte, frameHeaderSize, frameHeaderSize+len(payload)), payload...), t, flags)
}

// sealFrame fills in the header: payload length, type, flags, the header's own checksum,
// and the checksum over all of the frame but itself.
func sealFrame(b []byte, t frameType, flags byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-frameHeaderSize))
	b[4], b[5] = byte(t), flags
	binary.LittleEndian.PutUint16(b[6:], headerChecksum(b))
	binary.LittleEndian.PutUint32(b[8:], frameChecksum(b[:8], b[frameHeaderSize:]))
	return b
}

// headerChecksum covers length, type and flags, so that no reader waits for the bytes of
// a damaged length.
func headerChecksum(header []byte) uint16 { return uint16(crc32.Checksum(header[:6], castagnoli)) }

func frameChecksum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(header[:8], castagnoli), castagnoli, payload)
}

// frameReader reads frames from a connection. Each frame is valid until the next call.
type frameReader struct {
	from   io.Reader
	zstd   *zstd.Decoder
	packed bytes.Buffer // the whole frame
	plain  []byte
}

// raw returns the frame of the last call of next, as it came.
func (r *frameReader) raw() []byte { return r.packed.Bytes() }

func newFrameReader(from io.Reader) (*frameReader, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxFrame), zstd.WithDecoderMaxWindow(maxFrame))
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	return &frameReader{from: from, zstd: z}, nil
}

func (r *frameReader) close() { r.zstd.Close() }

// next returns the next frame. The error is io.EOF at a clean end, wraps errFrame when
// the bytes are not a frame, and is the connection's own otherwise.
func (r *frameReader) next() (t frameType, flags byte, payload []byte, err error) {
	var header [frameHeaderSize]byte
	if _, err := io.ReadFull(r.from, header[:]); err != nil {
		return 0, 0, nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if binary.LittleEndian.Uint16(header[6:]) != headerChecksum(header[:]) {
		return 0, 0, nil, fmt.Errorf("%w: the header's checksum does not hold", errFrame)
	}
	if length > maxFrame {
		return 0, 0, nil, fmt.Errorf("%w: %d bytes are too many", errFrame, length)
	}
	// The buffer grows with the bytes that arrive, not with the length that the header
	// claims.
	if r.packed.Cap() > keptBuffer {
		r.packed = bytes.Buffer{}
	}
	r.packed.Reset()
	r.packed.Write(header[:])
	if _, err := io.CopyN(&r.packed, r.from, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, 0, nil, err
	}
	payload = r.packed.Bytes()[frameHeaderSize:]
	if binary.LittleEndian.Uint32(header[8:]) != frameChecksum(header[:8], payload) {
		return 0, 0, nil, fmt.Errorf("%w: the checksum does not hold", errFrame)
	}
	t, flags = frameType(header[4]), header[5]
	if flags&flagZstd != 0 {
		if payload, err = r.unpack(payload); err != nil {
			return 0, 0, nil, err
		}
	}
	return t, flags, payload, nil
}

func (r *frameReader) unpack(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("%w: compressed without a length", errFrame)
	}
	length := binary.LittleEndian.Uint32(b)
	if length > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes when unpacked are too many", errFrame, length)
	}
	if cap(r.plain) > keptBuffer {
		r.plain = nil
	}
	plain, err := r.zstd.DecodeAll(b[4:], r.plain[:0])
	if err != nil {
		return nil, fmt.Errorf("%w: zstd: %w", errFrame, err)
	}
	r.plain = plain
	if len(plain) != int(length) {
		return nil, fmt.Errorf("%w: it unpacks to another length than it states", errFrame)
	}
	return plain, nil
}
