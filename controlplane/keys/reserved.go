package keys

import (
	"context"
	"slices"
	"time"

	"waypost"
	"waypost/controlplane"
)

const (
	// MaxReserved bounds the keys that are reserved or returned at once.
	MaxReserved = 10_000

	// MaxHeld bounds the keys of a workspace that services hold or have returned. Requests
	// of the same second may pass it.
	MaxHeld = 2_000_000
)

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
	ReserveKeys(ctx context.Context, ws waypost.WorkspaceID, service string, epoch uint32, keys []controlplane.Key) ([]waypost.Code, error)

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
func (s *Ranges) ReserveKeys(ctx context.Context, actor controlplane.Actor, service string, n int) ([]waypost.Code, error) {
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
func (s *Ranges) reuse(ctx context.Context, ws waypost.WorkspaceID, service string, n int) (codes []waypost.Code, err error) {
	for len(codes) < n {
		some, err := s.cfg.Store.ReuseKeys(ctx, ws, service, min(n-len(codes), waypost.MaxBulk))
		if err != nil || len(some) == 0 {
			return codes, err
		}
		codes = append(codes, some...)
	}
	return codes, nil
}

// giveBack returns keys that were reserved for a request that has failed, because they
// would be lost to the service otherwise. The time of the request may be up.
func (s *Ranges) giveBack(ctx context.Context, ws waypost.WorkspaceID, service string, codes []waypost.Code) {
	if len(codes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Patience)
	defer cancel()
	if _, err := s.returnAll(ctx, ws, service, codes); err != nil {
		s.cfg.Logger.Warn("cannot return reserved keys after an error", "keys", len(codes), "error", err)
	}
}

// checkHeld reports EConflict when a workspace cannot have n more keys.
func (s *Ranges) checkHeld(ctx context.Context, ws waypost.WorkspaceID, n int) error {
	held, _, err := s.held.Get(ws, time.Now(), func() (int64, bool, error) {
		held, err := s.cfg.Store.CountHeld(ctx, ws)
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
func (s *Ranges) mintReserved(ctx context.Context, ws waypost.WorkspaceID, service string, n int) (codes []waypost.Code, err error) {
	if err := s.checkHeld(ctx, ws, n); err != nil {
		return nil, err
	}
	for ctx.Err() == nil { // ranges may move at any time
		minted, err := s.cfg.Minter.MintMany(ctx, min(n-len(codes), waypost.MaxBulk))
		if err != nil {
			return codes, err
		}
		var epoch uint32
		for i := range minted {
			epoch = max(epoch, minted[i].Epoch)
		}
		if s.cfg.Minter.Discard(epoch); slices.ContainsFunc(minted, func(k controlplane.Key) bool { return k.Epoch != epoch }) {
			continue
		}
		kept, err := s.cfg.Store.ReserveKeys(ctx, ws, service, epoch, minted)
		if s.cfg.Minter.DropRefused(err, epoch) {
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
func (s *Ranges) ReturnKeys(ctx context.Context, actor controlplane.Actor, service string, unused []string) ([]Returned, error) {
	if len(unused) < 1 || len(unused) > MaxReserved {
		return nil, waypost.Errorf(waypost.EInvalid, "return 1 to %d keys", MaxReserved)
	}
	if err := checkServiceName(service); err != nil {
		return nil, err
	}
	codes := make([]waypost.Code, len(unused))
	for i, k := range unused {
		if _, _, ok := s.cfg.Minter.coder.Space().Split(waypost.Code(k)); !ok {
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
func (s *Ranges) returnAll(
	ctx context.Context, ws waypost.WorkspaceID, service string, codes []waypost.Code,
) (all []Returned, err error) {
	for some := range slices.Chunk(codes, waypost.MaxBulk) {
		returned, err := s.cfg.Store.ReturnKeys(ctx, ws, service, some)
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
