package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
)

// durable is a report by an edge of a region that has p on its disk.
func durable(node string, region waypost.Region, p waypost.Position) fleet.EdgeReport {
	r := report(node, p)
	r.Region, r.Synced = string(region), p
	return r
}

// applied waits.
func applied(t *testing.T, f *fleet.Fleet, p waypost.Position, everywhere bool, most time.Duration) api.Applied {
	t.Helper()
	return f.WaitApplied(t.Context(), p, everywhere, most)
}

// waits waits in the background, and returns the result.
func waits(ctx context.Context, f *fleet.Fleet, p waypost.Position, everywhere bool,
	most time.Duration,
) <-chan api.Applied {
	out := make(chan api.Applied, 1)
	go func() { out <- f.WaitApplied(ctx, p, everywhere, most) }()
	synctest.Wait()
	return out
}

func TestFleet_WhoWaitsIsToldAsSoonAsTheEdgesHaveIt(t *testing.T) {
	asked := make(chan waypost.Position, 10)
	cfg := fleet.Config{Region: "us-east-1", Ask: func(p waypost.Position) { asked <- p }}
	inFleet(t, cfg, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.Equal(t, api.Applied{Outcome: "none"}, applied(t, f, at(1, 5), true, time.Second), "there is no edge")
		for node, region := range map[string]waypost.Region{"a": "us-east-1", "b": "us-east-1", "c": "eu-west-1"} {
			require.NoError(t, tell(f, durable(node, region, at(1, 4))))
		}
		here, all := waits(t.Context(), f, at(1, 5), false, time.Second), waits(t.Context(), f, at(1, 5), true, time.Second)
		for range 3 {
			require.Equal(t, at(1, 5), <-asked)
		}
		start := time.Now()
		require.NoError(t, tell(f, durable("a", "us-east-1", at(1, 5))))
		early := durable("b", "us-east-1", at(1, 5))
		early.Synced = at(1, 4)
		require.NoError(t, tell(f, early))
		synctest.Wait()
		require.Empty(t, here, "what is applied can still be lost")
		require.NoError(t, tell(f, durable("b", "us-east-1", at(1, 6))))
		require.Equal(t, api.Applied{Outcome: "region", Edges: 2}, <-here)
		synctest.Wait()
		require.Empty(t, all)
		require.NoError(t, tell(f, durable("c", "eu-west-1", at(1, 5))))
		require.Equal(t, api.Applied{Outcome: "all", Edges: 3}, <-all)
		require.Zero(t, time.Since(start), "without any delay")
		require.Equal(t, api.Applied{Outcome: "all", Edges: 3}, applied(t, f, at(1, 5), true, time.Second))
	})
}

func TestFleet_WhoWaitsForTooLongLearnsForWhom(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, tell(f, durable("a", "us-east-1", at(1, 5))))
		require.NoError(t, tell(f, durable("b", "us-east-1", at(1, 4))))
		require.NoError(t, tell(f, durable("c", "us-east-1", at(2, 9))))
		start := time.Now()
		want := api.Applied{Outcome: "timeout", Edges: 1, Behind: []string{"b", "c"}}
		require.Equal(t, want, applied(t, f, at(1, 5), true, 2*time.Second), "positions of another history say nothing")
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestFleet_SilentEdgeHoldsNobodyUpAndIsNamed(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, tell(f, durable("a", "us-east-1", at(1, 5))))
		require.NoError(t, tell(f, durable("b", "us-east-1", at(1, 4))))
		leaving := durable("c", "us-east-1", at(1, 4))
		require.NoError(t, tell(f, leaving))
		out := waits(t.Context(), f, at(1, 5), true, 10*time.Second)
		leaving.Leaving = true
		require.NoError(t, tell(f, leaving))
		leaving.Leaving = false
		require.NoError(t, tell(f, leaving), "a report that was under way")
		start := time.Now()
		for len(out) == 0 {
			require.NoError(t, tell(f, durable("a", "us-east-1", at(1, 5))))
			time.Sleep(100 * time.Millisecond)
		}
		reachable := api.Applied{Outcome: "reachable", Edges: 1, Silent: []string{"b"}}
		require.Equal(t, reachable, <-out, "b may be serving, and c has stopped")
		require.Less(t, time.Since(start), 4*time.Second, "b is silent after three seconds")
		start = time.Now()
		require.Equal(t, reachable, applied(t, f, at(1, 5), true, 10*time.Second))
		require.Equal(t, api.Applied{Outcome: "region", Edges: 2}, applied(t, f, at(1, 4), false, 10*time.Second), "b has that one")
		require.Zero(t, time.Since(start), "at once")
		later(30 * time.Hour)
		require.NoError(t, tell(f, durable("a", "us-east-1", at(1, 5))))
		require.Equal(t, reachable, applied(t, f, at(1, 5), true, 10*time.Second), "however long it is silent")
	})
}

