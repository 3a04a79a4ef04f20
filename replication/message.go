package replication

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"waypost"
)

// The payloads of frames. All numbers are little-endian and of fixed width;
// every count is checked against the bytes that are there before it allocates.

// ResetReason says why a follower cannot go on from its position.
type ResetReason uint8

const (
	ResetTrimmed      ResetReason = 1 // the log begins later
	ResetOtherHistory ResetReason = 2 // another epoch or stamp, or beyond the head
	ResetTooLarge     ResetReason = 3 // one transaction is larger than a frame may be
	ResetNoPosition   ResetReason = 4 // the follower holds nothing yet
)

func (r ResetReason) String() string {
	names := [...]string{"", "trimmed", "other_history", "too_large", "no_position"}
	if int(r) < len(names) && r > 0 {
		return names[r]
	}
	return "unknown"
}

const maxResetText = 1024

type hello struct {
	protocol uint16
	head     Head
}

type slotsPart struct {
	first, last uint16
	head        Head // only in a range's last part
	records     [][]byte
}

func appendHead(dst []byte, h *Head) []byte {
	le := binary.LittleEndian
	dst = appendPosition(append(dst, h.Cluster[:]...), h.Position)
	dst = le.AppendUint64(dst, h.Digest)
	return le.AppendUint64(dst, uint64(h.At))
}

func appendPosition(dst []byte, p waypost.Position) []byte {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint64(appendEpoch(dst, p.Epoch), p.Seq), p.Stamp)
}

func appendEpoch(dst []byte, e waypost.Epoch) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, e.Ordinal), e.ID[:]...)
}

func appendHello(dst []byte, h *Head) []byte {
	return appendHead(binary.LittleEndian.AppendUint16(dst, ProtocolVersion), h)
}

func appendReset(dst []byte, reason ResetReason, text string) []byte {
	return append(append(dst, byte(reason)), text[:min(len(text), maxResetText)]...)
}

// appendBatch states the first sequence only: the others follow without a gap, by
// construction.
func appendBatch(dst []byte, epoch waypost.Epoch, ts []Transaction) []byte {
	le := binary.LittleEndian
	dst = appendEpoch(dst, epoch)
	dst = le.AppendUint64(dst, ts[0].Seq)
	dst = le.AppendUint32(dst, uint32(len(ts)))
	for i := range ts {
		t := &ts[i]
		dst = le.AppendUint64(dst, t.Stamp)
		dst = le.AppendUint64(dst, t.Digest)
		dst = le.AppendUint64(dst, uint64(t.At))
		dst = le.AppendUint32(dst, uint32(len(t.Records)))
		for _, r := range t.Records {
			dst = append(le.AppendUint32(dst, uint32(len(r))), r...)
		}
	}
	return dst
}

const batchHeaderSize = 20 + 8 + 4

// transactionSize returns the size of t in a batch, in bytes.
func transactionSize(t *Transaction) int {
	n := 28
	for _, r := range t.Records {
		n += 4 + len(r)
	}
	return n
}

// slotsHeaderSize is the offset of the records in a slots payload, behind the range, the
// head, and a count.
const slotsHeaderSize = 2 + 2 + headSize + 4

// appendSlotsHeader leaves the head and the count to be filled in by sealSlots.
func appendSlotsHeader(dst []byte, first, last uint16) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(le.AppendUint16(dst, first), last)
	return append(dst, make([]byte, headSize+4)...)
}

func sealSlots(payload []byte, head *Head, count int) {
	appendHead(payload[:4], head)
	binary.LittleEndian.PutUint32(payload[4+headSize:], uint32(count))
}

// sumsPart is the sums of a range of slots, all at one position.
type sumsPart struct {
	first, last uint16
	head        Head
	sums        []Sum
}

func appendSums(dst []byte, p *sumsPart) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(le.AppendUint16(dst, p.first), p.last)
	dst = appendHead(dst, &p.head)
	for _, s := range p.sums {
		dst = le.AppendUint64(le.AppendUint64(dst, s.Digest), s.Records)
	}
	return dst
}

const headSize = 16 + 20 + 8 + 8 + 8 + 8

// cursor reads fixed-width fields. Past the end it reads zeroes and remembers.
type cursor struct {
	b         []byte
	short     bool
	oversized bool // for a record that is larger than any may be
}

func (c *cursor) takeBytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) u16() uint16 {
	if b := c.takeBytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.takeBytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.takeBytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) epoch() (e waypost.Epoch) {
	e.Ordinal = c.u32()
	copy(e.ID[:], c.takeBytes(len(e.ID)))
	return e
}

func (c *cursor) head() (h Head) {
	copy(h.Cluster[:], c.takeBytes(len(h.Cluster)))
	h.Position.Epoch = c.epoch()
	h.Position.Seq = c.u64()
	h.Position.Stamp = c.u64()
	h.Digest = c.u64()
	h.At = int64(c.u64())
	return h
}

// records appends count length-prefixed records to dst.
func (c *cursor) records(dst [][]byte, count uint32) [][]byte {
	if int64(count)*4 > int64(len(c.b)) {
		c.takeBytes(len(c.b) + 1)
		return dst
	}
	for range count {
		n := c.u32()
		if n > MaxRecord {
			c.takeBytes(len(c.b) + 1)
			c.oversized = true
			return dst
		}
		dst = append(dst, c.takeBytes(int(n)))
	}
	return dst
}

// done says whether the payload was read to its end and no further.
func (c *cursor) done(what frameType) error {
	if c.oversized {
		return fmt.Errorf("%w: one of more than %d bytes in a %s", ErrRecord, MaxRecord, what)
	}
	if c.short || len(c.b) != 0 {
		return fmt.Errorf("%w: a %s of another length than it states", errFrame, what)
	}
	return nil
}

