// Package blocks blocks codes: it keeps the statements of operators about links that must
// lead nowhere, makes them known to edges, and brings back statements that a restored
// database has forgotten.
package blocks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/replication"
)

// Store keeps the statements about blocked codes. Writes wait for each other, and for no
// change of links.
type Store interface {
	// SetBlock makes a statement about the code of a link of any workspace, deleted or
	// not, with a version above all others, and notes the statement in the audit log. For
	// all addresses it makes one about each further address of the link, and skips those
	// without a block to end; so it skips b, when b ends a block and has no policy. It
	// returns ENotFound when no link has the code and no statement is about it, and
	// EConflict when [waypost.MaxBlocks] codes have a statement already, or when no
	// address is left.
	SetBlock(ctx context.Context, by controlplane.Actor, all bool, b waypost.Block) ([]waypost.Block, error)

	// Blocks returns up to limit statements behind a place, in the order in which the
	// database took them, and the place of the last.
	Blocks(ctx context.Context, place int64, limit int) ([]waypost.Block, int64, error)

	// BlockDigest returns the XOR of the stamps of all statements.
	BlockDigest(ctx context.Context) (uint64, error)

	// RecoverBlocks stores statements that the database has forgotten, and notes them in
	// the audit log. It skips a statement when the database has a newer one about the
	// code.
	RecoverBlocks(ctx context.Context, all []waypost.Block) (taken int, err error)
}

// Config configures Blocks. All fields are required.
type Config struct {
	Store   Store
	Set     *replication.BlockSet // from which edges get the statements
	Signer  *replication.Signer
	Domains *controlplane.Domains
	Logger  *slog.Logger
}

// Blocks blocks codes. It keeps the statements in memory, from where they reach edges.
type Blocks struct {
	store   Store
	set     *replication.BlockSet
	signer  *replication.Signer
	domains *controlplane.Domains
	log     *slog.Logger

	place int64 // of the newest statement of the store that the set has; Run owns it
}

// New returns the service; Load and Run fill its set.
func New(cfg Config) *Blocks {
	return &Blocks{store: cfg.Store, set: cfg.Set, signer: cfg.Signer, domains: cfg.Domains, log: cfg.Logger}
}

// blockPoll is the interval of reads of the store, for statements of other control
// planes. blockCheck is the interval of comparisons of the store with the set.
const (
	blockPoll  = 250 * time.Millisecond
	blockCheck = time.Second
	blockPage  = 500
)

// Request asks for a block, or for its end.
type Request struct {
	Domain  string // host; "": the default domain
	Code    string
	All     bool // addresses of the link
	Blocked bool
	Policy  waypost.BlockPolicy // 0 for the end of a block
	Reason  string
}

// Set blocks a code of any workspace, or ends its block. When Set returns, the change is
// effective on this control plane and on its way to edges. Only operators may call Set,
// because the owner of a link must not be able to undo a block; an owner disables or
// deletes the link. Set returns ENotFound for an unknown code, and EConflict when the
// code is in the requested state already. It returns the statements that it has made, the
// one about the code first.
func (s *Blocks) Set(ctx context.Context, actor controlplane.Actor, n Request) ([]waypost.Block, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	if !waypost.ValidBlockReason(n.Reason) {
		return nil, waypost.Errorf(waypost.EInvalid, "reason must be one line of 1 to %d bytes", waypost.MaxBlockReason)
	}
	if !waypost.ValidCode(n.Code) {
		return nil, waypost.ErrNoLink
	}
	host, code, folded, err := s.domains.AddressOf(ctx, n.Domain, n.Code)
	if err != nil {
		return nil, err
	}
	before, stated := s.set.Get(host, code)
	if folded && !stated {
		before, stated = s.set.GetFolded(host, code)
	}
	if stated {
		code = before.Code
	}
	b := waypost.Block{Host: host, Code: code, Blocked: n.Blocked, Policy: n.Policy, Reason: n.Reason}
	switch {
	case !n.Blocked && before.Blocked:
		b.Policy = before.Policy
	case !n.Blocked && !n.All:
		return nil, waypost.Errorf(waypost.EConflict, "the link is not blocked")
	case !n.Blocked:
	case b.Policy == 0:
		b.Policy = waypost.BlockGone
	}
	made, err := s.store.SetBlock(ctx, actor, n.All, b)
	if err != nil {
		return nil, err
	}
	for _, b := range made {
		if _, err := s.set.Take(s.signer.SignBlock(b)); err != nil {
			return nil, fmt.Errorf("take a block: %w", err)
		}
		s.log.WarnContext(ctx, "changed the block of a code", "host", b.Host, "code", string(b.Code),
			"blocked", b.Blocked, "policy", b.Policy.String(), "by", actor.Label())
	}
	for _, b := range made {
		if held, _ := s.set.Get(b.Host, b.Code); held.Version > b.Version {
			return nil, waypost.Errorf(waypost.EUnavailable, "a newer statement about the link has come back from edges: look, and try again in a moment")
		}
	}
	return made, nil
}

// Of returns the block of a code, as its owner typed it; nil for a code that is not
// blocked.
func (s *Blocks) Of(host string, code waypost.Code) *waypost.Block {
	if b, ok := s.set.Get(host, code); ok && b.Blocked {
		return &b
	}
	return nil
}

// List returns a page of the codes that are blocked, newest first. That needs
// [controlplane.Actor.CheckOperator].
func (s *Blocks) List(actor controlplane.Actor, limit int, cursor string) (page []waypost.Block, next string, err error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, "", err
	}
	before, err := controlplane.ReadCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	for _, b := range s.set.All() {
		if b.Blocked && (before == 0 || b.Version < uint64(before)) {
			page = append(page, b.Block)
		}
	}
	slices.SortFunc(page, func(a, b waypost.Block) int { return cmp.Compare(b.Version, a.Version) })
	if len(page) > limit {
		page = page[:limit]
		next = controlplane.WriteCursor(int64(page[limit-1].Version))
	}
	return page, next, nil
}

