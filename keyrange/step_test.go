package keyrange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/keyrange"
)

var (
	stepRange = keyrange.Range{ID: 7, Prefix: 3, Lo: 100, Hi: 200, Next: 150, Region: "eu", State: keyrange.Live}
	step      = keyrange.Step{Range: 7, Prefix: 3, At: 180, Hi: 200, Counters: 20, From: "eu", To: "us"}
)

func TestStep_StepMovesTheUpperEndOfARange(t *testing.T) {
	stays, moves, err := step.Apply(stepRange)
	require.NoError(t, err)
	require.Equal(t, keyrange.Range{ID: 7, Prefix: 3, Lo: 100, Hi: 180, Next: 150, Region: "eu", State: keyrange.Live}, stays)
	require.Equal(t, keyrange.Range{Prefix: 3, Lo: 180, Hi: 200, Next: 180, Region: "us", State: keyrange.Live}, moves)
}

func TestStep_StepThatTakesAllLeavesWhatIsLeased(t *testing.T) {
	whole := step
	whole.At = 0
	leased := stepRange
	leased.Next = 170 // more than when the step was planned
	stays, moves, err := whole.Apply(leased)
	require.NoError(t, err)
	require.Equal(t, keyrange.Range{ID: 7, Prefix: 3, Lo: 100, Hi: 170, Next: 170, Region: "eu", State: keyrange.Live}, stays)
	require.Equal(t, keyrange.Range{Prefix: 3, Lo: 170, Hi: 200, Next: 170, Region: "us", State: keyrange.Live}, moves)
}

func TestStep_StepThatTakesAFreshRangeTakesItAsItIs(t *testing.T) {
	whole := step
	whole.At = 0
	fresh := stepRange
	fresh.Next = fresh.Lo
	stays, moves, err := whole.Apply(fresh)
	require.NoError(t, err)
	require.Zero(t, stays)
	fresh.Region = "us"
	require.Equal(t, fresh, moves)
}

func TestStep_StepAppliesUntilTheLeasesReachIt(t *testing.T) {
	leased := stepRange
	leased.Next = step.At
	_, _, err := step.Apply(leased)
	require.NoError(t, err)
	leased.Next++
	_, _, err = step.Apply(leased)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
}

func TestStep_StepIsRefusedWhenTheRangeIsNotWhatItWas(t *testing.T) {
	for name, change := range map[string]func(r *keyrange.Range, s *keyrange.Step){
		"another range":       func(r *keyrange.Range, _ *keyrange.Step) { r.ID = 8 },
		"another prefix":      func(r *keyrange.Range, _ *keyrange.Step) { r.Prefix = 4 },
		"draining":            func(r *keyrange.Range, _ *keyrange.Step) { r.State = keyrange.Draining },
		"retired":             func(r *keyrange.Range, _ *keyrange.Step) { r.State = keyrange.Retired },
		"moved":               func(r *keyrange.Range, _ *keyrange.Step) { r.Region = "us" },
		"of a third region":   func(r *keyrange.Range, _ *keyrange.Step) { r.Region = "ap" },
		"cut":                 func(r *keyrange.Range, _ *keyrange.Step) { r.Hi = 190 },
		"longer":              func(r *keyrange.Range, _ *keyrange.Step) { r.Hi = 210 },
		"empty":               func(r *keyrange.Range, s *keyrange.Step) { r.Next, s.At = 200, 0 },
		"leased to the end":   func(r *keyrange.Range, _ *keyrange.Step) { r.Next = 200 },
		"leased beyond a cut": func(r *keyrange.Range, _ *keyrange.Step) { r.Next = 199 },
	} {
		r, s := stepRange, step
		change(&r, &s)
		_, _, err := s.Apply(r)
		require.Equal(t, waypost.EConflict, waypost.CodeOf(err), "%s: %v", name, err)
	}
}

func TestStep_StepThatMakesNoSenseIsRefused(t *testing.T) {
	for name, change := range map[string]func(s *keyrange.Step){
		"to nowhere":            func(s *keyrange.Step) { s.To = "" },
		"to where it is":        func(s *keyrange.Step) { s.To = "eu" },
		"before all counters":   func(s *keyrange.Step) { s.At = -1 },
		"at the range's end":    func(s *keyrange.Step) { s.At = 200 },
		"beyond the range":      func(s *keyrange.Step) { s.At = 500 },
		"before the range":      func(s *keyrange.Step) { s.At = 99 },
		"at the range's lowest": func(s *keyrange.Step) { s.At = 100 },
	} {
		r, s := stepRange, step
		change(&s)
		_, _, err := s.Apply(r)
		require.Contains(t, []waypost.ErrorCode{waypost.EInvalid, waypost.EConflict}, waypost.CodeOf(err), "%s: %v", name, err)
	}
}
