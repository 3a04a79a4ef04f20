package replication

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"waypost"
	"waypost/internal/atomicfile"
)

// Trust holds the key that a node has pinned, and the newest position that the node has
// seen signed with it. The first key of a cluster is pinned when it comes over a
// connection that the node has authenticated; from then on the node takes no head and no
// batch that this key has not signed. Slots are not signed: their sum must be the digest
// of a signed head or batch, which proves their stamps and not their content. A Trust may
// be used by many goroutines at once.
type Trust struct {
	keep func(document []byte) error

	writing sync.Mutex // held while a document is written; taken before mu

	mu sync.Mutex // not held while the disk works, except to pin a key
	pinnedKey
	kept waypost.Position
}

// pinnedKey is the part of a Trust that a new key replaces.
type pinnedKey struct {
	cluster      Cluster
	pinned       announcement // generation 0: none
	at           waypost.Position
	testimony    []byte // for at: statement and signature
	recent       testimonies
	own          waypost.Position // position of this node's replica
	ownTestimony []byte           // for own; nil: there is none
}

// saveEvery is the time between two writes of a position that moves on.
const saveEvery = 30 * time.Second

// trustDocument is a Trust as it is kept.
type trustDocument struct {
	Version   int     `json:"version"`
	Cluster   Cluster `json:"cluster"`
	Key       []byte  `json:"key"`       // the announcement
	Testimony []byte  `json:"testimony"` // statement and signature
}

const trustVersion = 1

// NewTrust makes a Trust from the kept document, nil for a Trust that has pinned no key.
// Keep makes a document durable. It is called when a key is pinned, and an error then
// ends the connection; a follower that runs calls it now and then.
func NewTrust(kept []byte, keep func(document []byte) error) (*Trust, error) {
	t := &Trust{keep: keep}
	if kept == nil {
		return t, nil
	}
	var d trustDocument
	if err := json.Unmarshal(kept, &d); err != nil {
		return nil, fmt.Errorf("read the pinned key: %w", err)
	}
	if d.Version != trustVersion {
		return nil, fmt.Errorf("read the pinned key: version %d is unknown", d.Version)
	}
	pinned, err := decodeAnnouncement(d.Key)
	if err != nil {
		return nil, fmt.Errorf("read the pinned key: %w", err)
	}
	t.cluster, t.pinned = d.Cluster, pinned
	if len(d.Testimony) > signatureSize {
		if cluster, stated, err := readStatement(d.Testimony[:len(d.Testimony)-signatureSize]); err == nil && cluster == d.Cluster {
			t.at, t.testimony = stated.Position, d.Testimony
			t.recent.addTestimony(t.at, t.testimony)
		}
	}
	return t, nil
}

// OpenTrust makes a Trust of the document in a file, if there is one. A file that cannot
// be read is set aside, and the next key is pinned, because a node that follows no
// control plane would be worse.
func OpenTrust(path string, keep func(document []byte) error, log *slog.Logger) (*Trust, error) {
	kept, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return NewTrust(nil, keep)
	}
	if errors.Is(err, fs.ErrPermission) { // which people can mend
		return nil, fmt.Errorf("read the control plane's key: %w", err)
	}
	if err == nil {
		var t *Trust
		if t, err = NewTrust(kept, keep); err == nil {
			return t, nil
		}
	}
	log.Error("cannot read the pinned key of the control plane; it is set aside, and the next key is pinned", "error", err)
	if err := atomicfile.SetAside(path); err != nil {
		return nil, fmt.Errorf("set aside the control plane's key: %w", err)
	}
	return NewTrust(nil, keep)
}

// Testimony returns the newest position seen signed, for a follower to present; "" before
// the first.
func (t *Trust) Testimony() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return base64.RawURLEncoding.EncodeToString(t.testimony)
}

