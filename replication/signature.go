package replication

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"waypost"
)

// ErrSignature says that a frame is not signed by the key that this node has pinned. The
// frame is not applied; the replica serves on.
var ErrSignature = errors.New("the control plane's signature does not hold")

// Signature is a control plane's word for a batch or a head, which stays with it through
// any number of relays.
type Signature struct {
	Generation uint32 // of the key; 0: there is no signature
	Bytes      [ed25519.SignatureSize]byte
}

// IsZero reports whether there is no signature.
func (s *Signature) IsZero() bool { return s.Generation == 0 }

// MaxGeneration is the generation of the last signing key that a cluster can have.
const MaxGeneration = 64

// Signer signs for a cluster. All control planes of one derive the same keys. It may
// be used by many goroutines at once.
type Signer struct {
	cluster    Cluster
	generation uint32
	key        ed25519.PrivateKey
	publics    [][ed25519.PublicKeySize]byte // of the generations from 1 to generation
	announced  []byte                        // payload of a key frame
}

// NewSigner derives the signing key of a generation, 1 to MaxGeneration, from the
// cluster's secret: HKDF-SHA-256 (RFC 5869) with the cluster's id for salt.
func NewSigner(secret [32]byte, cluster Cluster, generation uint32) (*Signer, error) {
	if generation == 0 || generation > MaxGeneration {
		return nil, fmt.Errorf("signing key: generation %d is not within 1 to %d", generation, MaxGeneration)
	}
	s := &Signer{cluster: cluster, generation: generation}
	var err error
	if s.key, err = deriveKey(secret, cluster, generation); err != nil {
		return nil, err
	}
	a := announcement{generation: generation, key: publicKey(s.key)}
	statement := appendKeyStatement(nil, &cluster, &a)
	for older := uint32(1); older < generation; older++ {
		key, err := deriveKey(secret, cluster, older)
		if err != nil {
			return nil, err
		}
		s.publics = append(s.publics, publicKey(key))
		a.endorsements = append(a.endorsements, Signature{Generation: older, Bytes: [ed25519.SignatureSize]byte(ed25519.Sign(key, statement))})
	}
	s.publics = append(s.publics, a.key)
	s.announced = a.append(nil)
	return s, nil
}

func deriveKey(secret [32]byte, cluster Cluster, generation uint32) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret[:], cluster[:], fmt.Sprintf("waypost changelog signing key %d", generation), ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive a signing key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func publicKey(k ed25519.PrivateKey) (p [ed25519.PublicKeySize]byte) {
	copy(p[:], k[ed25519.SeedSize:])
	return p
}

func (s *Signer) sign(statement []byte) Signature {
	return Signature{Generation: s.generation, Bytes: [ed25519.SignatureSize]byte(ed25519.Sign(s.key, statement))}
}

// signBatch signs a batch's payload, as it is before it is compressed.
func (s *Signer) signBatch(b *Batch, payload []byte) Signature {
	return s.sign(appendBatchStatement(nil, &s.cluster, b.Epoch, b.Transactions, payload))
}

func (s *Signer) signHead(h *Head) Signature { return s.sign(appendHeadStatement(nil, h)) }

