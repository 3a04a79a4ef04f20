package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

type planOutput struct{ Body rangePlan }

// rangePlan is what an operator may do to equalise regions, and sends back as a
// change to have it done.
type rangePlan struct {
	MadeAt      time.Time   `json:"made_at"`
	Fingerprint string      `json:"fingerprint" doc:"Of the ranges that the plan was made for: send it with the steps."`
	Steps       []rangeStep `json:"steps" nullable:"false" doc:"What to do; empty when there is nothing."`
	Before      []keySupply `json:"before" nullable:"false" doc:"What each region has left now."`
	After       []keySupply `json:"after" nullable:"false" doc:"And what it would have."`
	Reason      string      `json:"reason" doc:"Why there is nothing to do, when there is nothing."`
}

type decodeOutput struct{ Body decoded }

// decoded is a code taken apart.
type decoded struct {
	Code    string       `json:"code"`
	Prefix  string       `json:"prefix"`
	Counter int64        `json:"counter" minimum:"0"`
	State   string       `json:"state" enum:"issued,spent,burned,leased,unissued,unassigned" doc:"issued: a link or a reserved key has it. spent: it was issued or is lost, and never will be again. burned: a custom code has taken it. leased: a node may issue it, or just has. unissued: it lies ahead in a range. unassigned: no range holds it."`
	Issued  bool         `json:"issued" doc:"Whether a link or a reserved key has the code."`
	Region  *string      `json:"region" doc:"Whose range holds the counter; null when none does."`
	Range   *rangeBounds `json:"range" doc:"Null when none holds the counter."`
	Lease   *keyLease    `json:"lease" doc:"The block that the counter is or was leased in; null when in none."`
}

func (s *server) registerRangePlan() {
	if s.keys == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "plan-ranges",
		Method:      http.MethodGet,
		Path:        rangesPath + "/plan",
		Summary:     "Plan the fewest moves after which all regions last equally long",
		Description: "Nothing is changed. To carry out the plan, send its steps and fingerprint as a change.",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403),
	}, s.planRanges)

	handle(s, huma.Operation{
		OperationID: "decode-key",
		Method:      http.MethodGet,
		Path:        rangesPath + "/decode/{code}",
		Summary:     "Tell a generated code's range and counter, and whether it was issued",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403, 422),
	}, s.decodeKey)
}

func (s *server) planRanges(ctx context.Context, _ *struct{}) (*planOutput, error) {
	plan, err := s.keys.PlanRanges(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return &planOutput{Body: rangePlan{
		MadeAt: plan.MadeAt.UTC(), Fingerprint: plan.Fingerprint, Steps: showSteps(plan.Steps),
		Before: showSupplies(plan.Before), After: showSupplies(plan.After), Reason: plan.Reason,
	}}, nil
}

func (s *server) decodeKey(ctx context.Context, in *codeInput) (*decodeOutput, error) {
	d, err := s.keys.Decode(ctx, actorFrom(ctx), in.Code)
	if err != nil {
		return nil, err
	}
	out := &decodeOutput{Body: decoded{
		Code: string(d.Code), Prefix: d.Text, Counter: d.Counter, State: string(d.State), Issued: d.State == controlplane.CounterIssued,
	}}
	if d.Range != nil {
		bounds := boundsOf(d.Range)
		out.Body.Range, out.Body.Region = &bounds, &bounds.Region
		if bounds.Prefix == "" { // a store knows ordinals
			bounds.Prefix = d.Text
		}
	}
	if d.Lease != nil {
		lease := showLease(d.Lease)
		out.Body.Lease = &lease
	}
	return out, nil
}
