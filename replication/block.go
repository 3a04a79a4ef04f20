package replication

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"waypost"
)

// SignedBlock is a [waypost.Block] with a control plane's signature, which stays with it
// on every way: on the stream, in gossip, in an edge's report and on its disk.
type SignedBlock struct {
	waypost.Block
	Signature Signature
}

// MaxSignedBlock bounds an encoded block, in bytes. It fits into a packet of gossip.
const MaxSignedBlock = blockHeaderSize + 3 + waypost.MaxHostLength + waypost.MaxCodeLength + waypost.MaxBlockReason + signatureSize

const (
	blockVersion    = 1
	blockHeaderSize = 1 + 8 + 8 + 1 + 1
)

// appendBlockFields encodes the signed fields of a block: version of the format, version
// of the statement, time, state, policy, and host, code and reason behind their lengths.
func appendBlockFields(dst []byte, b *waypost.Block) []byte {
	le := binary.LittleEndian
	state := byte(0)
	if b.Blocked {
		state = 1
	}
	dst = le.AppendUint64(le.AppendUint64(append(dst, blockVersion), b.Version), uint64(b.At))
	dst = append(dst, state, byte(b.Policy))
	for _, text := range []string{b.Host, string(b.Code), b.Reason} {
		dst = append(append(dst, byte(len(text))), text...)
	}
	return dst
}

// AppendBlock encodes a block with its signature. The block must be valid.
func AppendBlock(dst []byte, b *SignedBlock) []byte {
	return b.Signature.append(appendBlockFields(dst, &b.Block))
}

// DecodeBlock reads a block that AppendBlock has encoded. It does not judge the
// signature.
func DecodeBlock(encoded []byte) (b SignedBlock, err error) {
	c := cursor{b: encoded}
	version := c.takeBytes(1)
	b.Version, b.At = c.u64(), int64(c.u64())
	state := c.takeBytes(2)
	text := func() string {
		if n := c.takeBytes(1); n != nil {
			return string(c.takeBytes(int(n[0])))
		}
		return ""
	}
	b.Host, b.Code, b.Reason = text(), waypost.Code(text()), text()
	signature := c.takeBytes(signatureSize)
	if err := c.done(frameBlocks); err != nil {
		return SignedBlock{}, err
	}
	if version[0] != blockVersion || state[0] > 1 {
		return SignedBlock{}, fmt.Errorf("%w: a block of version %d", errFrame, version[0])
	}
	b.Blocked, b.Policy = state[0] == 1, waypost.BlockPolicy(state[1])
	if !b.Valid() {
		return SignedBlock{}, fmt.Errorf("%w: a block out of bounds", errFrame)
	}
	b.Signature, err = decodeSignature(signature)
	return b, err
}

// appendBlocks is the payload of a frame of blocks.
func appendBlocks(dst []byte, all []SignedBlock) []byte {
	for i := range all {
		at := len(dst)
		dst = AppendBlock(append(dst, 0, 0), &all[i])
		binary.LittleEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	}
	return dst
}

func decodeBlocks(payload []byte) (all []SignedBlock, err error) {
	c := cursor{b: payload}
	for len(c.b) > 0 && !c.short {
		b, err := DecodeBlock(c.takeBytes(int(c.u16())))
		if err != nil {
			return nil, err
		}
		if all = append(all, b); len(all) > blocksInFrame {
			return nil, fmt.Errorf("%w: more than %d blocks in a frame", errFrame, blocksInFrame)
		}
	}
	return all, c.done(frameBlocks)
}

func appendBlockStatement(dst []byte, cluster *Cluster, b *waypost.Block) []byte {
	return appendBlockFields(append(beginStatement(dst, statementBlock), cluster[:]...), b)
}

// BlockStamp is the contribution of a block to a digest of blocks. It does not depend on
// the key that signed.
func BlockStamp(b *waypost.Block) uint64 {
	sum := sha256.Sum256(appendBlockFields(nil, b))
	return binary.LittleEndian.Uint64(sum[:])
}

// SignBlock signs a block, which must be valid.
func (s *Signer) SignBlock(b waypost.Block) SignedBlock {
	return SignedBlock{Block: b, Signature: s.sign(appendBlockStatement(nil, &s.cluster, &b))}
}

// CheckBlock verifies a block that comes back from an edge. It may be signed with an
// earlier key of the cluster.
func (s *Signer) CheckBlock(b *SignedBlock) error {
	g, statement := b.Signature.Generation, appendBlockStatement(nil, &s.cluster, &b.Block)
	if g == 0 || g > s.generation || !ed25519.Verify(s.publics[g-1][:], statement, b.Signature.Bytes[:]) {
		return fmt.Errorf("%w: of a block of %q with a key of generation %d", ErrSignature, b.Code, g)
	}
	return nil
}

// CheckBlock verifies a block with the pinned key. Nothing holds before a key is pinned.
func (t *Trust) CheckBlock(b *SignedBlock) error {
	if t == nil {
		return fmt.Errorf("%w: there is no key to verify a block with", ErrSignature)
	}
	t.mu.Lock()
	cluster, pinned := t.cluster, t.pinned
	t.mu.Unlock()
	if b.Signature.IsZero() || b.Signature.Generation != pinned.generation ||
		!ed25519.Verify(pinned.key[:], appendBlockStatement(nil, &cluster, &b.Block), b.Signature.Bytes[:]) {
		return fmt.Errorf("%w: of a block of %q with a key of generation %d, and %d is pinned", ErrSignature,
			b.Code, b.Signature.Generation, pinned.generation)
	}
	return nil
}
