package replication

import (
	"bytes"
	"encoding/binary"
	"io"

	"waypost"
)

// ReadFrames reads and decodes frames until the end or the first error, as both
// sides of a connection do together.
func ReadFrames(from io.Reader) (types []string, err error) {
	r, err := newFrameReader(from)
	if err != nil {
		return nil, err
	}
	defer r.close()
	var batch Batch
	var part slotsPart
	var sums sumsPart
	for {
		t, _, payload, err := r.next()
		if err != nil {
			return types, err
		}
		switch t {
		case frameHello:
			_, err = decodeHello(payload)
		case frameBatch:
			err = decodeBatch(payload, &batch)
		case frameHeartbeat:
			_, err = decodeHeartbeat(payload)
		case frameReset:
			_, _, err = decodeReset(payload)
		case frameSlots:
			err = decodeSlots(payload, &part)
		case frameSums:
			err = decodeSums(payload, &sums)
		case frameSignature:
			_, err = decodeSignature(payload)
		case frameKey:
			_, err = decodeAnnouncement(payload)
		case frameBlocks:
			_, err = decodeBlocks(payload)
		case frameEnd:
			_, err = decodeEnd(payload)
		}
		if err != nil {
			return types, err
		}
		types = append(types, t.String())
	}
}

// ReadSlots reads the frames of a snapshot or of sums until the end or the first error.
func ReadSlots(from io.Reader) (types []string, records [][]byte, sums map[uint16]Sum, err error) {
	r, err := newFrameReader(from)
	if err != nil {
		return nil, nil, nil, err
	}
	defer r.close()
	sums = map[uint16]Sum{}
	for {
		t, _, payload, err := r.next()
		if err != nil {
			return types, records, sums, err
		}
		types = append(types, t.String())
		var slots slotsPart
		var part sumsPart
		switch t {
		case frameSlots:
			err = decodeSlots(payload, &slots)
			for _, raw := range slots.records {
				records = append(records, bytes.Clone(raw))
			}
		case frameSums:
			err = decodeSums(payload, &part)
			for i, sum := range part.sums {
				sums[part.first+uint16(i)] = sum
			}
		}
		if err != nil {
			return types, records, sums, err
		}
	}
}

// Frame makes a frame of any type and payload, whose checksum holds.
func Frame(t, flags byte, payload []byte) []byte { return plainFrame(frameType(t), flags, payload) }

// HeaderFrame makes the header of a frame that claims a length.
func HeaderFrame(t byte, length uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, length)
	b = append(b, t, 0)
	b = binary.LittleEndian.AppendUint16(b, headerChecksum(b))
	return append(b, 0, 0, 0, 0)
}

// HelloFrame, HeartbeatFrame, ByeFrame and ResetFrame are what a server sends.
func HelloFrame(h Head) []byte { return plainFrame(frameHello, 0, appendHello(nil, &h)) }

// HelloHead returns the head in a hello.
func HelloHead(frame []byte) Head {
	h, err := decodeHello(frame[frameHeaderSize:])
	if err != nil {
		panic(err)
	}
	return h.head
}

func HeartbeatFrame(h Head) []byte { return plainFrame(frameHeartbeat, 0, appendHead(nil, &h)) }

func ByeFrame() []byte { return plainFrame(frameBye, 0, nil) }

func ResetFrame(reason ResetReason, text string) []byte {
	return plainFrame(frameReset, 0, appendReset(nil, reason, text))
}

// BatchFrames cuts a batch into frames as a server does.
func BatchFrames(b *Batch) ([][]byte, error) {
	var frames [][]byte
	for _, entry := range newEncoder().entries(b, nil) {
		frames = append(frames, entry.frame)
	}
	return frames, nil
}

