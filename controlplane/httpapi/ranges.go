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
	}, func(ctx context.Context, _ *struct{}) (*body[api.RangePlan], error) {
		return answered(a.keys.PlanRanges(ctx, actorFrom(ctx)))
	})
	handle(rt, operation{
		id: "decode-key", method: http.MethodGet, path: api.PathRanges + "/decode/{code}",
		summary: "Get a generated code's range and counter, and whether it was issued", scopes: admin,
	}, func(ctx context.Context, in *codeInput) (*body[api.DecodedKey], error) {
		return answered(a.keys.Decode(ctx, actorFrom(ctx), in.Code))
	})
}

func (a *rangesAPI) list(ctx context.Context, _ *struct{}) (*body[api.KeySpace], error) {
	space, err := a.keys.KeySpace(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return bodyOf(api.KeySpace{
		Ranges: mapped(space.Ranges, func(r *keys.Range) api.Range { return r.Range }), Regions: space.Supplies(),
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
			return bodyOf(space.Ranges[i].Range), nil
		}
	}
	return nil, waypost.Errorf(waypost.ENotFound, "there is no range %d", in.ID)
}

func (a *rangesAPI) change(ctx context.Context, in *body[api.RangeChange]) (*body[api.RangesChanged], error) {
	for i := range in.Body.Steps {
		if err := checkStep(&in.Body.Steps[i], "body.steps["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
	}
	done, err := a.keys.ChangeRanges(ctx, actorFrom(ctx), in.Body)
	return answered(api.RangesChanged{Done: done, DryRun: in.Body.DryRun}, err)
}

// arguments lists the needed and the optional arguments of each action.
var arguments = map[string]struct{ needs, takes []string }{
	keys.AssignPrefix: {needs: []string{"region"}, takes: []string{"prefix"}},
	keys.SplitRange:   {needs: []string{"range"}, takes: []string{"at"}},
	keys.MoveRange:    {needs: []string{"range", "region"}, takes: []string{"at", "remainder"}},
	keys.DrainRange:   {needs: []string{"range"}},
	keys.ReviveRange:  {needs: []string{"range"}},
	keys.RetireRange:  {needs: []string{"range"}, takes: []string{"force"}},
	keys.ResumeKeys:   {takes: []string{"gap"}},
}

// checkStep refuses a step that lacks an argument of its action or has another one. At is
// its location in the body.
func checkStep(st *api.RangeStep, at string) error {
	has := map[string]bool{
		"range": st.Range != 0, "region": st.Region != "", "prefix": st.Prefix != "", "at": st.At != 0, "remainder": st.Remainder,
		"force": st.Force, "gap": st.Gap != nil,
	}
	var wrong fieldErrors
	fault := func(name, message string) {
		wrong = append(wrong, api.FieldError{Location: at + "." + name, Message: message})
	}
	for _, name := range arguments[st.Action].needs {
		if !has[name] {
			fault(name, "expected for the action "+st.Action)
		}
		delete(has, name)
	}
	for _, name := range arguments[st.Action].takes {
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
		return wrong
	}
	if st.Region != "" {
		if _, err := waypost.ParseRegion(st.Region); err != nil {
			return invalid(at+".region", waypost.MessageOf(err))
		}
	}
	return nil
}