func TestFleet_ClientThatLeavesWaitsNoLonger(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, tell(f, durable("b", "us-east-1", at(1, 4))))
		ctx, cancel := context.WithCancel(t.Context())
		out := waits(ctx, f, at(1, 5), true, 10*time.Second)
		start := time.Now()
		cancel()
		require.Equal(t, api.Applied{Outcome: "timeout", Behind: []string{"b"}}, <-out)
		require.Zero(t, time.Since(start))
	})
}

// known is a store of progress that other processes have written.
type known struct{ nodes []controlplane.EdgeProgress }

func (known) NoteProgress(context.Context, []controlplane.EdgeProgress) error { return nil }

func (known) GiveUpEdge(context.Context, controlplane.Actor, string, time.Duration) error { return nil }

func (k *known) Progress(context.Context) ([]controlplane.EdgeProgress, error) { return k.nodes, nil }

// A control plane that was just started has heard nothing yet, and knows the edges by the
// store.
func TestFleet_WaitsForEdgesThatAreKnownFromBeforeTheStart(t *testing.T) {
	boots := &bootStore{}
	inFleet(t, fleet.Config{Region: "us-east-1", Boots: boots}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		for node, region := range map[string]waypost.Region{"a": "us-east-1", "b": "us-east-1", "far": "eu-west-1", "left": "us-east-1"} {
			r := durable(node, region, at(1, 5))
			require.NoError(t, tell(f, r))
			r.Leaving = node == "left"
			require.NoError(t, tell(f, r))
		}
	})
	for _, b := range boots.boots {
		require.NotZero(t, b.At)
	}
	inFleet(t, fleet.Config{Region: "us-east-1", Boots: boots}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		timeout := api.Applied{Outcome: "timeout", Behind: []string{"a", "b"}}
		require.Equal(t, timeout, applied(t, f, at(1, 5), false, time.Second))
		out := waits(t.Context(), f, at(1, 5), true, 2*time.Second)
		for _, node := range []string{"a", "far"} {
			require.Empty(t, out)
			require.NoError(t, tell(f, durable(node, "us-east-1", at(1, 5))))
			synctest.Wait()
		}
		require.Equal(t, api.Applied{Outcome: "timeout", Edges: 2, Behind: []string{"b"}}, <-out)
		later(21 * time.Second)
		for _, node := range []string{"a", "far"} {
			require.NoError(t, tell(f, durable(node, "us-east-1", at(1, 5))))
		}
		reachable := api.Applied{Outcome: "reachable", Edges: 2, Silent: []string{"b"}}
		require.Equal(t, reachable, applied(t, f, at(1, 5), true, time.Minute), "b does not come back")
		boots.gone("b")
		require.Equal(t, api.Applied{Outcome: "all", Edges: 2}, applied(t, f, at(1, 5), true, time.Minute))
		require.NoError(t, tell(f, durable("b", "us-east-1", at(1, 4))))
		require.Equal(t, api.Applied{Outcome: "timeout", Edges: 2, Behind: []string{"b"}}, applied(t, f, at(1, 5), true, time.Second),
			"it was not gone")
	})
}

