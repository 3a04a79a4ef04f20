package replication

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"waypost"
	"waypost/internal/codes"
)

// BlockShards is the number of parts into which blocks are divided for digests.
const BlockShards = 64

// blocksInFrame bounds the blocks in a frame.
const blocksInFrame = 256

// ErrTooManyBlocks says that a set has as many codes as there may be.
var ErrTooManyBlocks = errors.New("there are as many blocks as there can be")

// BlockSet holds the newest statement about every code that was ever blocked. All methods
// may be called by many goroutines at once. The zero value is empty and ready to use.
type BlockSet struct {
	// Redirects read active and blocked. A map is replaced and never changed.
	active  atomic.Int64
	blocked [BlockShards]atomic.Pointer[map[string]waypost.BlockPolicy]

	mu      sync.Mutex
	all     map[string]*heldBlock // by key
	forms   map[string][]string   // keys of codes that are one without case, by its key
	digests [BlockShards]uint64
	taken   []*heldBlock // all statements in their order; nil: there is a newer one
	changed []func()
}

type heldBlock struct {
	SignedBlock
	place int // in taken
}

// shardOf is the shard of a key: the same on all nodes.
func shardOf(key []byte) int {
	h := uint32(2166136261) // FNV-1a
	for _, c := range key {
		h = (h ^ uint32(c)) * 16777619
	}
	return int(h>>16^h) % BlockShards
}

// Any reports whether any code is blocked. A redirect asks it first.
func (s *BlockSet) Any() bool { return s != nil && s.active.Load() != 0 }

// Policy returns the policy with which a code is blocked, 0 for a code that is not
// blocked. A host is in the form of [waypost.HostName]. Folded says that the domain
// ignores case, and that code is in the form without case: then statements about any form
// of the code count. It neither locks nor allocates.
func (s *BlockSet) Policy(host, code []byte, folded bool) waypost.BlockPolicy {
	if !s.Any() || len(host) > waypost.MaxHostLength || len(code) > waypost.MaxCodeLength {
		return 0
	}
	return s.find(host, code, folded)
}

func (s *BlockSet) find(host, code []byte, folded bool) waypost.BlockPolicy {
	var buf [waypost.MaxHostLength + 3 + waypost.MaxCodeLength]byte
	key := waypost.AppendBlockKey(buf[:0], host, code, folded)
	if m := s.blocked[shardOf(key)].Load(); m != nil {
		return (*m)[string(key)]
	}
	return 0
}

