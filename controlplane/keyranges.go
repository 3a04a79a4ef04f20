package controlplane

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"waypost"
	"waypost/keyrange"
)

// KeyRanges manages the ranges of the key space, and reserves keys for services outside
// of Waypost. Its methods on ranges need Actor.CheckOperator.
type KeyRanges struct {
	ranges   RangeStore
	reserved ReservedStore
	leases   LeaseStore
	minter   *Minter
	region   waypost.Region
	patience time.Duration // with the store, for keys that are given back
	now      func() time.Time
	log      *slog.Logger

	held cache[waypost.WorkspaceID, int64]
}

func newKeyRanges(cfg *Config) *KeyRanges {
	return &KeyRanges{
		ranges: cfg.Stores.Ranges, reserved: cfg.Stores.Reserved, leases: cfg.Stores.Leases,
		minter: cfg.Minter, region: cfg.Region, patience: cfg.Patience, now: cfg.Now, log: cfg.Logger,
	}
}

// Health is the state that /health reports.
type Health struct {
	Database    bool
	KeyPoolSize int64 // unissued counters of the region's live ranges
}

// Health asks the database, within ctx.
func (s *KeyRanges) Health(ctx context.Context) Health {
	pool, err := s.leases.Unleased(ctx, s.region)
	return Health{Database: err == nil, KeyPoolSize: pool + s.minter.Remaining()}
}

// KeySpace returns all ranges with their leases, rates and remainders.
func (s *KeyRanges) KeySpace(ctx context.Context, actor Actor) (KeySpace, error) {
	if err := actor.CheckOperator(); err != nil {
		return KeySpace{}, err
	}
	return s.ranges.KeySpace(ctx)
}

// MaxRangeSteps bounds a change of ranges.
const MaxRangeSteps = 100

// ChangeRanges does all steps of a change or none; see [RangeStore].
func (s *KeyRanges) ChangeRanges(ctx context.Context, actor Actor, c RangeChange) ([]StepDone, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	if len(c.Steps) == 0 || len(c.Steps) > MaxRangeSteps {
		return nil, waypost.Errorf(waypost.EInvalid, "a change of ranges has 1 to %d steps", MaxRangeSteps)
	}
	c.By = actor
	return s.ranges.ChangeRanges(ctx, c)
}

