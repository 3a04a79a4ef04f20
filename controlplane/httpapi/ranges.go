package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
)

// rangesAPI manages key ranges.
type rangesAPI struct{ keys Keys }

func registerRanges(rt *router, a *rangesAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-ranges", method: http.MethodGet, path: api.PathRanges,
		summary: "List the key ranges: their regions, rates of use and supply", scopes: admin,
	}, a.list)
	handle(rt, operation{
		id: "get-range", method: http.MethodGet, path: api.PathRanges + "/{id}", summary: "Get a key range",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, a.get)
	handle(rt, operation{
		id: "change-ranges", method: http.MethodPost, path: api.PathRanges + "/changes",
		summary:     "Assign, split, move, drain, revive or retire key ranges, or resume",
		description: "All steps are done, in order, or none. With dry_run everything is checked and shown, and nothing is kept.",
		scopes:      admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.change)
	handle(rt, operation{
		id: "plan-ranges", method: http.MethodGet, path: api.PathRanges + "/plan",
		summary:     "Plan the fewest moves after which all regions last equally long",
		description: "Nothing is changed. To carry out the plan, send its steps and fingerprint as a change.", scopes: admin,
	}, a.plan)
	handle(rt, operation{
		id: "decode-key", method: http.MethodGet, path: api.PathRanges + "/decode/{code}",
		summary: "Get a generated code's range and counter, and whether it was issued", scopes: admin,
	}, a.decode)
}

func (a *rangesAPI) list(ctx context.Context, _ *struct{}) (*body[api.KeySpace], error) {
	space, err := a.keys.KeySpace(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return bodyOf(api.KeySpace{
		Ranges: mapped(space.Ranges, rangeOf), Regions: mapped(space.Supplies(), supplyOf),
		Prefixes: space.Prefixes, FreePrefixes: space.FreePrefixes, PrefixSize: space.PrefixSize,
		Held: textOrNull(space.Held), HeldSince: moment(space.HeldSince), ResumeGap: space.ResumeGap,
	}), nil
}

func (a *rangesAPI) get(ctx context.Context, in *byID) (*body[api.Range], error) {
	space, err := a.keys.KeySpace(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	for i := range space.Ranges {
		if space.Ranges[i].ID == in.ID {
			return bodyOf(rangeOf(&space.Ranges[i])), nil
		}
	}
	return nil, waypost.Errorf(waypost.ENotFound, "there is no range %d", in.ID)
}

func (a *rangesAPI) change(ctx context.Context, in *body[api.RangeChange]) (*body[api.RangesChanged], error) {
	change := &in.Body
	steps := make([]keys.RangeStep, len(change.Steps))
	for i := range change.Steps {
		var err error
		if steps[i], err = stepOf(&change.Steps[i], "body.steps["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
	}
	done, err := a.keys.ChangeRanges(ctx, actorFrom(ctx), keys.RangeChange{
		Steps:       steps,
		Fingerprint: change.Fingerprint, DryRun: change.DryRun,
	})
	if err != nil {
		return nil, err
	}
	out := bodyOf(api.RangesChanged{Done: make([]api.StepDone, len(done)), DryRun: change.DryRun})
	for i := range done {
		out.Body.Done[i] = api.StepDone{
			Step: showStep(&done[i].Step), What: done[i].What, Fenced: done[i].Fenced,
			Ranges: mapped(done[i].Ranges, rangeOf),
		}
	}
	return out, nil
}

func (a *rangesAPI) plan(ctx context.Context, _ *struct{}) (*body[api.RangePlan], error) {
	plan, err := a.keys.PlanRanges(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return bodyOf(api.RangePlan{
		MadeAt: plan.MadeAt.UTC(), Fingerprint: plan.Fingerprint, Steps: mapped(plan.Steps, showStep),
		Before: mapped(plan.Before, supplyOf), After: mapped(plan.After, supplyOf), Reason: plan.Reason,
	}), nil
}

func (a *rangesAPI) decode(ctx context.Context, in *codeInput) (*body[api.DecodedKey], error) {
	d, err := a.keys.Decode(ctx, actorFrom(ctx), in.Code)
	if err != nil {
		return nil, err
	}
	out := bodyOf(api.DecodedKey{
		Code: string(d.Code), Prefix: d.Text, Counter: d.Counter, State: string(d.State), Issued: d.State == keys.CounterIssued,
	})
	if d.Range != nil {
		bounds := boundsOf(d.Range)
		out.Body.Range, out.Body.Region = &bounds, &bounds.Region
		if bounds.Prefix == "" { // stores know prefixes by number
			bounds.Prefix = d.Text
		}
	}
	if d.Lease != nil {
		lease := leaseOf(d.Lease)
		out.Body.Lease = &lease
	}
	return out, nil
}

// arguments lists the needed and the optional arguments of each action.
var arguments = map[keys.RangeAction]struct{ needs, takes []string }{
	keys.AssignPrefix: {needs: []string{"region"}, takes: []string{"prefix"}},
	keys.SplitRange:   {needs: []string{"range"}, takes: []string{"at"}},
	keys.MoveRange:    {needs: []string{"range", "region"}, takes: []string{"at", "remainder"}},
	keys.DrainRange:   {needs: []string{"range"}},
	keys.ReviveRange:  {needs: []string{"range"}},
	keys.RetireRange:  {needs: []string{"range"}, takes: []string{"force"}},
	keys.ResumeKeys:   {takes: []string{"gap"}},
}

// stepOf converts a step, if it has all the arguments of its action and no other. At is
// its location in the body.
func stepOf(st *api.RangeStep, at string) (keys.RangeStep, error) {
	action := keys.RangeAction(st.Action)
	has := map[string]bool{
		"range": st.Range != 0, "region": st.Region != "", "prefix": st.Prefix != "", "at": st.At != 0, "remainder": st.Remainder,
		"force": st.Force, "gap": st.Gap != nil,
	}
	var wrong fieldErrors
	fault := func(name, message string) {
		wrong = append(wrong, api.FieldError{Location: at + "." + name, Message: message})
	}
	for _, name := range arguments[action].needs {
		if !has[name] {
			fault(name, "expected for the action "+st.Action)
		}
		delete(has, name)
	}
	for _, name := range arguments[action].takes {
		delete(has, name)
	}
	for _, name := range []string{"range", "region", "prefix", "at", "remainder", "force", "gap"} {
		if has[name] {
			fault(name, "not an argument of the action "+st.Action)
		}
	}
	if st.At != 0 && st.Remainder {
		fault("remainder", "not together with at")
	}
	if len(wrong) > 0 {
		return keys.RangeStep{}, wrong
	}
	step := keys.RangeStep{
		Action: action, Range: st.Range, Prefix: st.Prefix, At: st.At,
		Remainder: st.Remainder, Force: st.Force, Gap: st.Gap,
	}
	if st.Region != "" {
		region, err := waypost.ParseRegion(st.Region)
		if err != nil {
			return keys.RangeStep{}, invalid(at+".region", waypost.MessageOf(err))
		}
		step.Region = region
	}
	return step, nil
}

func showStep(st *keys.RangeStep) api.RangeStep {
	return api.RangeStep{
		Action: string(st.Action), Range: st.Range, Region: string(st.Region), Prefix: st.Prefix, At: st.At, Remainder: st.Remainder,
		Force: st.Force, Gap: st.Gap,
	}
}

func rangeOf(r *keys.Range) api.Range {
	return api.Range{RangeBounds: boundsOf(r), Leases: mapped(r.Leases, leaseOf), Rate: r.Rate, MinutesLeft: known(r.MinutesLeft())}
}

func boundsOf(r *keys.Range) api.RangeBounds {
	return api.RangeBounds{
		ID: r.ID, Prefix: r.Text, Lo: r.Lo, Hi: r.Hi, Next: r.Next, Region: string(r.Region), State: string(r.State),
		Generation: r.Generation, Returned: r.Returned, CreatedAt: r.CreatedAt.UTC(),
	}
}

func leaseOf(l *keys.HeldLease) api.Lease {
	return api.Lease{Node: l.Node, Lo: l.Lo, Hi: l.Hi, Generation: l.Generation}
}

func supplyOf(s *keys.Supply) api.Supply {
	return api.Supply{Region: string(s.Region), Unissued: s.Unissued, Rate: s.Rate, MinutesLeft: known(s.MinutesLeft())}
}
