package controlplane

import (
	"context"

	"waypost"
)

// wish is one link on its way into the database.
type wish struct {
	link  *waypost.Link
	epoch uint32   // of a minted code; 0 for a custom one
	lease int64    // of a minted code; 0 for a custom one
	claim *Counter // of a custom code that is some counter's
	twin  *[32]byte
	added bool
	found bool // a link was there before
	err   error

	receipt *receipt // of the request; nil: it is not kept
	place   int      // in the request
}

// receipt is what the wishes of a request that may be sent again have in common.
type receipt struct {
	id      RequestID
	request [32]byte
	answer  func(sent []*wish, placed []Placement, at waypost.Position) (Answer, error)
}

// mint gives the wish a new code.
func (x *wish) mint(ctx context.Context, m *Minter) error {
	key, err := m.Mint(ctx)
	if err == nil {
		x.link.Code, x.epoch, x.lease = key.Code, key.Epoch, key.Lease
	}
	return err
}

// splitAt gives where to part wishes of which one is refused, 0 when they cannot be:
// those of one receipt stand and fall together.
func splitAt(wishes []*wish) int {
	together := func(i int) bool { return wishes[i].receipt != nil && wishes[i].receipt == wishes[i-1].receipt }
	half := len(wishes) / 2
	for i := half; i > 0; i-- {
		if !together(i) {
			return i
		}
	}
	for i := half + 1; i < len(wishes); i++ {
		if !together(i) {
			return i
		}
	}
	return 0
}

// undecided leaves out the wishes that an earlier try has brought to their end.
func undecided(wishes []*wish) (left []*wish) {
	for _, x := range wishes {
		if x.err == nil && !x.added {
			left = append(left, x)
		}
	}
	return left
}

func newestEpoch(wishes []*wish) (epoch uint32) {
	for _, x := range wishes {
		epoch = max(epoch, x.epoch)
	}
	return epoch
}

// fresh reports whether all minted codes are of the epoch.
func fresh(wishes []*wish, epoch uint32) bool {
	for _, x := range wishes {
		if !x.link.Custom && x.epoch < epoch {
			return false
		}
	}
	return true
}

func insertionsOf(wishes []*wish) []Insertion {
	links := make([]Insertion, len(wishes))
	var receipts map[*receipt]*Receipt
	var sent map[*receipt][]*wish
	for i, x := range wishes {
		links[i] = Insertion{Link: x.link, Disabled: !x.link.Active, Lease: x.lease, Claim: x.claim, Twin: x.twin}
		r := x.receipt
		if r == nil {
			continue
		}
		if receipts == nil {
			receipts, sent = make(map[*receipt]*Receipt), make(map[*receipt][]*wish)
		}
		if receipts[r] == nil {
			receipts[r] = &Receipt{ID: r.id, Request: r.request, Answer: func(placed []Placement, at waypost.Position) (Answer, error) {
				return r.answer(sent[r], placed, at)
			}}
		}
		links[i].Receipt = receipts[r]
		sent[r] = append(sent[r], x)
	}
	return links
}

// place is what only one link can have.
type place struct {
	domain waypost.DomainID
	code   waypost.Code
}

func placeOf(x *wish) place { return place{x.link.Domain, x.link.Code} }

// refuseTwins lets the first of several wishes for one custom code through.
func refuseTwins(wishes []*wish) (left []*wish) {
	seen := make(map[place]bool, len(wishes))
	for _, x := range wishes {
		if x.link.Custom && seen[placeOf(x)] {
			x.err = taken(x.link.Code)
			continue
		}
		seen[placeOf(x)] = seen[placeOf(x)] || x.link.Custom
		left = append(left, x)
	}
	return left
}

// repeated tells the minted codes that a custom one of the same batch wants.
func repeated(wishes []*wish) func(*wish) bool {
	custom := make(map[place]bool)
	for _, x := range wishes {
		if x.link.Custom {
			custom[placeOf(x)] = true
		}
	}
	return func(x *wish) bool { return custom[placeOf(x)] }
}

func issuable(code waypost.Code) error {
	return waypost.Errorf(waypost.EConflict, "the code %q has the form of a generated one and may be issued, or was: choose another, or one of another length", code)
}

func taken(code waypost.Code) error {
	return waypost.Errorf(waypost.EConflict, "the code %q is taken", code)
}
