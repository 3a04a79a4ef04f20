package replication

import (
	"bytes"
	"fmt"

	"waypost"
)

// Who passes a changelog on has heads of its own, between those that the control plane has signed.
// What it can show instead is a signed statement about a batch, or a head, that ends at the
// same position with the same digest: the testimony for it. Its time is the statement's.

// recentTestimonies is how many statements a node has at hand. A replica is no further behind what its
// follower has verified than by the batches that are being applied.
const recentTestimonies = 256

// testimonies are statements with their signatures, the newest last.
type testimonies struct {
	at    [recentTestimonies]waypost.Position
	words [recentTestimonies][]byte
	next  int
}

func (t *testimonies) add(at waypost.Position, word []byte) {
	i := t.next % recentTestimonies
	t.at[i], t.words[i] = at, word
	t.next++
}

// about gives the newest one about a position, nil for none.
func (t *testimonies) about(at waypost.Position) []byte {
	for n := 1; n <= min(t.next, recentTestimonies); n++ {
		if i := (t.next - n) % recentTestimonies; t.at[i] == at {
			return t.words[i]
		}
	}
	return nil
}

// testimony gives what vouches for a position, nil when nothing is known.
func (t *Trust) testimony(at waypost.Position) []byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own == at && t.vouches != nil {
		return t.vouches
	}
	return t.recent.about(at)
}

// settled says that the replica holds what ends at a position, whose testimony is worth keeping until it moves on.
func (t *Trust) settled(at waypost.Position) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if word := t.recent.about(at); word != nil {
		t.own, t.vouches = at, word
	}
}

// notBefore refuses a source of slots that is behind what was seen signed in its own epoch, when there is something to
// lose: a control plane that has forgotten commits begins a new epoch, and whoever shows an old head wants what was
// deleted since back.
func (t *Trust) notBefore(h *Head, sink Sink) error {
	if t == nil {
		return nil
	}
	if _, holds := sink.Cluster(); !holds {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.Position.Epoch == t.at.Epoch && h.Position.Seq < t.at.Seq {
		return fmt.Errorf("%w: the source is at sequence %d of epoch %d, of which %d was seen signed", ErrSignature,
			h.Position.Seq, h.Position.Epoch.Ordinal, t.at.Seq)
	}
	return nil
}

// Recall takes in a batch that was kept, as [EncodeBatch] made it, so that its signature vouches for the
// position that it ends at also after a restart.
func (t *Trust) Recall(cluster Cluster, kept []byte) error {
	if t == nil || !t.pins(cluster) {
		return nil
	}
	d, err := NewBatchDecoder()
	if err != nil {
		return err
	}
	defer d.Close()
	b, err := d.Decode(kept)
	if err != nil {
		return err
	}
	r, err := newFrameReader(bytes.NewReader(b.Frame))
	if err != nil {
		return err
	}
	defer r.close()
	_, _, payload, err := r.next()
	if err != nil {
		return err
	}
	if _, err = t.checkBatch(cluster, &b, payload, &b.Signature); err == nil {
		t.settled(b.Last())
	}
	return err
}

// Generation is that of the pinned key, 0 for none.
func (t *Trust) Generation() uint32 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pinned.generation
}

// vouched puts before the frame of a head what shows that it is true: its signature, or a testimony.
func (s *Server) vouched(h *Head, frame []byte) []byte {
	if h.Signature.IsZero() && s.cfg.Signer == nil {
		if word := s.cfg.Trust.testimony(h.Position); word != nil {
			return append(plainFrame(frameTestimony, 0, word), frame...)
		}
	}
	return signed(&h.Signature, frame)
}

// checkWord judges a head that has no signature of its own by the testimony for its position.
func (t *Trust) checkWord(h *Head, word []byte) error {
	if len(word) <= signatureSize || len(word) > maxTestimony {
		return fmt.Errorf("%w: a testimony of %d bytes", ErrSignature, len(word))
	}
	statement := word[:len(word)-signatureSize]
	signature, err := decodeSignature(word[len(statement):])
	if err != nil {
		return err
	}
	cluster, said, err := readStatement(statement)
	if err != nil {
		return err
	}
	if cluster != h.Cluster || said.Position != h.Position || said.Digest != h.Digest {
		return fmt.Errorf("%w: the testimony is of sequence %d of epoch %d, and the head at %d of %d", ErrSignature,
			said.Position.Seq, said.Position.Epoch.Ordinal, h.Position.Seq, h.Position.Epoch.Ordinal)
	}
	if err := t.check(cluster, statement, &signature, h.Position); err != nil {
		return err
	}
	h.At = min(h.At, said.At)
	return nil
}