// PlanRanges finds the fewest moves after which all regions last equally long at the
// rates of the last hour. It changes nothing.
func (s *KeyRanges) PlanRanges(ctx context.Context, actor Actor) (RangePlan, error) {
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
		MadeAt: s.now().UTC(), Fingerprint: space.Fingerprint(), Reason: plan.Reason,
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
func (s *KeyRanges) Decode(ctx context.Context, actor Actor, code string) (Decoded, error) {
	if err := actor.CheckOperator(); err != nil {
		return Decoded{}, err
	}
	space := s.minter.coder.Space()
	prefix, counter, ok := s.minter.coder.Decode(waypost.Code(code))
	if !ok {
		return Decoded{}, waypost.Errorf(waypost.EInvalid,
			"no range can hold this code: generated codes have %d characters of 0-9A-Za-z", space.CodeLength())
	}
	d, err := s.ranges.Counter(ctx, prefix, counter, waypost.Code(code))
	d.Text = space.Prefix(prefix)
	return d, err
}

const (
	// MaxReserved bounds the keys that are reserved or returned at once.
	MaxReserved = 10_000

	// MaxHeld bounds the keys of a workspace that services hold or have returned. Requests
	// of the same second may pass it.
	MaxHeld = 2_000_000
)

// Reservation is a key that was minted for a service outside of Waypost.
type Reservation struct {
	Code  waypost.Code
	Lease int64 // lease of its counter
}

// Returned is the outcome of a returned key.
type Returned struct {
	Code waypost.Code
	Err  error // ENotFound when the service does not hold it, EConflict when a link has it; nil when it will be reused
}

// ReservedStore keeps the keys that services hold. A key belongs to a workspace
// and, within it, to a service by name. A change is one transaction, for which all other
// writes wait, so that it has at most [waypost.MaxBulk] keys.
type ReservedStore interface {
	// ReuseKeys reserves up to n keys that were returned to the workspace in the
	// present epoch. There may be fewer, or none.
	ReuseKeys(ctx context.Context, ws waypost.WorkspaceID, service string, n int) ([]waypost.Code, error)

	// ReserveKeys stores minted keys and returns them, except keys with the code of a
	// link. When their leases are void it stores nothing, and returns ErrEpoch or a
	// FencedError.
	ReserveKeys(ctx context.Context, ws waypost.WorkspaceID, service string, epoch uint32, keys []Reservation) ([]waypost.Code, error)

	// ReturnKeys takes keys back, each with its own outcome.
	ReturnKeys(ctx context.Context, ws waypost.WorkspaceID, service string, codes []waypost.Code) ([]Returned, error)

	// CountReserved counts the keys that a workspace's services hold, by service.
	CountReserved(ctx context.Context, ws waypost.WorkspaceID) (map[string]int64, error)

	// CountHeld counts the keys that a workspace's services hold or have returned.
	CountHeld(ctx context.Context, ws waypost.WorkspaceID) (int64, error)
}

// ReserveKeys reserves n keys for a service outside of Waypost: returned ones first, then
// minted ones. They are durable, and no other service or link gets them, when it returns.
// ReserveKeys returns EConflict when the workspace would have more than [MaxHeld],
// EExhausted and EUnavailable as for Create. The keys that were reserved before an error
// are returned.
func (s *KeyRanges) ReserveKeys(ctx context.Context, actor Actor, service string, n int) ([]waypost.Code, error) {
	if n < 1 || n > MaxReserved {
		return nil, waypost.Errorf(waypost.EInvalid, "count must be 1 to %d", MaxReserved)
	}
	if err := checkServiceName(service); err != nil {
		return nil, err
	}
	codes, err := s.reuse(ctx, actor.Workspace, service, n)
	if err == nil && len(codes) < n {
		var minted []waypost.Code
		minted, err = s.mintReserved(ctx, actor.Workspace, service, n-len(codes))
		codes = append(codes, minted...)
	}
	if err != nil {
		s.giveBack(ctx, actor.Workspace, service, codes)
		return nil, err
	}
	return codes, nil
}

// reuse reserves returned keys. With an error it returns the keys that it has reserved.
func (s *KeyRanges) reuse(ctx context.Context, ws waypost.WorkspaceID, service string, n int) (codes []waypost.Code, err error) {
	for len(codes) < n {
		some, err := s.reserved.ReuseKeys(ctx, ws, service, min(n-len(codes), waypost.MaxBulk))
		if err != nil || len(some) == 0 {
			return codes, err
		}
		codes = append(codes, some...)
	}
	return codes, nil
}

// giveBack returns keys that were reserved for a request that has failed, because they
// would be lost to the service otherwise. The time of the request may be up.
func (s *KeyRanges) giveBack(ctx context.Context, ws waypost.WorkspaceID, service string, codes []waypost.Code) {
	if len(codes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	if _, err := s.returnAll(ctx, ws, service, codes); err != nil {
		s.log.Warn("cannot return reserved keys after an error", "keys", len(codes), "error", err)
	}
}

// checkHeld reports EConflict when a workspace cannot have n more keys.
func (s *KeyRanges) checkHeld(ctx context.Context, ws waypost.WorkspaceID, n int) error {
	held, _, err := s.held.get(ws, time.Now(), func() (int64, bool, error) {
		held, err := s.reserved.CountHeld(ctx, ws)
		return held, true, err
	})
	if err == nil && held+int64(n) > MaxHeld {
		err = waypost.Errorf(waypost.EConflict, "the workspace has %d reserved keys that are no links yet, and may have %d: publish some, "+
			"or return some to reserve them again", held, MaxHeld)
	}
	return err
}

// mintReserved mints and reserves keys. It replaces keys with a void lease or with the
// code of a link. With an error it returns the keys that it has reserved.
func (s *KeyRanges) mintReserved(ctx context.Context, ws waypost.WorkspaceID, service string, n int) (codes []waypost.Code, err error) {
	if err := s.checkHeld(ctx, ws, n); err != nil {
		return nil, err
	}
	for ctx.Err() == nil { // ranges may move at any time
		keys, err := s.minter.MintMany(ctx, min(n-len(codes), waypost.MaxBulk))
		if err != nil {
			return codes, err
		}
		var epoch uint32
		for i := range keys {
			epoch = max(epoch, keys[i].Epoch)
		}
		if s.minter.Discard(epoch); slices.ContainsFunc(keys, func(k Key) bool { return k.Epoch != epoch }) {
			continue
		}
		reservations := make([]Reservation, len(keys))
		for i, k := range keys {
			reservations[i] = Reservation{Code: k.Code, Lease: k.Lease}
		}
		kept, err := s.reserved.ReserveKeys(ctx, ws, service, epoch, reservations)
		if s.minter.dropRefused(err, epoch) {
			continue
		}
		if codes = append(codes, kept...); err != nil || len(codes) == n {
			return codes, err
		}
	}
	return codes, waypost.WrapError(waypost.EUnavailable, "no minted key stayed valid long enough", ctx.Err())
}

// ReturnKeys takes back keys that the service never published, each with its own outcome.
// Later reservations reuse them. After an error no key was taken back.
func (s *KeyRanges) ReturnKeys(ctx context.Context, actor Actor, service string, keys []string) ([]Returned, error) {
	if len(keys) < 1 || len(keys) > MaxReserved {
		return nil, waypost.Errorf(waypost.EInvalid, "return 1 to %d keys", MaxReserved)
	}
	if err := checkServiceName(service); err != nil {
		return nil, err
	}
	codes := make([]waypost.Code, len(keys))
	for i, k := range keys {
		if _, _, ok := s.minter.coder.Space().Split(waypost.Code(k)); !ok {
			return nil, waypost.Errorf(waypost.EInvalid, "keys[%d] is no generated key", i)
		}
		codes[i] = waypost.Code(k)
	}
	all, err := s.returnAll(ctx, actor.Workspace, service, codes)
	if err != nil && len(all) == 0 {
		return nil, err
	}
	for _, code := range codes[len(all):] {
		all = append(all, Returned{Code: code, Err: err})
	}
	return all, nil
}

// returnAll returns keys in several transactions. With an error it returns the outcomes
// of the committed transactions, which returned the first keys.
func (s *KeyRanges) returnAll(
	ctx context.Context, ws waypost.WorkspaceID, service string, codes []waypost.Code,
) (all []Returned, err error) {
	for some := range slices.Chunk(codes, waypost.MaxBulk) {
		returned, err := s.reserved.ReturnKeys(ctx, ws, service, some)
		if err != nil {
			return all, err
		}
		all = append(all, returned...)
	}
	return all, nil
}

// checkServiceName bounds the name of a service that holds keys.
func checkServiceName(name string) error {
	if len(name) < 1 || len(name) > 100 {
		return waypost.Errorf(waypost.EInvalid, "service must be 1 to 100 characters")
	}
	for i := range len(name) {
		if c := name[i]; c < 0x20 || c > 0x7e {
			return waypost.Errorf(waypost.EInvalid, "service must be printable ASCII")
		}
	}
	return nil
}

// KeyStats is the supply of keys of a region.
type KeyStats struct {
	Region       waypost.Region
	PoolSize     int64   // unissued counters of the region's live ranges, without leased ones
	Leased       int64   // counters that this control plane has leased and not issued yet
	Rate         float64 // keys per minute in the region, over the last hour
	FreePrefixes int
	Held         string           // why no key is leased; "" when keys are
	Reserved     map[string]int64 // keys that services of the workspace hold, by service
}

// KeyStats returns the supply of keys of this control plane's region.
func (s *KeyRanges) KeyStats(ctx context.Context, actor Actor) (KeyStats, error) {
	space, err := s.ranges.KeySpace(ctx)
	if err != nil {
		return KeyStats{}, err
	}
	reserved, err := s.reserved.CountReserved(ctx, actor.Workspace)
	if err != nil {
		return KeyStats{}, err
	}
	stats := KeyStats{Region: s.region, Leased: s.minter.Remaining(), FreePrefixes: space.FreePrefixes, Held: space.Held, Reserved: reserved}
	for _, supply := range space.Supplies() {
		if supply.Region == s.region {
			stats.PoolSize, stats.Rate = supply.Unissued, supply.Rate
		}
	}
	return stats, nil
}
