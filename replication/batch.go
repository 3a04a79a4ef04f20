package replication

import (
	"bytes"
	"fmt"
)

// EncodeBatch makes what a batch is passed on as: its signature, if it has one, and the frame that it
// came in, or else a new one, which is not compressed. It is nil when the batch is too large for one.
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

// Decode reads what EncodeBatch made, which becomes part of the batch. What it gives is the caller's.
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

// Close gives the decoder's memory back.
func (d *BatchDecoder) Close() { d.frames.close() }
