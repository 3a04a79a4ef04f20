package controlplane

import (
	"context"
	"errors"
	"slices"

	"waypost"
)

const maxMintAttempts = 64

// settle gives every wish its outcome, all in one transaction if that succeeds.
// When the database refuses the data of one, the halves are tried by themselves,
// so that it does not refuse the others.
func (w *writer) settle(ctx context.Context, wishes []*wish) waypost.Position {
	at, err := w.write(ctx, wishes)
	if half := splitAt(wishes); waypost.CodeOf(err) == waypost.EInvalid && half > 0 {
		for _, part := range [][]*wish{wishes[:half], wishes[half:]} {
			if later := w.settle(ctx, part); !later.IsZero() {
				at = later
			}
		}
		return at
	}
	if waypost.CodeOf(err) == waypost.EUnavailable || waypost.CodeOf(err) == waypost.EInternal {
		w.seldom.Do(func() { w.log.Warn("links could not be written", "links", len(wishes), "error", err) })
	}
	for _, x := range wishes {
		if err != nil && x.err == nil && !x.added {
			x.err = err
		}
	}
	return at
}

// write inserts wishes in one transaction. Minted codes that turn out to be taken
// by a custom one, or to be of an epoch that is over, are minted anew.
func (w *writer) write(ctx context.Context, wishes []*wish) (at waypost.Position, err error) {
	left := undecided(wishes)
	for range maxMintAttempts {
		if left = refuseTwins(left); len(left) == 0 {
			return at, nil
		}
		if err := w.remint(ctx, left, repeated(left)); err != nil {
			return at, err
		}
		epoch := newestEpoch(left)
		if w.minter.Discard(epoch); !fresh(left, epoch) {
			if err := w.remint(ctx, left, func(x *wish) bool { return x.epoch < epoch }); err != nil {
				return at, err
			}
			continue
		}
		placed, pos, err := w.store.InsertLinks(ctx, epoch, insertionsOf(left))
		if old := w.outdated(err, epoch); old != nil {
			if err := w.remint(ctx, left, old); err != nil {
				return at, err
			}
			continue
		}
		if err != nil {
			return at, err
		}
		at = pos
		var again []*wish
		for i, x := range left {
			if placed[i] == Taken && !x.link.Custom {
				again = append(again, x)
				continue
			}
			x.err = verdict(x.link, placed[i])
			x.added, x.found = x.err == nil, placed[i] == Found
		}
		left = again
		if err := w.remint(ctx, left, func(*wish) bool { return true }); err != nil {
			return at, err
		}
	}
	if len(left) == 0 {
		return at, nil
	}
	return at, waypost.Errorf(waypost.EUnavailable, "no free key was found")
}

// verdict says why a wish has come to nothing, nil when it has not.
func verdict(l *waypost.Link, p Placement) error {
	switch p {
	case Placed, Found:
		return nil
	case Issuable:
		return issuable(l.Code)
	case Answered:
		return errAnswered
	default:
		return taken(l.Code)
	}
}

// outdated tells which keys a write was refused for, and drops what else is left of
// their leases; nil when it was not refused for that.
func (w *writer) outdated(err error, epoch uint32) func(*wish) bool {
	if errors.Is(err, ErrEpoch) {
		w.minter.Discard(epoch + 1)
		return func(*wish) bool { return true }
	}
	if fenced, ok := errors.AsType[*FencedError](err); ok {
		w.minter.Revoke(fenced.Leases)
		return func(x *wish) bool { return slices.Contains(fenced.Leases, x.lease) }
	}
	if clash, ok := errors.AsType[*ClashError](err); ok {
		return func(x *wish) bool { return slices.Contains(clash.Links, x.link) }
	}
	return nil
}

// remint gives a new code to the minted links that which names.
func (w *writer) remint(ctx context.Context, wishes []*wish, which func(*wish) bool) error {
	for _, x := range wishes {
		if x.link.Custom || !which(x) {
			continue
		}
		if err := x.mint(ctx, w.minter); err != nil {
			return err
		}
	}
	return nil
}
