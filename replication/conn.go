package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"waypost"
)

// sourceConn is one HTTP connection to the source, after its hello. One goroutine uses
// it.
type sourceConn struct {
	client    *client
	body      io.ReadCloser
	frames    *frameReader
	hello     Head
	signed    Signature // that came before the present frame; zero: none
	testimony []byte    // that came before the present frame; nil: none
	key       []byte    // that the source announced
	slots     bool      // the request reads slots, and not the stream
	records   uint64    // about how many a snapshot has; 0: not known
	busy      bool      // as many snapshots are under way at the source as may be

	// The timer ends ctx when the source falls silent.
	ctx     context.Context //nolint:containedctx // of the request
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	silence time.Duration
	left    time.Duration // of the silence
	part    int           // bytes of a frame since left was the silence
}

// framePart is the part of a frame that must come within the silence, in bytes. A source
// drops a follower that is slower than twice that (writeChunk).
const framePart = 64 << 10

// Read reads from the source, and fails when neither a whole frame nor a further part of
// a frame has come within the silence. Mere bytes are no sign of life, because a reader
// at the wrong place takes heartbeats for parts of a large frame. The clock runs only
// here, because a slow replica is not the source's fault.
func (d *sourceConn) Read(p []byte) (int, error) {
	began := time.Now()
	d.timer.Reset(d.left)
	n, err := d.body.Read(p)
	d.timer.Stop()
	d.left = max(d.left-time.Since(began), 0)
	if d.part += n; d.part >= framePart {
		d.heard()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.explain(err)
	}
	return n, err
}

// heard restarts the silence.
func (d *sourceConn) heard() { d.left, d.part = d.silence, 0 }

// explain puts the cause in place of "context canceled".
func (d *sourceConn) explain(err error) error {
	if cause := context.Cause(d.ctx); cause != nil {
		return cause
	}
	return err
}

func (d *sourceConn) close() {
	d.timer.Stop()
	d.cancel(context.Canceled)
	if d.body != nil {
		_ = d.body.Close() // nothing more is wanted from it
	}
	if d.frames != nil {
		d.frames.close()
	}
}

// next returns the next frame that the caller has to judge. Bye and reset become errors,
// and unknown types are skipped.
func (d *sourceConn) next() (frameType, byte, []byte, error) {
	d.signed, d.testimony = Signature{}, nil
	for {
		t, flags, payload, err := d.frames.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a source that ends a stream says why
		}
		if err != nil {
			return 0, 0, nil, err
		}
		d.heard()
		switch t {
		case frameBye:
			if len(payload) > 0 {
				return 0, 0, nil, fmt.Errorf("%w: %s", errBye, strings.Map(oneLine, string(payload[:min(len(payload), maxResetText)])))
			}
			return 0, 0, nil, errBye
		case frameReset:
			reason, text, err := decodeReset(payload)
			if err != nil {
				return 0, 0, nil, err
			}
			return 0, 0, nil, &resetError{reason: reason, text: text}
		case frameSignature:
			if d.signed, err = decodeSignature(payload); err != nil {
				return 0, 0, nil, err
			}
		case frameTestimony:
			d.testimony = bytes.Clone(payload)
		case frameKey:
			d.key = bytes.Clone(payload)
		case frameBlocks:
			if err := d.client.takeBlocks(payload); err != nil {
				return 0, 0, nil, err
			}
		case frameHello, frameBatch, frameHeartbeat, frameSlots, frameEnd, frameReport, frameSums:
			return t, flags, payload, nil
		}
	}
}

// takeBlocks takes the blocks of a frame. It leaves out blocks that the pinned key has
// not signed, because a relay may hold some of an earlier key, and all others must have
// effect.
func (c *client) takeBlocks(payload []byte) error {
	all, err := decodeBlocks(payload)
	if err != nil || c.cfg.Blocks == nil {
		return err
	}
	var refused error
	sound := all[:0]
	for i := range all {
		if err := c.cfg.Trust.CheckBlock(&all[i]); err != nil {
			refused = err
			continue
		}
		sound = append(sound, all[i])
	}
	if _, err := c.cfg.Blocks.Take(sound...); err != nil || refused != nil {
		c.cfg.Logger.Error("cannot take a block from the source", "error", errors.Join(refused, err))
	}
	return nil
}

// heartbeat decodes a heartbeat and verifies its signature.
func (d *sourceConn) heartbeat(payload []byte) (Head, error) {
	h, err := decodeHeartbeat(payload)
	if err != nil {
		return h, err
	}
	if h.Cluster != d.hello.Cluster {
		return h, fmt.Errorf("%w: a heartbeat of another cluster", errFrame)
	}
	h.Signature = d.signed
	if err := d.client.cfg.Trust.checkHead(&h, d.testimony); err != nil {
		return h, err
	}
	d.client.status.heard(h)
	return h, nil
}

// batch decodes a batch that must follow on p, and verifies its signature if a key is
// pinned. A source that passes a signed batch on cannot cut it, so that one may begin
// before p; only the rest is kept. A batch that does not follow on p is the connection's
// fault and not the replica's: a new connection is enough.
func (d *sourceConn) batch(payload []byte, b *Batch, p waypost.Position) error {
	b.Frame, b.Signature = d.frames.raw(), Signature{}
	if err := decodeBatch(payload, b); err != nil {
		return err
	}
	signed, err := d.client.cfg.Trust.checkBatch(d.hello.Cluster, b, payload, &d.signed)
	if err != nil {
		return err
	}
	if signed {
		b.Signature = d.signed
	}
	b.skip(p)
	if b.Epoch != p.Epoch || b.Transactions[0].Seq != p.Seq+1 {
		return fmt.Errorf("%w: sequence %d of epoch %d came after %d of epoch %d", errMisplaced,
			b.Transactions[0].Seq, b.Epoch.Ordinal, p.Seq, p.Epoch.Ordinal)
	}
	return nil
}

// takeSlots passes the slots of the connection to take, until its end. It reports
// progress once a range is complete.
func (d *sourceConn) takeSlots(take func(part *slotsPart, last bool) error) (progress bool, err error) {
	var part slotsPart
	received := uint64(0)
	for {
		t, flags, payload, err := d.next()
		if err != nil {
			return progress, err
		}
		switch t {
		case frameHeartbeat:
			if _, err := d.heartbeat(payload); err != nil {
				return progress, err
			}
		case frameSlots:
			if err := decodeSlots(payload, &part); err != nil {
				return progress, err
			}
			last := flags&flagLastPart != 0
			if err := take(&part, last); err != nil {
				return progress, err
			}
			received += uint64(len(part.records))
			progress = progress || last
		case frameEnd:
			stated, err := decodeEnd(payload)
			if err == nil && stated != received {
				err = fmt.Errorf("%w: the snapshot ended after %d records of %d", errFrame, received, stated)
			}
			return progress, err
		default:
			return progress, fmt.Errorf("%w: a %s in a snapshot", errFrame, t)
		}
	}
}

// takeSums passes the sums of the connection to take, until its end.
func (d *sourceConn) takeSums(take func(*sumsPart) error) error {
	var part sumsPart
	for {
		t, _, payload, err := d.next()
		if err != nil {
			return err
		}
		switch t {
		case frameHeartbeat:
			_, err = d.heartbeat(payload)
		case frameSums:
			if err = decodeSums(payload, &part); err == nil {
				err = take(&part)
			}
		case frameEnd:
			_, err = decodeEnd(payload)
			return err
		default:
			err = fmt.Errorf("%w: a %s among sums", errFrame, t)
		}
		if err != nil {
			return err
		}
	}
}
