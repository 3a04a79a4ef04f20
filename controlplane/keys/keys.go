// Package keys manages generated codes before they are links: the ranges of the key
// space, the leases that control planes take from them, the minter that turns leased
// counters into codes, and the codes that services outside of Waypost reserve.
//
// Package keyrange has the arithmetic, and controlplane/postgres the store.
package keys

import (
	"context"
	"log/slog"
	"time"

	"waypost"
	"waypost/controlplane"
	"waypost/internal/cache"
	"waypost/keyrange"
)

// Ranges manages the ranges of the key space, and reserves keys for services outside of
// Waypost. Its methods on ranges need Actor.CheckOperator.
type Ranges struct {
	cfg  Config
	held cache.Cache[waypost.WorkspaceID, int64]
}

// Store keeps key ranges, leases and reserved keys.
type Store interface {
	RangeStore
	ReservedStore
	LeaseStore
}

// Config configures Ranges. Store and Minter are required.
type Config struct {
	Store    Store
	Minter   *Minter          // of this control plane, and of its region
	Patience time.Duration    // with the store, for keys that are given back; default 4 s
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default: nothing is logged
}

// NewRanges returns the service.
func NewRanges(cfg Config) *Ranges {
	if cfg.Patience == 0 {
		cfg.Patience = leaseTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Ranges{cfg: cfg}
}

// Health is the state that /health reports.
type Health struct {
	Database    bool
	KeyPoolSize int64 // unissued counters of the region's live ranges
}

// Health asks the database, within ctx.
func (s *Ranges) Health(ctx context.Context) Health {
	pool, err := s.cfg.Store.Unleased(ctx, s.cfg.Minter.region)
	return Health{Database: err == nil, KeyPoolSize: pool + s.cfg.Minter.Remaining()}
}

// KeySpace returns all ranges with their leases, rates and remainders.
func (s *Ranges) KeySpace(ctx context.Context, actor controlplane.Actor) (KeySpace, error) {
	if err := actor.CheckOperator(); err != nil {
		return KeySpace{}, err
	}
	return s.measure(ctx)
}

// measure reads the key space. Keys that this control plane has issued since its last
// heartbeat are in the rates, keys of others are not.
func (s *Ranges) measure(ctx context.Context) (KeySpace, error) {
	if issued := s.cfg.Minter.TakeIssued(); len(issued) > 0 {
		if err := s.cfg.Store.AddIssued(ctx, s.cfg.Minter.region, issued); err != nil {
			return KeySpace{}, err
		}
	}
	return s.cfg.Store.KeySpace(ctx)
}

// MaxRangeSteps bounds a change of ranges.
const MaxRangeSteps = 100

// ChangeRanges does all steps of a change or none; see [RangeStore].
func (s *Ranges) ChangeRanges(ctx context.Context, actor controlplane.Actor, c RangeChange) ([]StepDone, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	if len(c.Steps) == 0 || len(c.Steps) > MaxRangeSteps {
		return nil, waypost.Errorf(waypost.EInvalid, "a change of ranges has 1 to %d steps", MaxRangeSteps)
	}
	c.By = actor
	return s.cfg.Store.ChangeRanges(ctx, c)
}

// PlanRanges finds the fewest moves after which all regions last equally long at the
// rates of the last hour. It changes nothing.
func (s *Ranges) PlanRanges(ctx context.Context, actor controlplane.Actor) (RangePlan, error) {
	space, err := s.KeySpace(ctx, actor)
	if err != nil {
		return RangePlan{}, err
	}
	ranges := make([]keyrange.Range, len(space.Ranges))
	for i := range space.Ranges {
		r := &space.Ranges[i]
		ranges[i] = keyrange.Range{ID: r.ID, Prefix: r.Prefix, Lo: r.Lo, Hi: r.Hi, Next: r.Next, Region: r.Region, State: keyrange.State(r.State)}
	}
	plan, err := keyrange.Rebalance(ranges, space.Rates)
	if err != nil {
		return RangePlan{}, err
	}
	result := RangePlan{
		MadeAt: s.cfg.Now().UTC(), Fingerprint: space.Fingerprint(), Reason: plan.Reason,
		Before: suppliesOf(plan.Before), After: suppliesOf(plan.After),
	}
	for _, step := range plan.Steps {
		result.Steps = append(result.Steps, RangeStep{
			Action: MoveRange, Range: step.Range, Region: step.To, At: step.At,
			Remainder: step.At == 0,
		})
	}
	return result, nil
}

func suppliesOf(forecasts []keyrange.Forecast) []Supply {
	supplies := make([]Supply, len(forecasts))
	for i, f := range forecasts {
		supplies[i] = Supply{Region: f.Region, Unissued: f.Unissued, Rate: f.Rate}
	}
	return supplies
}

// Decode finds the prefix and counter of a generated code. It returns EInvalid when the
// code cannot be a generated one.
func (s *Ranges) Decode(ctx context.Context, actor controlplane.Actor, code string) (Decoded, error) {
	if err := actor.CheckOperator(); err != nil {
		return Decoded{}, err
	}
	space := s.cfg.Minter.coder.Space()
	prefix, counter, ok := s.cfg.Minter.coder.Decode(waypost.Code(code))
	if !ok {
		return Decoded{}, waypost.Errorf(waypost.EInvalid,
			"no range can hold this code: generated codes have %d characters of 0-9A-Za-z", space.CodeLength())
	}
	d, err := s.cfg.Store.Counter(ctx, prefix, counter, waypost.Code(code))
	d.Text = space.Prefix(prefix)
	return d, err
}

// Stats is the supply of keys of a region.
type Stats struct {
	Region       waypost.Region
	PoolSize     int64   // unissued counters of the region's live ranges, without leased ones
	Leased       int64   // counters that this control plane has leased and not issued yet
	Rate         float64 // keys per minute in the region, over the last hour
	FreePrefixes int
	Held         string           // why no key is leased; "" when keys are
	Reserved     map[string]int64 // keys that services of the workspace hold, by service
}

// Stats returns the supply of keys of this control plane's region.
func (s *Ranges) Stats(ctx context.Context, actor controlplane.Actor) (Stats, error) {
	space, err := s.measure(ctx)
	if err != nil {
		return Stats{}, err
	}
	reserved, err := s.cfg.Store.CountReserved(ctx, actor.Workspace)
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{
		Region: s.cfg.Minter.region, Leased: s.cfg.Minter.Remaining(),
		FreePrefixes: space.FreePrefixes, Held: space.Held, Reserved: reserved,
	}
	for _, supply := range space.Supplies() {
		if supply.Region == s.cfg.Minter.region {
			stats.PoolSize, stats.Rate = supply.Unissued, supply.Rate
		}
	}
	return stats, nil
}
