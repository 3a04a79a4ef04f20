package controlplane

import (
	"context"
	"errors"
	"fmt"

	"waypost"
)

// Key is an unused code, the epoch in which it may be used, and its lease.
type Key struct {
	Code  waypost.Code
	Epoch uint32
	Lease int64
}

// Counter is one counter of a prefix.
type Counter struct {
	Prefix int // ordinal
	N      int64
}

// Minter mints the codes of new links; controlplane/keys has the one that leases
// counters. All methods may be called by many goroutines at once.
type Minter interface {
	// Mint returns the next code. Without a leased counter it waits for one, until ctx ends
	// (EUnavailable) or the region has none left (EExhausted).
	Mint(ctx context.Context) (Key, error)

	// Counter returns the counter that a code encodes; false for one that is never minted.
	Counter(code waypost.Code) (Counter, bool)

	// Discard drops the leases of every epoch before epoch.
	Discard(epoch uint32)

	// DropRefused drops the leases for which a write was refused, and reports whether it was
	// refused for its leases, with ErrEpoch or a FencedError.
	DropRefused(err error, epoch uint32) bool

	// Close returns the leased counters.
	Close(ctx context.Context) error
}

// ErrEpoch says that the changelog has moved to another epoch, so that keys of earlier
// leases must not be used.
var ErrEpoch = errors.New("the changelog is in another epoch")

// FencedError says that keys of these leases must not be used, because the lease was
// burned after a long silence of its holder, or its range was moved.
type FencedError struct{ Leases []int64 }

func (e *FencedError) Error() string { return fmt.Sprintf("key leases are void: %v", e.Leases) }
