package httpapi

import (
	"context"
	"strconv"

	"waypost"
	"waypost/controlplane"
)

// rangeChange is a list of steps, as a client writes it.
type rangeChange struct {
	Steps       []rangeStep `json:"steps" nullable:"false" minItems:"1" maxItems:"100" doc:"What to do, in this order."`
	Fingerprint string      `json:"fingerprint,omitempty" maxLength:"256" doc:"That of the plan the steps are of: nothing is done when the ranges are not as it found them."`
	DryRun      bool        `json:"dry_run,omitempty" doc:"Judge and show everything, and keep nothing."`
}

// rangeStep is one act with its arguments. Which it takes depends on the action.
type rangeStep struct {
	Action    string `json:"action" enum:"assign,split,move,drain,revive,retire,resume" doc:"assign: region gets a prefix that was never used. split: range keeps [lo, at), a new range of its region gets the rest. move: region gets range, or, with remainder, what is not leased of it, or, with at, its counters from there on, as a new range. drain: nothing more is leased from range. revive: a draining range is live again. retire: range is over. resume: keys are leased again after a history that nobody witnessed."`
	Range     int64  `json:"range,omitempty" minimum:"1" doc:"Id of the range; of all but assign and resume."`
	Region    string `json:"region,omitempty" minLength:"1" maxLength:"32" doc:"Of assign and move."`
	Prefix    string `json:"prefix,omitempty" minLength:"1" maxLength:"3" doc:"Of assign. Left out: any that is free."`
	At        int64  `json:"at,omitempty" minimum:"1" doc:"A counter; of split, where it may be left out for the middle of what is unissued, and of move if only a part is moved."`
	Remainder bool   `json:"remainder,omitempty" doc:"Of move, instead of at: only what is not leased yet."`
	Force     bool   `json:"force,omitempty" doc:"Of retire: also while leases are held, which are void then."`
	Gap       *int64 `json:"gap,omitempty" minimum:"0" doc:"Of resume: how many counters every prefix skips. Left out: the resume_gap of the ranges."`
}

type changeInput struct{ Body body[rangeChange] }

type changeOutput struct{ Body changeAnswer }

type changeAnswer struct {
	Done   []stepDone `json:"done" nullable:"false" doc:"One for each step, in their order."`
	DryRun bool       `json:"dry_run" doc:"Whether nothing was kept."`
}

// stepDone is what a step has done, or would do.
type stepDone struct {
	Step   rangeStep  `json:"step"`
	What   string     `json:"what" doc:"What was done, for people."`
	Fenced int        `json:"fenced" minimum:"0" doc:"How many leases that were held are void now."`
	Ranges []keyRange `json:"ranges" nullable:"false" doc:"The ranges that were touched, as they are after the step."`
}

func (s *server) changeRanges(ctx context.Context, in *changeInput) (*changeOutput, error) {
	change, err := decode[rangeChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	steps := make([]controlplane.RangeStep, len(change.Steps))
	for i := range change.Steps {
		if steps[i], err = change.Steps[i].wish("body.steps[" + strconv.Itoa(i) + "]"); err != nil {
			return nil, err
		}
	}
	done, err := s.keys.ChangeRanges(ctx, actorFrom(ctx), controlplane.RangeChange{Steps: steps, Fingerprint: change.Fingerprint, DryRun: change.DryRun})
	if err != nil {
		return nil, err
	}
	out := &changeOutput{Body: changeAnswer{Done: make([]stepDone, len(done)), DryRun: change.DryRun}}
	for i := range done {
		out.Body.Done[i] = stepDone{Step: showStep(done[i].Step), What: done[i].What, Fenced: done[i].Fenced, Ranges: showRanges(done[i].Ranges)}
	}
	return out, nil
}

// arguments says what an action needs and may have beside that.
var arguments = map[controlplane.RangeAction]struct{ needs, takes []string }{
	controlplane.AssignPrefix: {needs: []string{"region"}, takes: []string{"prefix"}},
	controlplane.SplitRange:   {needs: []string{"range"}, takes: []string{"at"}},
	controlplane.MoveRange:    {needs: []string{"range", "region"}, takes: []string{"at", "remainder"}},
	controlplane.DrainRange:   {needs: []string{"range"}},
	controlplane.ReviveRange:  {needs: []string{"range"}},
	controlplane.RetireRange:  {needs: []string{"range"}, takes: []string{"force"}},
	controlplane.ResumeKeys:   {takes: []string{"gap"}},
}

// wish turns a step into one of the service, when it has all the arguments of its
// action and no other. At says where it stands in the body.
func (st *rangeStep) wish(at string) (controlplane.RangeStep, error) {
	action := controlplane.RangeAction(st.Action)
	has := map[string]bool{
		"range": st.Range != 0, "region": st.Region != "", "prefix": st.Prefix != "", "at": st.At != 0, "remainder": st.Remainder,
		"force": st.Force, "gap": st.Gap != nil,
	}
	var wrong fieldErrors
	for _, name := range arguments[action].needs {
		if !has[name] {
			wrong = append(wrong, fieldError{Location: at + "." + name, Message: "expected for the action " + st.Action})
		}
		delete(has, name)
	}
	for _, name := range arguments[action].takes {
		delete(has, name)
	}
	for _, name := range []string{"range", "region", "prefix", "at", "remainder", "force", "gap"} {
		if has[name] {
			wrong = append(wrong, fieldError{Location: at + "." + name, Message: "not an argument of the action " + st.Action})
		}
	}
	if st.At != 0 && st.Remainder {
		wrong = append(wrong, fieldError{Location: at + ".remainder", Message: "not together with at"})
	}
	if len(wrong) > 0 {
		return controlplane.RangeStep{}, wrong
	}
	step := controlplane.RangeStep{Action: action, Range: st.Range, Prefix: st.Prefix, At: st.At, Remainder: st.Remainder, Force: st.Force, Gap: st.Gap}
	if st.Region != "" {
		region, err := waypost.ParseRegion(st.Region)
		if err != nil {
			return controlplane.RangeStep{}, fieldErrors{{Location: at + ".region", Message: waypost.MessageOf(err)}}
		}
		step.Region = region
	}
	return step, nil
}

func showStep(st controlplane.RangeStep) rangeStep {
	return rangeStep{
		Action: string(st.Action), Range: st.Range, Region: string(st.Region), Prefix: st.Prefix, At: st.At, Remainder: st.Remainder,
		Force: st.Force, Gap: st.Gap,
	}
}

func showSteps(all []controlplane.RangeStep) []rangeStep {
	shown := make([]rangeStep, len(all))
	for i := range all {
		shown[i] = showStep(all[i])
	}
	return shown
}
