package keys

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// The states of a range.
const (
	RangeLive     = "live"     // blocks are leased from it
	RangeDraining = "draining" // blocks that are held are used up, no other is leased
	RangeRetired  = "retired"  // nothing is ever issued from it again
)

// Range is an interval [Lo, Hi) of a prefix's counters, and how far it is used.
type Range struct {
	api.Range
	Ordinal int // of its prefix
}

// KeySpace is the state of a cluster's keys at one moment.
type KeySpace struct {
	Ranges       []Range                    // by id, retired ones too
	Rates        map[waypost.Region]float64 // keys issued per minute, over the last hour
	Prefixes     int                        // that there are
	FreePrefixes int                        // that no range was ever made of
	PrefixSize   int64                      // counters in a prefix

	// Held is the reason why no key is leased until an operator resumes, "" while keys
	// are leased. ResumeGap is the number of counters that every prefix would skip then,
	// 0 when the operator has to choose it.
	Held      string
	HeldSince time.Time
	ResumeGap int64
}

// Supplies returns the share of every region that has a live range or issues keys, by
// name.
func (s *KeySpace) Supplies() []api.Supply {
	unissued, shares := make(map[string]int64), []api.Supply{}
	for region := range s.Rates {
		unissued[string(region)] = 0
	}
	for i := range s.Ranges {
		if r := &s.Ranges[i]; r.State == RangeLive {
			unissued[r.Region] += r.Unissued()
		}
	}
	for _, region := range slices.Sorted(maps.Keys(unissued)) {
		shares = append(shares, supplyOf(region, unissued[region], s.Rates[waypost.Region(region)]))
	}
	return shares
}

// Fingerprint identifies the ranges. It changes with every act of an operator, and when
// a region takes a prefix, but not when keys are leased.
func (s *KeySpace) Fingerprint() string {
	sum := sha256.New()
	for i := range s.Ranges {
		r := &s.Ranges[i]
		_, _ = fmt.Fprintf(sum, "%d %d %d %d %s %s %d\n", r.ID, r.Ordinal, r.Lo, r.Hi, r.Region, r.State, r.Generation) // a hash never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// supplyOf returns a region's share of a key space.
func supplyOf(region string, unissued int64, rate float64) api.Supply {
	return api.Supply{Region: region, Unissued: unissued, Rate: rate, MinutesLeft: MinutesLeft(unissued, rate)}
}

// MinutesLeft returns the minutes that n counters last at a rate; nil when nothing is
// issued.
func MinutesLeft(n int64, rate float64) *float64 {
	if rate <= 0 {
		return nil
	}
	return new(float64(n) / rate)
}

// The acts of operators.
const (
	AssignPrefix = "assign" // Region gets a prefix that was never used: Prefix, or any
	SplitRange   = "split"  // Range keeps [Lo, At), a new range of its region gets [At, Hi)
	// MoveRange moves Range to Region: all of it, or as a new range only the unleased
	// part (Remainder) or the counters from At on.
	MoveRange   = "move"
	DrainRange  = "drain"  // nothing more is leased from Range
	ReviveRange = "revive" // a draining Range is live again
	RetireRange = "retire" // Range is over; with Force also the leases that are held
	ResumeKeys  = "resume" // keys are leased again after a history without a high-water mark; every prefix skips Gap
)

// The states of a counter. Only the last three may be a key some day.
const (
	CounterIssued     = "issued"     // a link or a reserved key has it
	CounterSpent      = "spent"      // it was issued or is lost, and never will be again
	CounterBurned     = "burned"     // a custom code has taken it
	CounterLeased     = "leased"     // a node may issue it, or just has
	CounterUnissued   = "unissued"   // it lies ahead in a range
	CounterUnassigned = "unassigned" // no range holds it
)

// RangeStore keeps the key ranges. Every change is durable when it returns, part of the
// changelog, and in the audit log.
type RangeStore interface {
	// KeySpace returns all ranges, with rates and leases, as of one moment.
	KeySpace(ctx context.Context) (KeySpace, error)

	// AddIssued adds to the numbers of keys that a region has issued from ranges, from which
	// rates are measured.
	AddIssued(ctx context.Context, region waypost.Region, issued map[int64]int64) error

	// ChangeRanges does the steps in one transaction. It never waits for creates, and
	// creates wait for its commit alone. EInvalid and EConflict say which step cannot be
	// done and why; ENotFound that there is no such range; EExhausted that no prefix is
	// free.
	ChangeRanges(ctx context.Context, by controlplane.Actor, c api.RangeChange) ([]api.StepDone, error)

	// Counter returns the state of a counter, without the text of its prefix.
	Counter(ctx context.Context, prefix int, counter int64, code waypost.Code) (api.DecodedKey, error)
}