// Get returns the newest statement about a code.
func (s *BlockSet) Get(host string, code waypost.Code) (waypost.Block, bool) {
	if s == nil {
		return waypost.Block{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.all[string(waypost.AppendBlockKey(nil, []byte(host), []byte(code), false))]; held != nil {
		return held.Block, true
	}
	return waypost.Block{}, false
}

// GetFolded returns a statement about any form of a code, a block if one is.
func (s *BlockSet) GetFolded(host string, code waypost.Code) (waypost.Block, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.like(host, codes.Fold(code))
}

// like does the work of GetFolded. s.mu is held.
func (s *BlockSet) like(host string, folded waypost.Code) (found waypost.Block, ok bool) {
	for _, key := range s.forms[string(waypost.AppendBlockKey(nil, []byte(host), []byte(folded), true))] {
		if b := s.all[key]; !ok || b.Blocked {
			found, ok = b.Block, true
		}
	}
	return found, ok
}

// OnChange calls f after every change, until the process ends. F must not block, nor call
// the set.
func (s *BlockSet) OnChange(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// Take adds statements and returns the new ones. Older and known statements change
// nothing. The caller has verified all signatures. The new statements have effect when
// Take returns. ErrTooManyBlocks: some found no room.
func (s *BlockSet) Take(all ...SignedBlock) (news []SignedBlock, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	touched := make(map[int]map[string]waypost.BlockPolicy)
	for i := range all {
		b := &all[i]
		key := waypost.AppendBlockKey(nil, []byte(b.Host), []byte(b.Code), false)
		held, shard := s.all[string(key)], shardOf(key)
		switch {
		case held == nil && len(s.all) >= waypost.MaxBlocks:
			err = ErrTooManyBlocks
			continue
		case held != nil && !b.Newer(&held.Block):
			if b.Block == held.Block && b.Signature.Generation > held.Signature.Generation {
				held.Signature = b.Signature
			}
			continue
		case held != nil:
			s.digests[shard] ^= BlockStamp(&held.Block)
			s.taken[held.place] = nil
		case s.all == nil:
			s.all, s.forms = make(map[string]*heldBlock), make(map[string][]string)
		}
		if held == nil {
			form := string(waypost.AppendBlockKey(nil, []byte(b.Host), []byte(codes.Fold(b.Code)), true))
			s.forms[form] = append(s.forms[form], string(key))
		}
		s.digests[shard] ^= BlockStamp(&b.Block)
		held = &heldBlock{*b, len(s.taken)}
		s.all[string(key)], s.taken = held, append(s.taken, held)
		s.show(touched, key, b)
		news = append(news, *b)
	}
	for shard, m := range touched {
		s.blocked[shard].Store(&m)
	}
	if len(news) > 0 {
		for _, f := range s.changed {
			f()
		}
	}
	return news, err
}

// show makes a statement part of the next state of the shards of its keys. s.mu is held.
func (s *BlockSet) show(touched map[int]map[string]waypost.BlockPolicy, key []byte, b *SignedBlock) {
	m := s.next(touched, key)
	if _, before := m[string(key)]; before != b.Blocked {
		s.active.Add(map[bool]int64{true: 1, false: -1}[b.Blocked])
	}
	set(m, key, &b.Block)
	shown, folded := b.Block, codes.Fold(b.Code)
	if !b.Blocked {
		shown, _ = s.like(b.Host, folded)
	}
	key = waypost.AppendBlockKey(nil, []byte(b.Host), []byte(folded), true)
	set(s.next(touched, key), key, &shown)
}

// next returns the next state of the shard of a key. s.mu is held.
func (s *BlockSet) next(touched map[int]map[string]waypost.BlockPolicy, key []byte) map[string]waypost.BlockPolicy {
	shard := shardOf(key)
	m, begun := touched[shard]
	if !begun {
		m = make(map[string]waypost.BlockPolicy)
		if present := s.blocked[shard].Load(); present != nil {
			maps.Copy(m, *present)
		}
		touched[shard] = m
	}
	return m
}

func set(m map[string]waypost.BlockPolicy, key []byte, b *waypost.Block) {
	if b.Blocked {
		m[string(key)] = b.Policy
	} else {
		delete(m, string(key))
	}
}

// Order returns the place of the newest statement in the order in which this set took
// them, 0 for none.
func (s *BlockSet) Order() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.taken))
}

// Since returns the statements behind a place in that order, at most most of them, and
// the place of the last.
func (s *BlockSet) Since(order uint64, most int) ([]SignedBlock, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []SignedBlock
	order = min(order, uint64(len(s.taken)))
	for ; order < uint64(len(s.taken)) && len(found) < most; order++ {
		if b := s.taken[order]; b != nil {
			found = append(found, b.SignedBlock)
		}
	}
	return found, order
}

// Follow calls f with every statement that is news from now on, in their order, until ctx
// ends.
func (s *BlockSet) Follow(ctx context.Context, f func(b *SignedBlock)) {
	wake := make(chan struct{}, 1)
	s.OnChange(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	for order := s.Order(); ; {
		all, next := s.Since(order, blocksInFrame)
		for i := range all {
			f(&all[i])
		}
		if order = next; len(all) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
	}
}

// Digest is the digest of all statements: equal for two sets with the same ones.
func (s *BlockSet) Digest() (digest uint64) {
	for _, d := range s.Digests() {
		digest ^= d
	}
	return digest
}

// Digests returns the digests of the shards.
func (s *BlockSet) Digests() [BlockShards]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.digests
}

// Differing returns the statements of each shard with another digest than in digests.
func (s *BlockSet) Differing(digests *[BlockShards]uint64) (found []SignedBlock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.all {
		if shard := shardOf([]byte(key)); s.digests[shard] != digests[shard] {
			found = append(found, b.SignedBlock)
		}
	}
	return found
}

// All returns all statements, in no order.
func (s *BlockSet) All() []SignedBlock {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]SignedBlock, 0, len(s.all))
	for _, b := range s.all {
		all = append(all, b.SignedBlock)
	}
	return all
}

// Active returns the number of blocked codes.
func (s *BlockSet) Active() int { return int(s.active.Load()) }
