package controlplane

import (
	"context"
	"errors"
	"fmt"

	"waypost"
)

// ErrEpoch says that the changelog has moved to another epoch: keys leased in an
// earlier one must not be used any more.
var ErrEpoch = errors.New("the changelog is in another epoch")

// FencedError says that keys of these leases must not be used any more: the lease
// was burned, because its holder was silent for too long, or its range was moved.
type FencedError struct{ Leases []int64 }

func (e *FencedError) Error() string { return fmt.Sprintf("key leases are void: %v", e.Leases) }

// Insertion is a link on its way into the database.
type Insertion struct {
	Link     *waypost.Link
	Disabled bool     // the link is made, but not active
	Lease    int64    // that a minted code is of; 0 for a custom one
	Claim    *Counter // that a custom code is the code of; nil when it is that of none

	Twin    *[32]byte // hash of the target, of which there is to be one link; nil: any number
	Receipt *Receipt  // of the request that it belongs to; nil: it is not kept
}

// Counter is one counter of a prefix.
type Counter struct {
	Prefix int // ordinal
	N      int64
}

// Placement says what became of an insertion.
type Placement uint8

// What can become of an insertion.
const (
	Taken    Placement = iota // another link has the code, or had it
	Placed                    // the link is there
	Issuable                  // the custom code is one that a range may issue, or has issued
	Found                     // the target has a live link already, which the insertion's is now
	Answered                  // the receipt's request was answered before
)

// ClashError says that nothing was added because minted codes are taken. It is told only
// where links must be added together, with their receipts or as the ones of their targets.
type ClashError struct{ Links []*waypost.Link }

func (e *ClashError) Error() string { return fmt.Sprintf("%d minted codes are taken", len(e.Links)) }

// LinkStore keeps links. Every write is durable when it returns, and part of the
// changelog at the position given. An error with code EUnavailable may pass by
// itself; when it interrupts a commit, the outcome is unknown.
type LinkStore interface {
	// InsertLinks adds links in one transaction, setting ID, CreatedAt and
	// UpdatedAt of each that is placed, and tells what became of each. A custom code
	// that lies ahead in a range is burned there. It adds nothing and fails with ErrEpoch
	// unless the changelog is in the given epoch, with a FencedError when one of the
	// leases is void, and with a ClashError.
	InsertLinks(ctx context.Context, epoch uint32, links []Insertion) ([]Placement, waypost.Position, error)

	// Link finds a live or expired link, with its clicks; ENotFound when there is none.
	Link(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code) (waypost.Link, error)

	// DeleteLink turns a link into a tombstone; ENotFound when there is none.
	DeleteLink(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code) (waypost.Position, error)

	LinkLister

	// Record gives what an edge would hold for a code under a host, fresh. An
	// unknown host means the default domain, or nothing when strict.
	Record(ctx context.Context, host string, strict bool, code waypost.Code) (rec waypost.Record, found bool, err error)
}

// Lease is a block of counters [Lo, Hi) of a prefix that one process may issue,
// until its epoch ends or it is fenced.
type Lease struct {
	ID         int64
	Range      int64
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
	// used up. A region that runs low takes a free prefix. EExhausted when no counter is
	// left, EUnavailable when no key may be issued at present.
	TakeLease(ctx context.Context, region waypost.Region, node string, size int64, finished []int64) (Lease, error)

	// ReturnLease gives back the counters from next on, which were never issued.
	ReturnLease(ctx context.Context, l Lease, next int64) error

	// Unleased counts the counters of the region's live ranges that are in no held
	// lease and not used up.
	Unleased(ctx context.Context, region waypost.Region) (int64, error)
}
