package controlplane

import (
	"context"

	"waypost"
)

// MaxReserved is how many keys can be reserved, or given back, at once.
const MaxReserved = 10_000

// Reservation is a key that was minted for a service outside of Waypost.
type Reservation struct {
	Code  waypost.Code
	Lease int64 // that its counter is of
}

// Returned says what became of a key that was given back.
type Returned struct {
	Code waypost.Code
	Err  error // ENotFound when the service does not hold it, EConflict when a link has it; nil when it will be given out again
}

// ReservedStore keeps the keys that services hold. A key belongs to a workspace
// and, within it, to a service by name.
type ReservedStore interface {
	// ReuseKeys reserves up to n keys that were given back to the workspace in the
	// present epoch. There may be fewer, or none.
	ReuseKeys(ctx context.Context, ws waypost.WorkspaceID, service string, n int) ([]waypost.Code, error)

	// ReserveKeys notes minted keys and gives them, without those whose code some
	// link has already. It notes none and fails with ErrEpoch or a FencedError when they must
	// not be issued any more.
	ReserveKeys(ctx context.Context, ws waypost.WorkspaceID, service string, epoch uint32, keys []Reservation) ([]waypost.Code, error)

	// ReturnKeys takes keys back, each with its own outcome.
	ReturnKeys(ctx context.Context, ws waypost.WorkspaceID, service string, codes []waypost.Code) ([]Returned, error)

	// CountReserved counts the keys that a workspace's services hold, by service.
	CountReserved(ctx context.Context, ws waypost.WorkspaceID) (map[string]int64, error)
}

// KeyStats is how a region stands for keys.
type KeyStats struct {
	Region       waypost.Region
	PoolSize     int64   // all unissued counters of the region's live ranges, leased ones not included
	Leased       int64   // counters that this control plane has leased and not issued yet
	Rate         float64 // keys per minute in the region, over the last hour
	FreePrefixes int
	Held         string           // why no key is leased; "" when keys are
	Reserved     map[string]int64 // keys that services of the workspace hold
}