// Save makes the newest position seen signed durable, unless it is already. When that
// fails, the disk keeps an older position, which is no worse than a crash.
func (t *Trust) Save() error {
	if t == nil {
		return nil
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	at := t.at
	due := t.pinned.generation != 0 && t.kept != at
	document, err := t.document()
	t.mu.Unlock()
	if !due {
		return nil
	}
	if err == nil {
		err = t.keep(document)
	}
	if err != nil {
		return fmt.Errorf("keep the newest signed position: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = at
	return nil
}

// saveUntil saves now and then until ctx ends.
func (t *Trust) saveUntil(ctx context.Context, log *slog.Logger) {
	if t == nil {
		return
	}
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := t.Save(); err != nil {
			log.Warn("cannot save the newest signed position", "error", err)
		}
	}
}

func (t *Trust) document() ([]byte, error) {
	return json.Marshal(trustDocument{Version: trustVersion, Cluster: t.cluster, Key: t.pinned.append(nil), Testimony: t.testimony})
}

// save writes the document. t.writing and t.mu are held.
func (t *Trust) save() error {
	document, err := t.document()
	if err == nil {
		err = t.keep(document)
	}
	if err != nil {
		return fmt.Errorf("keep the pinned key: %w", err)
	}
	t.kept = t.at
	return nil
}

// announced is the pinned key as it was announced, for those who follow this node.
func (t *Trust) announced() []byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pinned.generation == 0 {
		return nil
	}
	return t.pinned.append(nil)
}

// pins reports whether signatures of a cluster are asked for.
func (t *Trust) pins(cluster Cluster) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pinned.generation != 0 && t.cluster == cluster
}

// meet judges the key that a source announces, nil when it announces none. It pins the
// first key, and later a key that the pinned key endorses.
func (t *Trust) meet(cluster Cluster, payload []byte) error {
	if t == nil {
		return nil
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.pinned.generation != 0
	if known && t.cluster != cluster {
		return fmt.Errorf("%w: a key of cluster %x is pinned, and this is %x", ErrSignature, t.cluster, cluster)
	}
	if payload == nil {
		if known {
			return fmt.Errorf("%w: the source signs nothing, and a key is pinned", ErrSignature)
		}
		return nil
	}
	a, err := decodeAnnouncement(payload)
	if err != nil {
		return err
	}
	switch {
	case !known:
	case a.generation == t.pinned.generation && a.key == t.pinned.key:
		return nil
	case a.generation <= t.pinned.generation:
		return fmt.Errorf("%w: the source signs with another key of generation %d than the pinned one, of generation %d", ErrSignature,
			a.generation, t.pinned.generation)
	case !t.pinned.endorses(&cluster, &a):
		return fmt.Errorf("%w: the pinned key, of generation %d, does not endorse the source's, of generation %d", ErrSignature,
			t.pinned.generation, a.generation)
	}
	was := t.pinnedKey
	t.pinnedKey = pinnedKey{cluster: cluster, pinned: a}
	if known {
		t.at, t.testimony = was.at, was.testimony
	}
	if err := t.save(); err != nil {
		t.pinnedKey = was
		return err
	}
	return nil
}

// endorses reports whether a later key carries a signature of this one.
func (a *announcement) endorses(cluster *Cluster, later *announcement) bool {
	for i := range later.endorsements {
		if e := &later.endorsements[i]; e.Generation == a.generation {
			return ed25519.Verify(a.key[:], appendKeyStatement(nil, cluster, later), e.Bytes[:])
		}
	}
	return false
}

// check holds a statement about a position against its signature, and remembers it
// if it is the newest.
func (t *Trust) check(cluster Cluster, statement []byte, s *Signature, at waypost.Position) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s.IsZero():
		return fmt.Errorf("%w: sequence %d of epoch %d is not signed", ErrSignature, at.Seq, at.Epoch.Ordinal)
	case s.Generation != t.pinned.generation || t.cluster != cluster:
		return fmt.Errorf("%w: sequence %d is signed with a key of generation %d, and %d is pinned", ErrSignature,
			at.Seq, s.Generation, t.pinned.generation)
	case !ed25519.Verify(t.pinned.key[:], statement, s.Bytes[:]):
		return fmt.Errorf("%w: what is sent for sequence %d of epoch %d is not what was signed", ErrSignature, at.Seq, at.Epoch.Ordinal)
	}
	testimony := s.append(bytes.Clone(statement))
	t.recent.addTestimony(at, testimony)
	if isAfter(at, t.at) {
		t.at, t.testimony = at, testimony
	}
	return nil
}