// SlotsFrame is a whole range, or a part of one, and EndFrame the end of a snapshot.
func SlotsFrame(first, last uint16, head Head, lastPart bool, records ...[]byte) []byte {
	payload := appendSlotsHeader(nil, first, last)
	for _, r := range records {
		payload = append(append(payload, byte(len(r)), byte(len(r)>>8), 0, 0), r...)
	}
	sealSlots(payload, &head, len(records))
	flags := byte(0)
	if lastPart {
		flags = flagLastPart
	}
	return plainFrame(frameSlots, flags, payload)
}

// SumsFrame is the sums of the slots from first on.
func SumsFrame(first uint16, head Head, sums ...Sum) []byte {
	part := sumsPart{first: first, last: first + uint16(len(sums)) - 1, head: head, sums: sums}
	return plainFrame(frameSums, 0, appendSums(nil, &part))
}

func EndFrame(n uint64) []byte { return plainFrame(frameEnd, 0, appendCount(n)) }

// DecodedBatch decodes the payload of a batch frame.
func DecodedBatch(frame []byte) (Batch, error) {
	var b Batch
	err := decodeBatch(frame[frameHeaderSize:], &b)
	return b, err
}

const (
	MaxFrame    = maxFrame
	FlagZstd    = flagZstd
	FrameTarget = frameTarget
)

// PublicKey is that with which a signer's signatures are verified.
func PublicKey(s *Signer) [32]byte { return publicKey(s.key) }

// ReadStatement returns the position that a statement is about.
var ReadStatement = readStatement

// SignBatch signs a batch, and returns a function that makes the statement again like a
// follower.
func SignBatch(s *Signer, b *Batch) (Signature, func() []byte) {
	payload := appendBatch(nil, b.Epoch, b.Transactions)
	return s.signBatch(b, payload), func() []byte {
		return appendBatchStatement(nil, &s.cluster, b.Epoch, b.Transactions, payload)
	}
}

// SplitFrames splits frames that were written at once.
func SplitFrames(b []byte) (frames [][]byte) {
	for len(b) >= frameHeaderSize {
		n := frameHeaderSize + int(binary.LittleEndian.Uint32(b))
		frames, b = append(frames, b[:n]), b[n:]
	}
	return frames
}

// Forged changes the stamps of the records in a frame of slots, and makes the digest
// fit.
func Forged(frame []byte) []byte {
	r, err := newFrameReader(bytes.NewReader(frame))
	if err != nil {
		panic(err)
	}
	defer r.close()
	_, flags, payload, err := r.next()
	var part slotsPart
	if err == nil {
		err = decodeSlots(payload, &part)
	}
	if err != nil {
		panic(err)
	}
	for i, raw := range part.records {
		var rec waypost.Record
		if err := DecodeRecord(raw, &rec); err != nil {
			panic(err)
		}
		rec.Stamp ^= 1 << i
		part.head.Digest ^= 1 << i
		part.records[i] = AppendRecord(nil, &rec)
	}
	return SlotsFrame(part.first, part.last, part.head, flags&flagLastPart != 0, part.records...)
}

// NotBefore judges the head of a source of slots.
func NotBefore(t *Trust, h *Head, sink Sink) error { return t.notBefore(h, sink) }

// Meet pins the key of a signer, or goes over to it.
func Meet(t *Trust, s *Signer) error { return t.meet(s.cluster, s.announced) }

// CheckHead judges the head of a source that signs with a key, at a position.
func CheckHead(t *Trust, s *Signer, at waypost.Position) error {
	h := Head{Cluster: s.cluster, Position: at}
	h.Signature = s.signHead(&h)
	return t.checkHead(&h, nil)
}

// HasRoom reports whether followers behind the ring may hold that many bytes more.
func (s *Server) HasRoom(bytes int64) bool {
	if !s.unsent.TryAcquire(bytes) {
		return false
	}
	s.unsent.Release(bytes)
	return true
}

// ClusterOf is the cluster whose key is pinned.
func ClusterOf(t *Trust) Cluster {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cluster
}
