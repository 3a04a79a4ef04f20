package controlplane

import (
	"context"
	"time"

	"waypost"
)

// Twin names a target among those for which a workspace has one link only.
type Twin struct {
	Domain waypost.DomainID
	Target [32]byte // hash of its normal form
}

// TwinStore finds links by their targets.
type TwinStore interface {
	// Twins finds the live links of a workspace that were made as the one link for their
	// targets, and a position at which they were there.
	Twins(ctx context.Context, ws waypost.WorkspaceID, twins []Twin) (map[Twin]waypost.Link, waypost.Position, error)

	// DedupeByDefault tells whether a workspace wants one link for a target unless a
	// request says otherwise.
	DedupeByDefault(ctx context.Context, ws waypost.WorkspaceID) (bool, error)
}

// dedupes tells whether a workspace wants one link for a target unless a request says
// otherwise.
func (s *Service) dedupes(ctx context.Context, ws waypost.WorkspaceID) (bool, error) {
	dedupe, _, err := s.dedupe.of(ws, time.Now(), func() (bool, bool, error) {
		dedupe, err := s.twins.DedupeByDefault(ctx, ws)
		return dedupe, true, err
	})
	return dedupe, err
}

// wantsTwin decides whether a wish is for the one link of its target. A code of one's
// own is a wish for another.
func wantsTwin(n *NewLink, byDefault bool) (bool, error) {
	switch {
	case n.Dedupe == nil:
		return byDefault && n.CustomCode == "", nil
	case *n.Dedupe && n.CustomCode != "":
		return false, waypost.Errorf(waypost.EInvalid, "dedupe finds the link of a target, and custom_code asks for another: give one of them")
	}
	return *n.Dedupe, nil
}

// findTwins settles the wishes for which there is a link already, without a turn at the
// head of the changelog, and gives the others. A link that comes at this moment is
// found later, in the transaction.
func (s *Service) findTwins(ctx context.Context, ws waypost.WorkspaceID, wishes []*wish) ([]*wish, waypost.Position, error) {
	var twins []Twin
	for _, x := range wishes {
		if x.twin != nil {
			twins = append(twins, Twin{x.link.Domain, *x.twin})
		}
	}
	if len(twins) == 0 {
		return wishes, waypost.Position{}, nil
	}
	links, at, err := s.twins.Twins(ctx, ws, twins)
	if err != nil {
		return nil, at, err
	}
	var left []*wish
	for _, x := range wishes {
		if x.twin != nil {
			if l, ok := links[Twin{x.link.Domain, *x.twin}]; ok {
				*x.link, x.found, x.added = l, true, true
				continue
			}
		}
		left = append(left, x)
	}
	if len(links) == 0 {
		at = waypost.Position{}
	}
	return left, at, nil
}
