package keys

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"waypost"
	"waypost/controlplane"
)

// RangeState says whether a range may be leased from.
type RangeState string

// The states of a range.
const (
	RangeLive     RangeState = "live"     // blocks are leased from it
	RangeDraining RangeState = "draining" // blocks that are held are used up, no other is leased
	RangeRetired  RangeState = "retired"  // nothing is ever issued from it again
)

// Range is an interval [Lo, Hi) of a prefix's counters, and how far it is used.
type Range struct {
	ID         int64
	Prefix     int    // ordinal
	Text       string // the prefix as codes begin with it
	Lo, Hi     int64
	Next       int64 // counters below have been leased
	Returned   int64 // counters below Next that were given back, and will be leased again
	Region     waypost.Region
	State      RangeState
	Generation int64 // leases of an earlier one are fenced
	CreatedAt  time.Time

	Leases []HeldLease // that are being issued from, by node
	Rate   float64     // keys that its region issued from it per minute, over the last hour
}

// Unissued returns the number of counters that can still be leased.
func (r *Range) Unissued() int64 { return r.Hi - r.Next + r.Returned }

// HeldLease is a block from which a control plane issues at present.
type HeldLease struct {
	ID         int64
	Node       string
	Lo, Hi     int64
	Generation int64
	TakenAt    time.Time
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
func (s *KeySpace) Supplies() []Supply {
	shares := make(map[waypost.Region]Supply)
	for region, rate := range s.Rates {
		shares[region] = Supply{Region: region, Rate: rate}
	}
	for i := range s.Ranges {
		if r := &s.Ranges[i]; r.State == RangeLive {
			share := shares[r.Region]
			share.Region = r.Region
			share.Unissued += r.Unissued()
			shares[r.Region] = share
		}
	}
	return slices.SortedFunc(maps.Values(shares), func(a, b Supply) int { return cmp.Compare(a.Region, b.Region) })
}

// Fingerprint identifies the ranges. It changes with every act of an operator, and when
// a region takes a prefix, but not when keys are leased.
func (s *KeySpace) Fingerprint() string {
	sum := sha256.New()
	for i := range s.Ranges {
		r := &s.Ranges[i]
		_, _ = fmt.Fprintf(sum, "%d %d %d %d %s %s %d\n", r.ID, r.Prefix, r.Lo, r.Hi, r.Region, r.State, r.Generation) // a hash never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Supply is a region's share of a key space.
type Supply struct {
	Region   waypost.Region
	Unissued int64   // counters that can be leased from its live ranges
	Rate     float64 // keys per minute, over the last hour
}

// MinutesLeft returns the minutes that the supply lasts at the rate; false when nothing
// is issued.
func (s Supply) MinutesLeft() (float64, bool) { return minutesLeft(s.Unissued, s.Rate) }

// MinutesLeft returns the minutes that the range lasts at its rate; false when nothing
// is issued.
func (r *Range) MinutesLeft() (float64, bool) { return minutesLeft(r.Unissued(), r.Rate) }

func minutesLeft(n int64, rate float64) (float64, bool) {
	if rate <= 0 {
		return 0, false
	}
	return float64(n) / rate, true
}

// RangeAction is an operation on ranges.
type RangeAction string

// The acts of operators.
const (
	AssignPrefix RangeAction = "assign" // Region gets a prefix that was never used: Prefix, or any
	SplitRange   RangeAction = "split"  // Range keeps [Lo, At), a new range of its region gets [At, Hi)
	// MoveRange moves Range to Region: all of it, or as a new range only the unleased
	// part (Remainder) or the counters from At on.
	MoveRange   RangeAction = "move"
	DrainRange  RangeAction = "drain"  // nothing more is leased from Range
	ReviveRange RangeAction = "revive" // a draining Range is live again
	RetireRange RangeAction = "retire" // Range is over; with Force also the leases that are held
	ResumeKeys  RangeAction = "resume" // keys are leased again after a history without a high-water mark; every prefix skips Gap
)

// RangeStep is one action with its arguments; fields that the action does not use are
// zero.
type RangeStep struct {
	Action    RangeAction    `json:"action"`
	Range     int64          `json:"range,omitempty"`
	Region    waypost.Region `json:"region,omitempty"`
	Prefix    string         `json:"prefix,omitempty"`
	At        int64          `json:"at,omitempty"`
	Remainder bool           `json:"remainder,omitempty"`
	Force     bool           `json:"force,omitempty"`
	Gap       *int64         `json:"gap,omitempty"`
}

// RangeChange is a list of steps. Either all steps are done or no step is.
type RangeChange struct {
	Steps []RangeStep
	// Fingerprint, unless it is empty, identifies the ranges for which the steps were
	// planned; EConflict when the ranges have changed.
	Fingerprint string
	DryRun      bool // all steps are checked and shown, none is stored
	By          controlplane.Actor
}

// StepDone is the result of a step, or of a dry run: the changed ranges after it, and a
// sentence for people.
type StepDone struct {
	Step   RangeStep
	What   string
	Ranges []Range
	Fenced int // leases that were held and are void now
}

// RangePlan is a plan of moves, and the supplies before and after.
type RangePlan struct {
	MadeAt      time.Time
	Fingerprint string
	Steps       []RangeStep
	Before      []Supply // of every region, as it is
	After       []Supply // and as it would be
	Reason      string   // why there is nothing to do, when there is nothing
}

// CounterState is the state of one counter.
type CounterState string

// The states of a counter. Only the last three may be a key some day.
const (
	CounterIssued     CounterState = "issued"     // a link or a reserved key has it
	CounterSpent      CounterState = "spent"      // it was issued or is lost, and never will be again
	CounterBurned     CounterState = "burned"     // a custom code has taken it
	CounterLeased     CounterState = "leased"     // a node may issue it, or just has
	CounterUnissued   CounterState = "unissued"   // it lies ahead in a range
	CounterUnassigned CounterState = "unassigned" // no range holds it
)

// Decoded is the result of decoding a code.
type Decoded struct {
	Code    waypost.Code
	Prefix  int
	Text    string // of the prefix
	Counter int64
	State   CounterState
	Range   *Range     // nil when none holds the counter
	Lease   *HeldLease // that the counter is or was in; nil when in none
}

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
	ChangeRanges(ctx context.Context, c RangeChange) ([]StepDone, error)

	// Counter returns the state of a counter. Its range is without leases and rate.
	Counter(ctx context.Context, prefix int, counter int64, code waypost.Code) (Decoded, error)
}
