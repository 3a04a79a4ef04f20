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
	"waypost/api"
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
func (s *Ranges) ChangeRanges(ctx context.Context, actor controlplane.Actor, c api.RangeChange) ([]api.StepDone, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	if len(c.Steps) == 0 || len(c.Steps) > MaxRangeSteps {
		return nil, waypost.Errorf(waypost.EInvalid, "a change of ranges has 1 to %d steps", MaxRangeSteps)
	}
	return s.cfg.Store.ChangeRanges(ctx, actor, c)
}

// PlanRanges finds the fewest moves after which all regions last equally long at the
// rates of the last hour. It changes nothing.
func (s *Ranges) PlanRanges(ctx context.Context, actor controlplane.Actor) (api.RangePlan, error) {
	space, err := s.KeySpace(ctx, actor)
	if err != nil {
		return api.RangePlan{}, err
	}
	ranges := make([]keyrange.Range, len(space.Ranges))
	for i := range space.Ranges {
		r := &space.Ranges[i]
		ranges[i] = keyrange.Range{
			ID: r.ID, Prefix: r.Ordinal, Lo: r.Lo, Hi: r.Hi, Next: r.Next, Region: waypost.Region(r.Region), State: keyrange.State(r.State),
		}
	}
	plan, err := keyrange.Rebalance(ranges, space.Rates)
	if err != nil {
		return api.RangePlan{}, err
	}
	result := api.RangePlan{
		MadeAt: s.cfg.Now().UTC(), Fingerprint: space.Fingerprint(), Reason: plan.Reason, Steps: []api.RangeStep{},
		Before: suppliesOf(plan.Before), After: suppliesOf(plan.After),
	}
	for _, step := range plan.Steps {
		result.Steps = append(result.Steps, api.RangeStep{
			Action: MoveRange, Range: step.Range, Region: string(step.To), At: step.At, Remainder: step.At == 0,
		})
	}
	return result, nil
}

func suppliesOf(forecasts []keyrange.Forecast) []api.Supply {
	supplies := make([]api.Supply, len(forecasts))
	for i, f := range forecasts {
		supplies[i] = supplyOf(string(f.Region), f.Unissued, f.Rate)
	}
	return supplies
}

// Decode finds the prefix and counter of a generated code. It returns EInvalid when the
// code cannot be a generated one.
func (s *Ranges) Decode(ctx context.Context, actor controlplane.Actor, code string) (api.DecodedKey, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.DecodedKey{}, err
	}
	space := s.cfg.Minter.coder.Space()
	prefix, counter, ok := s.cfg.Minter.coder.Decode(waypost.Code(code))
	if !ok {
		return api.DecodedKey{}, waypost.Errorf(waypost.EInvalid,
			"no range can hold this code: generated codes have %d characters of 0-9A-Za-z", space.CodeLength())
	}
	d, err := s.cfg.Store.Counter(ctx, prefix, counter, waypost.Code(code))
	if d.Prefix = space.Prefix(prefix); d.Range != nil {
		d.Range.Prefix = d.Prefix
	}
	return d, err
}

// Stats returns the supply of keys of this control plane's region.
func (s *Ranges) Stats(ctx context.Context, actor controlplane.Actor) (api.KeyStats, error) {
	space, err := s.measure(ctx)
	if err != nil {
		return api.KeyStats{}, err
	}
	reserved, err := s.cfg.Store.CountReserved(ctx, actor.Workspace)
	if err != nil {
		return api.KeyStats{}, err
	}
	stats := api.KeyStats{
		Region: string(s.cfg.Minter.region), Leased: s.cfg.Minter.Remaining(), FreePrefixes: space.FreePrefixes, Reserved: reserved,
	}
	if space.Held != "" {
		stats.Held = &space.Held
	}
	for _, supply := range space.Supplies() {
		if supply.Region == stats.Region {
			stats.PoolSize, stats.Rate, stats.MinutesLeft = supply.Unissued, supply.Rate, supply.MinutesLeft
		}
	}
	return stats, nil
}