// decodeHello reads the version first: the rest is judged only when it is ours.
func decodeHello(b []byte) (hello, error) {
	c := cursor{b: b}
	h := hello{protocol: c.u16()}
	if !c.short && h.protocol != ProtocolVersion {
		return h, nil
	}
	h.head = c.head()
	return h, c.done(frameHello)
}

func decodeHeartbeat(b []byte) (Head, error) {
	c := cursor{b: b}
	h := c.head()
	return h, c.done(frameHeartbeat)
}

func decodeReset(b []byte) (ResetReason, string, error) {
	if len(b) < 1 || len(b) > 1+maxResetText {
		return 0, "", fmt.Errorf("%w: a reset of %d bytes", errFrame, len(b))
	}
	return ResetReason(b[0]), string(b[1:]), nil
}

// decodeBatch fills out, using its slices again. The records refer into b.
func decodeBatch(b []byte, out *Batch) error {
	c := cursor{b: b}
	out.Epoch = c.epoch()
	first := c.u64()
	count := c.u32()
	if c.short || count == 0 || int64(count)*28 > int64(len(c.b)) || first == 0 || first > 1<<63 {
		return fmt.Errorf("%w: a batch of %d transactions from %d in %d bytes", errFrame, count, first, len(b))
	}
	ts := out.Transactions[:0]
	for i := range count {
		if len(ts) < cap(ts) {
			ts = ts[:len(ts)+1]
		} else {
			ts = append(ts, Transaction{})
		}
		t := &ts[len(ts)-1]
		t.Seq = first + uint64(i)
		t.Stamp = c.u64()
		t.Digest = c.u64()
		t.At = int64(c.u64())
		t.Records = c.records(t.Records[:0], c.u32())
	}
	out.Transactions = ts
	return c.done(frameBatch)
}

// decodeSlots fills out, using its slice again. The records refer into b.
func decodeSlots(b []byte, out *slotsPart) error {
	c := cursor{b: b}
	out.first, out.last = c.u16(), c.u16()
	out.head = c.head()
	out.records = c.records(out.records[:0], c.u32())
	if !c.short && (out.first > out.last || out.last >= waypost.Slots) {
		return fmt.Errorf("%w: slots %d to %d", errFrame, out.first, out.last)
	}
	return c.done(frameSlots)
}

// decodeSums fills out, using its slice again.
func decodeSums(b []byte, out *sumsPart) error {
	c := cursor{b: b}
	out.first, out.last = c.u16(), c.u16()
	out.head = c.head()
	if !c.short && (out.first > out.last || out.last >= waypost.Slots) {
		return fmt.Errorf("%w: sums of slots %d to %d", errFrame, out.first, out.last)
	}
	out.sums = out.sums[:0]
	for slot := int(out.first); slot <= int(out.last) && !c.short; slot++ {
		out.sums = append(out.sums, Sum{Digest: c.u64(), Records: c.u64()})
	}
	return c.done(frameSums)
}

// decodeEnd returns the number of records, or of sums, that the connection brought.
func decodeEnd(b []byte) (uint64, error) {
	c := cursor{b: b}
	n := c.u64()
	return n, c.done(frameEnd)
}

// EncodeBatch encodes a batch to pass it on: its signature, if it has one, and the frame
// that it came in, or a new frame, which is not compressed. It returns nil when the
// batch is too large for a frame.
func EncodeBatch(b *Batch) []byte {
	if b.Frame != nil {
		return signed(&b.Signature, b.Frame)
	}
	size := batchHeaderSize
	for i := range b.Transactions {
		size += transactionSize(&b.Transactions[i])
	}
	if size > maxFrame {
		return nil
	}
	return sealFrame(appendBatch(make([]byte, frameHeaderSize, frameHeaderSize+size), b.Epoch, b.Transactions), frameBatch, 0)
}

// BatchDecoder reads frames of batches that were kept. One goroutine at a time uses it.
type BatchDecoder struct{ frames *frameReader }

// NewBatchDecoder makes one. The caller must Close it.
func NewBatchDecoder() (*BatchDecoder, error) {
	r, err := newFrameReader(nil)
	if err != nil {
		return nil, err
	}
	return &BatchDecoder{r}, nil
}

// Decode reads a batch that EncodeBatch has encoded. The batch refers to encoded and
// belongs to the caller.
func (d *BatchDecoder) Decode(encoded []byte) (b Batch, err error) {
	from := bytes.NewReader(encoded)
	d.frames.from = from
	t, _, payload, err := d.frames.next()
	if err == nil && t == frameSignature {
		if b.Signature, err = decodeSignature(payload); err == nil {
			encoded = encoded[len(d.frames.raw()):]
			t, _, payload, err = d.frames.next()
		}
	}
	if err != nil {
		return b, err
	}
	if t != frameBatch || from.Len() > 0 {
		return b, fmt.Errorf("%w: a %s, and %d bytes behind it", errFrame, t, from.Len())
	}
	if err := decodeBatch(append([]byte(nil), payload...), &b); err != nil {
		return b, err
	}
	b.Frame = encoded
	return b, nil
}

// Close releases the decoder's memory.
func (d *BatchDecoder) Close() { d.frames.close() }

// skip removes the transactions up to p: a frame that is passed on as it came may begin
// with some.
func (b *Batch) skip(p waypost.Position) {
	first, last := b.Transactions[0].Seq, b.Last().Seq
	if b.Epoch == p.Epoch && first <= p.Seq && p.Seq < last && b.Transactions[p.Seq-first].Stamp == p.Stamp {
		b.Transactions = b.Transactions[p.Seq-first+1:]
	}
}