// An edge reports before it serves; every control plane knows of it when it is answered.
func TestFleet_ReportIsKnownToAllControlPlanesWhenItIsAnswered(t *testing.T) {
	boots := &bootStore{}
	inFleet(t, fleet.Config{Region: "us-east-1", Boots: boots}, func(t *testing.T, f *fleet.Fleet, h *head) {
		h.move(at(1, 12), nil)
		r := durable("a", "us-east-1", at(1, 4))
		boots.fails(errors.New("the database is away"))
		require.Equal(t, waypost.EUnavailable, waypost.CodeOf(tell(f, r)))
		require.Equal(t, api.Applied{Outcome: "timeout", Behind: []string{"a"}}, applied(t, f, at(1, 5), true, time.Second))
		boots.fails(nil)
		r.Starting = true
		catchUp, err := f.Report(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, at(1, 12), catchUp, "all that was told without it")
		other := fleet.New(fleet.Config{Head: h, Region: "us-east-1", Boots: boots})
		require.Equal(t, api.Applied{Outcome: "timeout", Behind: []string{"a"}}, applied(t, other, at(1, 5), true, time.Second))
		r.Leaving = true
		require.NoError(t, tell(f, r))
		require.Equal(t, api.Applied{Outcome: "none"}, applied(t, other, at(1, 5), true, time.Second))
		boots.fails(errors.New("the database is away"))
		require.Equal(t, fleet.OutcomeTimeout, applied(t, other, at(1, 5), true, time.Second).Outcome, "nobody knows which edges there are")
	})
}

// An edge that restarts has another boot.
func TestFleet_BootFollowsTheOneBefore(t *testing.T) {
	boots := &bootStore{}
	inFleet(t, fleet.Config{Region: "us-east-1", Boots: boots}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		boot := func(n byte, seq uint64) fleet.EdgeReport {
			r := durable("a", "us-east-1", at(1, seq))
			r.Boot = waypost.BootID{n}
			return r
		}
		require.NoError(t, tell(f, boot(1, 4)))
		// In the same process.
		next := boot(2, 5)
		next.Continues = waypost.BootID{1}
		require.NoError(t, tell(f, next))
		all := api.Applied{Outcome: "all", Edges: 1}
		require.Equal(t, all, applied(t, f, at(1, 5), true, time.Second), "at once")

		// After a crash: until the one before would have reported, it may be another edge.
		start := time.Now()
		require.NoError(t, tell(f, boot(3, 6)))
		out := waits(t.Context(), f, at(1, 6), true, 10*time.Second)
		for len(out) == 0 {
			require.NoError(t, tell(f, boot(3, 6)))
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, all, <-out)
		require.InDelta(t, 3, time.Since(start).Seconds(), 0.5)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.KeepProgress(ctx, &known{}, time.Second) }()
		later(11 * time.Second)
		cancel()
		<-done
		require.Len(t, boots.boots, 1, "the store forgets them")
	})
}

// Two edges with one name, such as an edge and a copy of its disk.
func TestFleet_TwinIsBehindAndShown(t *testing.T) {
	boots := &bootStore{}
	var logged bytes.Buffer
	cfg := fleet.Config{Region: "us-east-1", Boots: boots, Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	inFleet(t, cfg, func(t *testing.T, f *fleet.Fleet, _ *head) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.KeepProgress(ctx, &known{}, time.Second) }()
		defer func() { cancel(); <-done }()
		both := func(younger, older uint64) {
			for n, seq := range map[byte]uint64{1: older, 2: younger} {
				r := durable("a", "us-east-1", at(1, seq))
				r.Boot, r.StartedAt, r.Addr = waypost.BootID{n}, time.Unix(int64(n), 0), fmt.Sprintf("10.0.0.%d:80", n)
				require.NoError(t, tell(f, r))
			}
		}
		both(5, 4)
		for range 10 {
			want := api.Applied{Outcome: "timeout", Edges: 1, Behind: []string{"a"}}
			require.Equal(t, want, applied(t, f, at(1, 5), true, time.Millisecond), "the younger one alone is not all")
			time.Sleep(300 * time.Millisecond)
			both(5, 4)
		}
		for range 10 {
			later(time.Second)
			both(5, 5)
		}
		behind := api.Applied{Outcome: "timeout", Behind: []string{"a"}}
		require.Equal(t, behind, applied(t, f, at(1, 5), true, time.Millisecond))
		require.Equal(t, []string{"10.0.0.1:80"}, only(t, f).Twins)
		require.Equal(t, 1, strings.Count(logged.String(), "found several edges that report under one name"))

		// Another control plane, which one of them cannot reach.
		other := fleet.New(fleet.Config{Head: &head{}, Region: "us-east-1", Boots: boots})
		later(21 * time.Second)
		r := durable("a", "us-east-1", at(1, 5))
		r.Boot = waypost.BootID{2}
		require.NoError(t, tell(other, r))
		reachable := api.Applied{Outcome: "reachable", Edges: 1, Silent: []string{"a"}}
		require.Equal(t, reachable, applied(t, other, at(1, 5), true, time.Millisecond), "it may be serving")
		keeping, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); other.KeepProgress(keeping, &known{}, time.Second) }()
		for range 15 {
			later(time.Second)
			require.NoError(t, tell(other, r))
		}
		stop()
		<-kept
		require.Equal(t, reachable, applied(t, other, at(1, 5), true, time.Millisecond))
	})
}