// Exchange takes the statements of an edge, which PostgreSQL may have forgotten, and
// returns up to most of this control plane's statements in the shards that differ. The
// caller has checked the edge's credential. Exchange skips statements
// that this cluster has not signed, because a forged statement on the disk of an edge
// must not keep valid ones from coming back. If a statement cannot be read, Exchange
// takes no statement and returns EInvalid.
func (s *Blocks) Exchange(ctx context.Context, x *api.EdgeBlocks, most int) (answer api.EdgeBlocksAnswer, err error) {
	own := make([]replication.SignedBlock, 0, len(x.Blocks))
	var refused error
	for _, encoded := range x.Blocks {
		b, err := replication.DecodeBlock(encoded)
		if err != nil {
			return answer, waypost.WrapError(waypost.EInvalid, "a block cannot be read", err)
		}
		if err := s.signer.CheckBlock(&b); err != nil {
			refused = err
			continue
		}
		if held, known := s.set.Get(b.Host, b.Code); known && !b.Newer(&held) {
			continue
		}
		own = append(own, s.signer.SignBlock(b.Block)) // with the present key
	}
	if refused != nil {
		s.log.WarnContext(ctx, "left out blocks of an edge that this cluster has not signed", "node", x.Node, "error", refused)
	}
	news, err := s.set.Take(own...)
	if len(news) > 0 {
		s.log.WarnContext(ctx, "recovered forgotten blocks from an edge", "node", x.Node, "blocks", len(news))
	}
	if err != nil {
		s.log.ErrorContext(ctx, "cannot take the blocks of an edge", "node", x.Node, "error", err)
	}
	digests := s.set.Digests()
	own = own[:0]
	if answer.Digests = digests[:]; len(x.Digests) != len(digests) {
		return answer, nil
	}
	for _, b := range s.set.Differing((*[replication.BlockShards]uint64)(x.Digests)) {
		if b.Version > x.After {
			own = append(own, b)
		}
	}
	slices.SortFunc(own, func(a, b replication.SignedBlock) int { return cmp.Compare(a.Version, b.Version) })
	for i := range own[:min(len(own), most)] {
		answer.Blocks, answer.Last = append(answer.Blocks, replication.AppendBlock(nil, &own[i])), own[i].Version
	}
	return answer, nil
}

// Known returns the digest of all statements in memory, and whether the store has the
// same statements. Statements of another control plane arrive with the next read of the
// store.
func (s *Blocks) Known(ctx context.Context) (digest uint64, all bool, err error) {
	stored, err := s.store.BlockDigest(ctx)
	digest = s.set.Digest()
	return digest, err == nil && stored == digest, err
}

// Digest is the digest of all statements.
func (s *Blocks) Digest() uint64 { return s.set.Digest() }

// Load reads all statements from the store, before the first edge is let in.
func (s *Blocks) Load(ctx context.Context) error { return s.read(ctx) }

// read adds the new statements of the store to the set.
func (s *Blocks) read(ctx context.Context) error {
	for {
		all, place, err := s.store.Blocks(ctx, s.place, blockPage)
		if err != nil || len(all) == 0 {
			return err
		}
		if err := s.signBlocks(all); err != nil {
			return err
		}
		s.place = place
	}
}

// signBlocks signs statements of the store for the cluster, and adds them to the set.
func (s *Blocks) signBlocks(all []waypost.Block) error {
	signed := make([]replication.SignedBlock, 0, len(all))
	for i := range all {
		if !all[i].Valid() {
			s.log.Error("skipped an invalid block of the database", "host", all[i].Host, "code", string(all[i].Code))
			continue
		}
		signed = append(signed, s.signer.SignBlock(all[i]))
	}
	_, err := s.set.Take(signed...)
	return err
}

// Run keeps the set and the store alike until ctx ends. It takes the statements that
// other control planes have written, and writes the statements that the store has
// forgotten.
func (s *Blocks) Run(ctx context.Context) {
	var checked time.Time
	controlplane.Poll(ctx, blockPoll, func(ctx context.Context) error {
		err := s.read(ctx)
		if err == nil && time.Since(checked) >= blockCheck {
			checked = time.Now()
			err = s.reconcile(ctx)
		}
		return err
	}, func(err error) {
		s.log.Warn("cannot compare the blocks here with those in the database", "error", err)
	})
}

// reconcile makes the store and the set equal when they differ, as they do after a
// restore of the database, and after an edge has brought statements back.
func (s *Blocks) reconcile(ctx context.Context) error {
	stored, err := s.store.BlockDigest(ctx)
	if err != nil || stored == s.set.Digest() {
		return err
	}
	s.place = 0
	if err := s.read(ctx); err != nil {
		return err
	}
	if stored, err = s.store.BlockDigest(ctx); err != nil || stored == s.set.Digest() {
		return err
	}
	signed := s.set.All()
	all := make([]waypost.Block, len(signed))
	for i := range signed {
		all[i] = signed[i].Block
	}
	slices.SortFunc(all, func(a, b waypost.Block) int { return cmp.Compare(a.Version, b.Version) })
	taken := 0
	for part := range slices.Chunk(all, blockPage) {
		n, err := s.store.RecoverBlocks(ctx, part)
		if err != nil {
			return err
		}
		taken += n
	}
	if taken > 0 {
		s.log.Warn("restored blocks that the database had forgotten", "blocks", taken)
	}
	return nil
}
