package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

const rangesPath = "/api/admin/ranges"

type rangesOutput struct{ Body keySpace }

// keySpace is all that is known of the cluster's keys.
type keySpace struct {
	Ranges       []keyRange  `json:"ranges" nullable:"false" doc:"By id, retired ones too."`
	Regions      []keySupply `json:"regions" nullable:"false" doc:"What each region has left."`
	Prefixes     int         `json:"prefixes" doc:"How many there are."`
	FreePrefixes int         `json:"free_prefixes" doc:"How many no range was ever made of."`
	PrefixSize   int64       `json:"prefix_size" doc:"Counters in a prefix."`
	Held         *string     `json:"held" doc:"Why no key is leased until an operator resumes; null when keys are."`
	HeldSince    *time.Time  `json:"held_since" doc:"Null when keys are leased."`
	ResumeGap    int64       `json:"resume_gap" doc:"How many counters every prefix would skip when an operator resumes; 0 when the operator has to say."`
}

// keyRange is a range as a client reads it.
type keyRange struct {
	rangeBounds

	Leases      []keyLease `json:"leases" nullable:"false" doc:"Blocks that control planes issue from at present, by node."`
	Rate        float64    `json:"rate_per_minute" minimum:"0" doc:"Keys issued from it, over the last hour."`
	MinutesLeft *float64   `json:"minutes_left" doc:"How long it lasts at that rate; null when no key is issued from it."`
}

// rangeBounds is a range without what changes from minute to minute.
type rangeBounds struct {
	ID         int64     `json:"id"`
	Prefix     string    `json:"prefix" example:"4k" doc:"What its codes begin with."`
	Lo         int64     `json:"lo" minimum:"0" doc:"The first counter."`
	Hi         int64     `json:"hi" doc:"The counter after the last."`
	Next       int64     `json:"next" doc:"Counters below it have been leased."`
	Region     string    `json:"region"`
	State      string    `json:"state" enum:"live,draining,retired" doc:"Draining: what is leased is used up, nothing more is leased. Retired: nothing is ever issued from it again."`
	Generation int64     `json:"generation" doc:"Leases of an earlier one are fenced."`
	Returned   int64     `json:"returned" minimum:"0" doc:"Counters below next that were given back, and will be leased again."`
	CreatedAt  time.Time `json:"created_at"`
}

// keyLease is a block that a control plane holds.
type keyLease struct {
	Node       string `json:"node"`
	Lo         int64  `json:"lo" minimum:"0"`
	Hi         int64  `json:"hi"`
	Generation int64  `json:"generation"`
}

// keySupply is a region's share of the keys.
type keySupply struct {
	Region      string   `json:"region"`
	Unissued    int64    `json:"unissued" minimum:"0" doc:"Counters that can still be leased from its live ranges."`
	Rate        float64  `json:"rate_per_minute" minimum:"0" doc:"Keys issued, over the last hour."`
	MinutesLeft *float64 `json:"minutes_left" doc:"How long they last at that rate; null when no key is issued."`
}

type rangeInput struct {
	ID int64 `path:"id" minimum:"1"`
}

type rangeOutput struct{ Body keyRange }

func (s *server) registerRanges() {
	if s.keys == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "list-ranges",
		Method:      http.MethodGet,
		Path:        rangesPath,
		Summary:     "List the key ranges: whose they are, how fast they are used, and what is left",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403),
	}, s.ranges)

	handle(s, huma.Operation{
		OperationID: "get-range",
		Method:      http.MethodGet,
		Path:        rangesPath + "/{id}",
		Summary:     "Get a key range",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403, 404, 422),
	}, s.keyRange)

	handle(s, withBody(huma.Operation{
		OperationID: "change-ranges",
		Method:      http.MethodPost,
		Path:        rangesPath + "/changes",
		Summary:     "Assign, split, move, drain, revive or retire key ranges, or resume",
		Description: "All steps are done, in their order, or none. With dry_run everything is judged and shown, and nothing is kept.",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(400, 401, 403, 404, 408, 409, 413, 415, 422),
	}, maxBody), s.changeRanges)
}

func (s *server) ranges(ctx context.Context, _ *struct{}) (*rangesOutput, error) {
	space, err := s.keys.KeySpace(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return &rangesOutput{Body: keySpace{
		Ranges: showRanges(space.Ranges), Regions: showSupplies(space.Supplies()),
		Prefixes: space.Prefixes, FreePrefixes: space.FreePrefixes, PrefixSize: space.PrefixSize,
		Held: textOrNull(space.Held), HeldSince: momentOf(space.HeldSince), ResumeGap: space.ResumeGap,
	}}, nil
}

func (s *server) keyRange(ctx context.Context, in *rangeInput) (*rangeOutput, error) {
	space, err := s.keys.KeySpace(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	for i := range space.Ranges {
		if space.Ranges[i].ID == in.ID {
			return &rangeOutput{Body: showRange(&space.Ranges[i])}, nil
		}
	}
	return nil, waypost.Errorf(waypost.ENotFound, "there is no range %d", in.ID)
}

func showRanges(all []controlplane.Range) []keyRange {
	shown := make([]keyRange, len(all))
	for i := range all {
		shown[i] = showRange(&all[i])
	}
	return shown
}

func showRange(r *controlplane.Range) keyRange {
	shown := keyRange{
		rangeBounds: boundsOf(r),
		Leases:      make([]keyLease, len(r.Leases)),
		Rate:        r.Rate,
		MinutesLeft: known(r.MinutesLeft()),
	}
	for i := range r.Leases {
		shown.Leases[i] = showLease(&r.Leases[i])
	}
	return shown
}

func boundsOf(r *controlplane.Range) rangeBounds {
	return rangeBounds{
		ID: r.ID, Prefix: r.Text, Lo: r.Lo, Hi: r.Hi, Next: r.Next, Region: string(r.Region), State: string(r.State),
		Generation: r.Generation, Returned: r.Returned, CreatedAt: r.CreatedAt.UTC(),
	}
}

func showLease(l *controlplane.HeldLease) keyLease {
	return keyLease{Node: l.Node, Lo: l.Lo, Hi: l.Hi, Generation: l.Generation}
}

func showSupplies(all []controlplane.Supply) []keySupply {
	shown := make([]keySupply, len(all))
	for i, supply := range all {
		shown[i] = keySupply{Region: string(supply.Region), Unissued: supply.Unissued, Rate: supply.Rate, MinutesLeft: known(supply.MinutesLeft())}
	}
	return shown
}