// A new boot may have followed either of two twins, so that neither is dropped.
func TestFleet_BootFollowsNoTwin(t *testing.T) {
	boots := &bootStore{}
	inFleet(t, fleet.Config{Region: "us-east-1", Boots: boots}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		report := func(n, continues byte, seq uint64) {
			r := durable("a", "us-east-1", at(1, seq))
			r.Boot, r.Continues = waypost.BootID{n}, waypost.BootID{continues}
			require.NoError(t, tell(f, r))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.KeepProgress(ctx, &known{}, time.Second) }()
		defer func() { cancel(); <-done }()
		for range 10 {
			report(1, 0, 5)
			report(2, 0, 5)
			later(time.Second)
		}
		// One is cut off. The other one crashes, and starts again.
		for range 30 {
			report(3, 0, 6)
			later(time.Second)
		}
		reachable := api.Applied{Outcome: "reachable", Edges: 1, Silent: []string{"a"}}
		require.Equal(t, reachable, applied(t, f, at(1, 6), true, time.Second))
		require.Len(t, boots.boots, 3)
	})
	inFleet(t, fleet.Config{Region: "us-east-1", Boots: &bootStore{}}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		report := func(n, continues byte, seq uint64) {
			r := durable("a", "us-east-1", at(1, seq))
			r.Boot, r.Continues = waypost.BootID{n}, waypost.BootID{continues}
			require.NoError(t, tell(f, r))
		}
		for range 10 {
			report(1, 0, 5)
			report(2, 0, 5)
			later(time.Second)
		}
		for range 30 {
			report(3, 1, 6)
			later(time.Second)
		}
		reachable := api.Applied{Outcome: "reachable", Edges: 1, Silent: []string{"a"}}
		require.Equal(t, reachable, applied(t, f, at(1, 6), true, time.Second), "a boot that continues another one is the same twin")
	})
}

// Clocks of edges that were set back hide no boot.
func TestFleet_EdgeWhoseClockWasSetBackIsHeard(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, tell(f, durable("a", "us-east-1", at(1, 5))))
		r := durable("a", "us-east-1", at(1, 4))
		r.Boot, r.StartedAt = waypost.BootID{2}, time.Now().Add(-time.Hour)
		require.NoError(t, tell(f, r))
		require.Equal(t, api.Applied{Outcome: "timeout", Edges: 1, Behind: []string{"a"}}, applied(t, f, at(1, 5), true, time.Second))
	})
}

func TestFleet_EdgeThatAnotherControlPlaneHearsIsNotLeftOut(t *testing.T) {
	boots := &bootStore{}
	inFleet(t, fleet.Config{Region: "us-east-1", Boots: boots}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, tell(f, durable("moved", "us-east-1", at(1, 5))))
		require.NoError(t, tell(f, durable("died", "us-east-1", at(1, 4))))
		later(10 * time.Second)
		now := time.Now()
		for node, stopped := range map[string]bool{"moved": false, "other": false, "other-left": true} {
			require.NoError(t, boots.NoteBoots(t.Context(), []fleet.Boot{{
				Node: node, ID: waypost.BootID{1}, Region: "us-east-1", First: now.Add(-time.Hour), At: now, Stopped: stopped,
			}}))
		}
		want := api.Applied{Outcome: "timeout", Edges: 1, Behind: []string{"other"}, Silent: []string{"died"}}
		require.Equal(t, want, applied(t, f, at(1, 5), true, time.Second), "moved had it before")
		want = api.Applied{Outcome: "timeout", Behind: []string{"moved", "other"}, Silent: []string{"died"}}
		require.Equal(t, want, applied(t, f, at(1, 6), true, time.Second))
	})
}
