package controlplane

import (
	"cmp"
	"context"
	"fmt"

	"waypost"
)

// pendingLink is one link on its way into the database.
type pendingLink struct {
	link  *waypost.Link
	index int // in the request

	ignoresCase bool         // the domain does
	imported    bool         // an import asks for the link
	takenBy     waypost.Code // of the link that has the code, if the workspace sees it; "": it is unknown

	epoch    uint32           // of a minted code; 0 for a custom one
	lease    int64            // of a minted code; 0 for a custom one
	claim    *Counter         // counter that a custom code encodes
	dedupe   *[32]byte        // hash of the target; nil: not deduplicated
	response *pendingResponse // of the idempotent request; nil: it is not stored

	aliasClaims []*Counter // of the link's aliases, in their order
	aliasTaken  bool       // the link was refused for one of them

	acceptExisting bool         // an existing link of the custom code will do, if it has the target
	blockedBy      *pendingLink // earlier link of the batch that asks for the custom code; nil: none

	added    bool
	found    bool // the link existed before
	replayed bool // the idempotent request was answered before
	err      error
}

// mint sets a new code.
func (x *pendingLink) mint(ctx context.Context, m Minter) error {
	key, err := m.Mint(ctx)
	if err == nil {
		x.link.SetCode(key.Code, keyOf(key.Code, x.ignoresCase))
		x.epoch, x.lease = key.Epoch, key.Lease
	}
	return err
}

// splitAt returns the index at which to split links after one of them was refused. It
// returns 0 when they cannot be split, because the links of one idempotent request are
// stored together or not at all.
func splitAt(pending []*pendingLink) int {
	together := func(i int) bool { return pending[i].response != nil && pending[i].response == pending[i-1].response }
	half := len(pending) / 2
	for i := half; i > 0; i-- {
		if !together(i) {
			return i
		}
	}
	for i := half + 1; i < len(pending); i++ {
		if !together(i) {
			return i
		}
	}
	return 0
}

// decided reports whether the link has an outcome.
func (x *pendingLink) decided() bool { return x.added || x.replayed || x.err != nil }

// undecided returns the links without an outcome.
func undecided(pending []*pendingLink) (left []*pendingLink) {
	for _, x := range pending {
		if !x.decided() {
			left = append(left, x)
		}
	}
	return left
}

func newestEpoch(pending []*pendingLink) (epoch uint32) {
	for _, x := range pending {
		epoch = max(epoch, x.epoch)
	}
	return epoch
}

// fresh reports whether all minted codes belong to the epoch.
func fresh(pending []*pendingLink, epoch uint32) bool {
	for _, x := range pending {
		if !x.link.Custom && x.epoch < epoch {
			return false
		}
	}
	return true
}

func insertionsOf(pending []*pendingLink) []Insertion {
	links := make([]Insertion, len(pending))
	var records map[*pendingResponse]*IdempotencyRecord
	var sent map[*pendingResponse][]*pendingLink
	for i, x := range pending {
		links[i] = Insertion{
			Link: x.link, Disabled: !x.link.Active, Lease: x.lease, Claim: x.claim, Dedupe: x.dedupe,
			AcceptExisting: x.acceptExisting, IgnoresCase: x.ignoresCase, TakenBy: &x.takenBy, Imported: x.imported, AliasClaims: x.aliasClaims,
		}
		r := x.response
		if r == nil {
			continue
		}
		if records == nil {
			records, sent = make(map[*pendingResponse]*IdempotencyRecord), make(map[*pendingResponse][]*pendingLink)
		}
		if records[r] == nil {
			respond := func(placed []InsertResult, at waypost.Position) (Response, error) {
				return r.respond(sent[r], placed, at)
			}
			records[r] = &IdempotencyRecord{ID: r.id, Request: r.request, Respond: respond, Import: r.step}
		}
		links[i].Idempotency = records[r]
		sent[r] = append(sent[r], x)
	}
	return links
}

func nameOf(x *pendingLink) LinkName { return LinkName{x.link.Domain, x.link.Key()} }

// splitRepeated returns the links to write now, and the links that wait because an
// earlier link asks for the same custom code and may be refused. The links of one
// idempotent request are written together, so that all of them wait if one does, and the
// store judges the links of one request that ask for the same code.
func splitRepeated(pending []*pendingLink) (now, later []*pendingLink) {
	firsts := make(map[LinkName]*pendingLink, len(pending))
	waiting := make(map[*pendingResponse]bool)
	for _, x := range pending {
		if x.blockedBy = nil; !x.link.Custom {
			continue
		}
		switch first := firsts[nameOf(x)]; {
		case first == nil:
			firsts[nameOf(x)] = x
		case x.response != nil && x.response == first.response:
		default:
			x.blockedBy = first
			if x.response != nil {
				waiting[x.response] = true
			}
		}
	}
	for _, x := range pending {
		switch {
		case x.blockedBy != nil || waiting[x.response]:
			later = append(later, x)
		default:
			now = append(now, x)
		}
	}
	return now, later
}

// settleRepeated sets the outcome of each link if the outcome of the earlier link with
// its custom code decides it, and returns the other links. A code that one workspace
// cannot have may be free for another workspace.
func settleRepeated(later []*pendingLink) (left []*pendingLink) {
	for _, x := range later {
		switch first := x.blockedBy; {
		case first == nil:
		case first.added:
			x.err = placementError(x, Taken)
		case !first.replayed && !first.aliasTaken && first.link.Workspace == x.link.Workspace:
			x.err = first.err
		}
		if x.err == nil {
			left = append(left, x)
		}
	}
	return left
}

// clashing returns a function that reports whether a custom code of the same batch asks
// for the minted code of a link.
func clashing(pending []*pendingLink) func(*pendingLink) bool {
	custom := make(map[LinkName]bool)
	for _, x := range pending {
		if x.link.Custom {
			custom[nameOf(x)] = true
		}
	}
	return func(x *pendingLink) bool { return custom[nameOf(x)] }
}

// PlacementError returns the error of a code that was refused, nil for another.
func PlacementError(code waypost.Code, p InsertResult) error {
	return placementError(&pendingLink{link: &waypost.Link{Code: code}, takenBy: code}, p)
}

// placementError returns the error of a link that was refused, nil for another.
func placementError(x *pendingLink, p InsertResult) error {
	code, by := x.link.Code, ""
	if x.takenBy != "" && x.takenBy != code {
		by = fmt.Sprintf(" by %q, because the domain ignores case", x.takenBy)
	}
	switch p {
	case Placed, Found, Replayed:
		return nil
	case Issuable:
		return waypost.Errorf(waypost.EConflict,
			"the code %q has the form of a generated one and may be issued, or was: choose another, or one of another length", code)
	case Restorable:
		return waypost.Errorf(waypost.EConflict,
			"the code %q is that of a link that was deleted: restore that link, or choose another code", cmp.Or(x.takenBy, code))
	case Aliased:
		return waypost.Errorf(waypost.EConflict, "the code %q is an alias of a link, which is found by this code: choose another", code)
	case AliasTaken:
		return waypost.Errorf(waypost.EConflict,
			"the link cannot have the alias %q: the code is taken or was another link's, or an operator blocks an address of the link", x.takenBy)
	case Retired:
		return waypost.Errorf(waypost.EConflict,
			"the code %q was that of a link or an alias that was deleted or has expired, and is never given out again: choose another", code)
	default:
		return waypost.Errorf(waypost.EConflict, "the code %q is taken%s", code, by)
	}
}