// isAfter reports whether a position is in a newer epoch than another one, or later in
// the same one. Two databases that were promoted within one minute open epochs with the
// same ordinal: of their positions none is after the other, whatever their sequences are.
func isAfter(at, seen waypost.Position) bool {
	return at.Epoch.Ordinal > seen.Epoch.Ordinal || at.Epoch == seen.Epoch && at.Seq > seen.Seq
}

// checkHead is check for a head, or for the testimony that came with it.
func (t *Trust) checkHead(h *Head, testimony []byte) error {
	if !t.pins(h.Cluster) {
		return nil
	}
	if h.Signature.IsZero() && testimony != nil {
		return t.checkTestimony(h, testimony)
	}
	return t.check(h.Cluster, appendHeadStatement(nil, h), &h.Signature, h.Position)
}

// checkBatch is check for a batch that came as payload. It reports whether that was
// signed.
func (t *Trust) checkBatch(cluster Cluster, b *Batch, payload []byte, s *Signature) (bool, error) {
	if !t.pins(cluster) {
		return false, nil
	}
	return true, t.check(cluster, appendBatchStatement(nil, &cluster, b.Epoch, b.Transactions, payload), s, b.Last())
}

// A relay has heads of its own, between the heads that the control plane has signed. It
// proves them by a testimony: a signed statement about a batch, or a head, that ends at
// the same position with the same digest. The time of the head is then the statement's.

// recentTestimonies bounds the statements that a node has at hand. A replica lags behind
// the position that its follower has verified by at most the batches that are being
// applied.
const recentTestimonies = 256

// testimonies are statements with their signatures, the newest last.
type testimonies struct {
	at   [recentTestimonies]waypost.Position
	all  [recentTestimonies][]byte
	next int
}

func (t *testimonies) addTestimony(at waypost.Position, testimony []byte) {
	i := t.next % recentTestimonies
	t.at[i], t.all[i] = at, testimony
	t.next++
}

// about returns the newest testimony about a position, nil for none.
func (t *testimonies) about(at waypost.Position) []byte {
	for n := 1; n <= min(t.next, recentTestimonies); n++ {
		if i := (t.next - n) % recentTestimonies; t.at[i] == at {
			return t.all[i]
		}
	}
	return nil
}

// testimonyFor returns the testimony for a position, nil for none.
func (t *Trust) testimonyFor(at waypost.Position) []byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own == at && t.ownTestimony != nil {
		return t.ownTestimony
	}
	return t.recent.about(at)
}

// settled notes the replica's position, so that its testimony is kept until the replica
// moves on.
func (t *Trust) settled(at waypost.Position) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if testimony := t.recent.about(at); testimony != nil {
		t.own, t.ownTestimony = at, testimony
	}
}

// notBefore refuses a source of slots that is behind a position seen signed in its own
// epoch, unless this replica is empty. A control plane that has forgotten commits begins
// a new epoch, so a source with an old head would bring deleted links back.
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

// Recall verifies a batch that was kept, as [EncodeBatch] encoded it, so that after a
// restart its signature is the testimony for the position at its end.
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

// Generation returns the generation of the pinned key, 0 for none.
func (t *Trust) Generation() uint32 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pinned.generation
}

// checkTestimony verifies a head that has no signature of its own by the testimony for
// its position.
func (t *Trust) checkTestimony(h *Head, testimony []byte) error {
	if len(testimony) <= signatureSize || len(testimony) > maxTestimony {
		return fmt.Errorf("%w: a testimony of %d bytes", ErrSignature, len(testimony))
	}
	statement := testimony[:len(testimony)-signatureSize]
	signature, err := decodeSignature(testimony[len(statement):])
	if err != nil {
		return err
	}
	cluster, stated, err := readStatement(statement)
	if err != nil {
		return err
	}
	if cluster != h.Cluster || stated.Position != h.Position || stated.Digest != h.Digest {
		return fmt.Errorf("%w: the testimony is of sequence %d of epoch %d, and the head at %d of %d", ErrSignature,
			stated.Position.Seq, stated.Position.Epoch.Ordinal, h.Position.Seq, h.Position.Epoch.Ordinal)
	}
	if err := t.check(cluster, statement, &signature, h.Position); err != nil {
		return err
	}
	h.At = min(h.At, stated.At)
	return nil
}
