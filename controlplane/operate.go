package controlplane

import (
	"context"
	"slices"

	"waypost"
)

// Operator is what those who look after the installation can do with its key
// ranges. All of it needs Actor.CheckOperator.

// KeySpace gives all ranges with their leases, rates and what is left.
func (s *Service) KeySpace(ctx context.Context, actor Actor) (KeySpace, error) {
	if err := actor.CheckOperator(); err != nil {
		return KeySpace{}, err
	}
	return s.ranges.KeySpace(ctx)
}

// ChangeRanges does what an operator asks, all steps or none; see [RangeStore].
func (s *Service) ChangeRanges(ctx context.Context, actor Actor, c RangeChange) ([]StepDone, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	if len(c.Steps) == 0 || len(c.Steps) > MaxRangeSteps {
		return nil, waypost.Errorf(waypost.EInvalid, "a change of ranges has 1 to %d steps", MaxRangeSteps)
	}
	c.By = actor
	return s.ranges.ChangeRanges(ctx, c)
}

// MaxRangeSteps bounds a change of ranges.
const MaxRangeSteps = 100

// PlanRanges works out the fewest moves after which all regions last equally long
// at the rates of the last hour. It changes nothing.
func (s *Service) PlanRanges(ctx context.Context, actor Actor) (RangePlan, error) {
	space, err := s.KeySpace(ctx, actor)
	if err != nil {
		return RangePlan{}, err
	}
	return planRanges(space, s.cfg.Now())
}

// Decode takes a generated code apart: EInvalid when it cannot be one.
func (s *Service) Decode(ctx context.Context, actor Actor, code string) (Decoded, error) {
	if err := actor.CheckOperator(); err != nil {
		return Decoded{}, err
	}
	prefix, counter, ok := s.minter.coder.Decode(waypost.Code(code))
	if !ok {
		return Decoded{}, waypost.Errorf(waypost.EInvalid, "no range can hold this code: generated codes have %d characters of 0-9A-Za-z",
			s.minter.coder.Space().CodeLength())
	}
	d, err := s.ranges.Counter(ctx, prefix, counter, waypost.Code(code))
	d.Text = s.minter.coder.Space().Prefix(prefix)
	return d, err
}

// Audit gives a page of what administrators of the actor's workspace did, or, for
// operators, those of all, newest first, beginning after the cursor of an earlier
// page ("" for the first).
func (s *Service) Audit(ctx context.Context, actor Actor, all bool, limit int, cursor string) (entries []AuditEntry, next string, err error) {
	if !actor.Can(ScopeAdmin) {
		return nil, "", waypost.Errorf(waypost.EForbidden, "the audit log needs the scope admin")
	}
	of := actor.Workspace
	if all {
		if err := actor.CheckOperator(); err != nil {
			return nil, "", err
		}
		of = 0
	}
	before, err := readCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if entries, err = s.audit.Audit(ctx, of, before, limit+1); err != nil {
		return nil, "", err
	}
	if len(entries) > limit {
		entries = entries[:limit]
		next = writeCursor(entries[limit-1].ID)
	}
	return entries, next, nil
}

// ReserveKeys mints n keys for a service outside of Waypost, or gives it such as
// were given back. They are durable, and nobody else's, when it returns.
// EExhausted and EUnavailable as for Create.
func (s *Service) ReserveKeys(ctx context.Context, actor Actor, service string, n int) ([]waypost.Code, error) {
	if n < 1 || n > MaxReserved {
		return nil, waypost.Errorf(waypost.EInvalid, "count must be 1 to %d", MaxReserved)
	}
	if err := checkService(service); err != nil {
		return nil, err
	}
	codes, err := s.reserved.ReuseKeys(ctx, actor.Workspace, service, n)
	if err != nil || len(codes) == n {
		return codes, err
	}
	minted, err := s.mintReserved(ctx, actor.Workspace, service, n-len(codes))
	codes = append(codes, minted...)
	if err != nil && len(codes) > 0 { // they would be lost to the service otherwise
		if _, e := s.reserved.ReturnKeys(ctx, actor.Workspace, service, codes); e != nil {
			s.cfg.Logger.Warn("reserved keys could not be put back", "keys", len(codes), "error", e)
		}
	}
	if err != nil {
		return nil, err
	}
	return codes, nil
}

// mintReserved mints keys and notes who holds them; keys that turn out to be void,
// or to be some link's, are minted anew. With an error it gives those that it has noted.
func (s *Service) mintReserved(ctx context.Context, ws waypost.WorkspaceID, service string, n int) (codes []waypost.Code, err error) {
	for ctx.Err() == nil { // ranges may move all the while
		keys, err := s.minter.MintMany(ctx, n-len(codes))
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
		noted, err := s.reserved.ReserveKeys(ctx, ws, service, epoch, reservations)
		if s.writer.outdated(err, epoch) != nil {
			continue
		}
		if codes = append(codes, noted...); err != nil || len(codes) == n {
			return codes, err
		}
	}
	return codes, waypost.WrapError(waypost.EUnavailable, "no key was good for long enough", ctx.Err())
}

// ReturnKeys takes back keys that the service never published, each with its own
// outcome. They are given out again.
func (s *Service) ReturnKeys(ctx context.Context, actor Actor, service string, keys []string) ([]Returned, error) {
	if len(keys) < 1 || len(keys) > MaxReserved {
		return nil, waypost.Errorf(waypost.EInvalid, "give back 1 to %d keys", MaxReserved)
	}
	if err := checkService(service); err != nil {
		return nil, err
	}
	codes := make([]waypost.Code, len(keys))
	for i, k := range keys {
		if _, _, ok := s.minter.coder.Space().Split(waypost.Code(k)); !ok {
			return nil, waypost.Errorf(waypost.EInvalid, "keys[%d] is no generated key", i)
		}
		codes[i] = waypost.Code(k)
	}
	return s.reserved.ReturnKeys(ctx, actor.Workspace, service, codes)
}

// checkService bounds the name of a service that holds keys.
func checkService(name string) error {
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

// KeyStats tells how this control plane's region stands for keys.
func (s *Service) KeyStats(ctx context.Context, actor Actor) (KeyStats, error) {
	space, err := s.ranges.KeySpace(ctx)
	if err != nil {
		return KeyStats{}, err
	}
	reserved, err := s.reserved.CountReserved(ctx, actor.Workspace)
	if err != nil {
		return KeyStats{}, err
	}
	stats := KeyStats{Region: s.cfg.Region, Leased: s.minter.Remaining(), FreePrefixes: space.FreePrefixes, Held: space.Held, Reserved: reserved}
	for _, supply := range space.Supplies() {
		if supply.Region == s.cfg.Region {
			stats.PoolSize, stats.Rate = supply.Unissued, supply.Rate
		}
	}
	return stats, nil
}
