package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/internal/codes"
	"waypost/internal/patterns"
)

// Bounds of unknown addresses.
const (
	MaxUnknown  = 1000 // addresses in an answer
	UnknownDays = 30   // for which they are kept
)

// UnknownReport is a report of an edge about unknown addresses. Node, boot and sequence
// identify it.
type UnknownReport struct {
	Node      string
	Boot      waypost.BootID
	Seq       uint64
	Addresses []UnknownVisits
}

// UnknownVisits are the visits of an unknown address that an edge reports.
type UnknownVisits struct {
	Domain       waypost.DomainID
	Day          int32 // since 1970, UTC
	Kind         waypost.UnknownKind
	Path         string
	People, Bots int64
	Visitors     []uint64 // see waypost.Visitor
}

// UnknownQuery selects unknown addresses of a domain.
type UnknownQuery struct {
	Workspace waypost.WorkspaceID
	Domain    waypost.DomainID
	From, To  time.Time // UTC days; both are included
	Limit     int
}

// UnknownStore counts unknown addresses.
type UnknownStore interface {
	// CountUnknown counts the visits in a report, unless it was counted before. It leaves
	// out unknown domains, and days that are too far away.
	CountUnknown(ctx context.Context, r *UnknownReport) error

	// Unknown returns addresses that UnknownVisitors or more people asked for on a day, with
	// the visits of such days, most visits of people first. It leaves out codes of live
	// links, and paths that live links forward.
	Unknown(ctx context.Context, q *UnknownQuery) ([]api.UnknownAddress, error)
}

// Unknown returns the addresses of a domain of the actor's workspace that visitors asked
// for and that name no link, by the host of the domain, "" for the default one. A shared
// domain answers actors of the default workspace only, because strangers share it. The
// days from and to are included; zero means the last week.
func (s *Clicks) Unknown(
	ctx context.Context, actor Actor, host string, from, to time.Time, limit int,
) ([]api.UnknownAddress, UnknownQuery, error) {
	today := s.now().UTC().Truncate(24 * time.Hour)
	if to.IsZero() {
		to = today
	}
	if from.IsZero() {
		from = to.AddDate(0, 0, -6)
	}
	q := UnknownQuery{Workspace: actor.Workspace, From: from, To: to, Limit: limit}
	switch {
	case to.Before(from) || to.Sub(from) >= UnknownDays*24*time.Hour:
		return nil, q, waypost.Errorf(waypost.EInvalid, "from and to must be 1 to %d days", UnknownDays)
	case limit < 1 || limit > MaxUnknown:
		return nil, q, waypost.Errorf(waypost.EInvalid, "limit must be 1 to %d", MaxUnknown)
	}
	domain, err := s.links.domains.named(ctx, actor, waypost.HostName(host))
	if err != nil {
		return nil, q, err
	}
	if domain.Workspace == 0 && actor.Workspace != waypost.DefaultWorkspace {
		return nil, q, waypost.Errorf(waypost.EForbidden, "the unknown addresses of a shared domain are for the default workspace only")
	}
	q.Domain = domain.ID
	index, err := s.links.patternsOf(ctx, q.Domain)
	if err != nil {
		return nil, q, err
	}
	all := q
	all.Limit = 2 * MaxUnknown // because patterns may answer some
	addresses, err := s.stats.Unknown(ctx, &all)
	if index.Len() > 0 {
		addresses = slices.DeleteFunc(addresses, func(a api.UnknownAddress) bool {
			return !a.Pattern && answers(index, domain.Traits, a.Path)
		})
	}
	return addresses[:min(len(addresses), limit)], q, err
}

// answers reports whether a pattern of a domain answers a path that no link answers.
func answers(index *patterns.Index, traits waypost.DomainTraits, path string) bool {
	var walk codes.Walk
	visit := waypost.ParseVisit(waypost.AppendEncoded([]byte("/"), path))
	found, _ := walk.Find(&visit, traits, patternsAlone{index}) // never fails
	return found.Record != nil
}

// patternsAlone is an index of a domain without its other links.
type patternsAlone struct{ index *patterns.Index }

// Policy implements [codes.Index].
func (patternsAlone) Policy([]byte, bool) (waypost.BlockPolicy, error) { return 0, nil }

// Record implements [codes.Index].
func (patternsAlone) Record(code []byte) (*waypost.Record, error) {
	if waypost.IsPattern(code) {
		return new(waypost.Record), nil
	}
	return nil, nil //nolint:nilnil // there is no link
}

// Patterns implements [codes.Index].
func (p patternsAlone) Patterns() (*patterns.Index, error) { return p.index, nil }
