package controlplane

import (
	"context"
	"errors"
	"time"

	"waypost"
)

// ErrEpoch says that the changelog has moved to another epoch: keys leased in an
// earlier one must not be used any more.
var ErrEpoch = errors.New("the changelog is in another epoch")

// LinkStore keeps links. Every write is durable when it returns, and part of the
// changelog at the position given. An error with code EUnavailable may pass by
// itself; when it interrupts a commit, the outcome is unknown.
type LinkStore interface {
	// InsertLinks adds links in one transaction, setting ID, CreatedAt and
	// UpdatedAt of each that is added; the result tells which: a link is not added
	// when its code is taken. It fails with ErrEpoch, adding nothing, unless the
	// changelog is in the given epoch.
	InsertLinks(ctx context.Context, epoch uint32, links []*waypost.Link) (added []bool, at waypost.Position, err error)

	// Link finds a live or expired link, with its clicks; ENotFound when there is none.
	Link(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code) (waypost.Link, error)

	// DeleteLink turns a link into a tombstone; ENotFound when there is none.
	DeleteLink(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code) (waypost.Position, error)

	// Links gives up to limit links of a workspace with an id below before (0: from
	// the newest), newest first, with their clicks.
	Links(ctx context.Context, ws waypost.WorkspaceID, before int64, limit int) ([]waypost.Link, error)

	// Record gives what an edge would hold for a code under a host, fresh. An
	// unknown host means the default domain, or nothing when strict.
	Record(ctx context.Context, host string, strict bool, code waypost.Code) (rec waypost.Record, found bool, err error)
}

// Lease is a block of counters [Lo, Hi) of a prefix that one process may issue,
// until its epoch ends.
type Lease struct {
	ID         int64
	Prefix     int
	Lo, Hi     int64
	Epoch      uint32
	Generation int64
}

// LeaseStore hands out blocks of counters. A lease is durable before it is
// returned, and no counter is ever in two leases.
type LeaseStore interface {
	// TakeLease leases up to size counters of the region's ranges to node, a block
	// that a clean stop gave back first, and notes that the finished leases were
	// used up. A region without counters takes a free prefix; EExhausted when none is left.
	TakeLease(ctx context.Context, region waypost.Region, node string, size int64, finished []int64) (Lease, error)

	// ReturnLease gives back the counters from next on, which were never issued.
	ReturnLease(ctx context.Context, l Lease, next int64) error

	// Unleased counts the counters of the region's live ranges that are in no held
	// lease and not used up.
	Unleased(ctx context.Context, region waypost.Region) (int64, error)
}

// StoredKey is an API key as the database knows it.
type StoredKey struct {
	ID        int64
	Workspace waypost.WorkspaceID
	Hash      [32]byte
	Scopes    []Scope
	ExpiresAt time.Time // zero: never
}

// KeyStore finds API keys by the SHA-256 of their text. A revoked key is not found.
type KeyStore interface {
	APIKey(ctx context.Context, hash [32]byte) (StoredKey, bool, error)
}