// VerifyTestimony verifies the testimony that a follower presents with [HeaderTestimony],
// and returns the position that a control plane of this cluster has signed with this key.
func (s *Signer) VerifyTestimony(text string) (Testimony, error) {
	var none Testimony
	if len(text) > base64.RawURLEncoding.EncodedLen(maxTestimony) {
		return none, fmt.Errorf("%w: a testimony of %d characters", ErrSignature, len(text))
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < signatureSize {
		return none, fmt.Errorf("%w: a malformed testimony", ErrSignature)
	}
	statement := b[:len(b)-signatureSize]
	signature, err := decodeSignature(b[len(statement):])
	if err != nil {
		return none, fmt.Errorf("%w: a malformed testimony: %w", ErrSignature, err)
	}
	if signature.Generation != s.generation || !ed25519.Verify(s.key.Public().(ed25519.PublicKey), statement, signature.Bytes[:]) {
		return none, fmt.Errorf("%w: a testimony of key generation %d", ErrSignature, signature.Generation)
	}
	cluster, testimony, err := readStatement(statement)
	if err == nil && cluster != s.cluster {
		err = fmt.Errorf("%w: a testimony of another cluster", ErrSignature)
	}
	return testimony, err
}

// Each statement begins with statementPrefix and its kind, so that none can be mistaken
// for another.
const (
	statementPrefix = "waypost changelog\x00"

	statementBatch = 1
	statementHead  = 2
	statementKey   = 3
	statementBlock = 4

	batchStatementSize = len(statementPrefix) + 1 + 16 + 20 + 8 + 8 + 8 + 8 + 8 + sha256.Size
	headStatementSize  = len(statementPrefix) + 1 + headSize
	maxTestimony       = batchStatementSize + signatureSize
)

func beginStatement(dst []byte, kind byte) []byte {
	return append(append(dst, statementPrefix...), kind)
}

// appendBatchStatement covers cluster, epoch, first and last sequence, stamp, root digest
// and time of the last, and the hash of the payload.
func appendBatchStatement(dst []byte, cluster *Cluster, epoch waypost.Epoch, ts []Transaction, payload []byte) []byte {
	le := binary.LittleEndian
	last := &ts[len(ts)-1]
	hash := sha256.Sum256(payload)
	dst = append(beginStatement(dst, statementBatch), cluster[:]...)
	dst = appendEpoch(dst, epoch)
	dst = le.AppendUint64(dst, ts[0].Seq)
	dst = le.AppendUint64(dst, last.Seq)
	dst = le.AppendUint64(dst, last.Stamp)
	dst = le.AppendUint64(dst, last.Digest)
	dst = le.AppendUint64(dst, uint64(last.At))
	return append(dst, hash[:]...)
}

func appendHeadStatement(dst []byte, h *Head) []byte {
	return appendHead(beginStatement(dst, statementHead), h)
}

func appendKeyStatement(dst []byte, cluster *Cluster, a *announcement) []byte {
	dst = append(beginStatement(dst, statementKey), cluster[:]...)
	return append(binary.LittleEndian.AppendUint32(dst, a.generation), a.key[:]...)
}

// readStatement returns the position that a statement is about.
func readStatement(statement []byte) (cluster Cluster, testimony Testimony, err error) {
	rest, ok := bytes.CutPrefix(statement, []byte(statementPrefix))
	if !ok || len(rest) == 0 {
		return cluster, testimony, fmt.Errorf("%w: no statement", ErrSignature)
	}
	c := cursor{b: rest[1:]}
	switch {
	case rest[0] == statementHead && len(statement) == headStatementSize:
		h := c.head()
		return h.Cluster, Testimony{Position: h.Position, Digest: h.Digest, At: h.At}, nil
	case rest[0] == statementBatch && len(statement) == batchStatementSize:
		copy(cluster[:], c.takeBytes(len(cluster)))
		testimony.Position.Epoch = c.epoch()
		c.u64() // the first sequence
		testimony.Position.Seq, testimony.Position.Stamp = c.u64(), c.u64()
		testimony.Digest = c.u64()
		testimony.At = int64(c.u64())
		return cluster, testimony, nil
	}
	return cluster, testimony, fmt.Errorf("%w: a statement of kind %d in %d bytes", ErrSignature, rest[0], len(statement))
}

// signatureSize is the size of a signature frame's payload: the key's generation, and the
// signature.
const signatureSize = 4 + ed25519.SignatureSize

func (s *Signature) append(dst []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, s.Generation), s.Bytes[:]...)
}

func decodeSignature(b []byte) (s Signature, err error) {
	c := cursor{b: b}
	s.Generation = c.u32()
	copy(s.Bytes[:], c.takeBytes(len(s.Bytes)))
	if err = c.done(frameSignature); err == nil && s.Generation == 0 {
		err = fmt.Errorf("%w: a signature of no key", errFrame)
	}
	return s, err
}

// signed puts a signature frame before a frame, if there is a signature. A reader
// that knows of none passes over it.
func signed(s *Signature, frame []byte) []byte {
	if s.IsZero() {
		return frame
	}
	return append(plainFrame(frameSignature, 0, s.append(nil)), frame...)
}

// announcement announces the signing key to followers: the payload of a key frame. Each
// older key endorses it, so that a follower that has pinned one can adopt it.
type announcement struct {
	generation   uint32
	key          [ed25519.PublicKeySize]byte
	endorsements []Signature
}

func (a *announcement) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(le.AppendUint32(dst, a.generation), a.key[:]...)
	dst = le.AppendUint16(dst, uint16(len(a.endorsements)))
	for i := range a.endorsements {
		dst = a.endorsements[i].append(dst)
	}
	return dst
}

func decodeAnnouncement(b []byte) (a announcement, err error) {
	c := cursor{b: b}
	a.generation = c.u32()
	copy(a.key[:], c.takeBytes(len(a.key)))
	n := c.u16()
	if a.generation == 0 || n > MaxGeneration {
		return a, fmt.Errorf("%w: the key of generation %d with %d endorsements", errFrame, a.generation, n)
	}
	for range n {
		s, err := decodeSignature(c.takeBytes(signatureSize))
		if err != nil {
			return a, err
		}
		a.endorsements = append(a.endorsements, s)
	}
	return a, c.done(frameKey)
}
