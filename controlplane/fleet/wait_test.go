package fleet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
)

// durable is a report by an edge of a region that has p on its disk.
func durable(node string, region waypost.Region, p waypost.Position) fleet.EdgeReport {
	r := report(node, p)
	r.Region, r.Synced = region, p
	return r
}

// waits waits in the background, and returns the result.
func waits(ctx context.Context, f *fleet.Fleet, p waypost.Position, everywhere bool,
	most time.Duration,
) <-chan fleet.Applied {
	out := make(chan fleet.Applied, 1)
	go func() { out <- f.WaitApplied(ctx, p, everywhere, most) }()
	synctest.Wait()
	return out
}

func TestFleet_WhoWaitsIsToldAsSoonAsTheEdgesHaveIt(t *testing.T) {
	asked := make(chan waypost.Position, 10)
	cfg := fleet.Config{Region: "us-east-1", Ask: func(p waypost.Position) { asked <- p }}
	inFleet(t, cfg, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.Equal(t, fleet.Applied{}, f.WaitApplied(t.Context(), at(1, 5), true, time.Second), "there is no edge")
		for node, region := range map[string]waypost.Region{"a": "us-east-1", "b": "us-east-1", "c": "eu-west-1"} {
			require.NoError(t, f.Report(durable(node, region, at(1, 4))))
		}
		here, all := waits(t.Context(), f, at(1, 5), false, time.Second), waits(t.Context(), f, at(1, 5), true, time.Second)
		require.Equal(t, at(1, 5), <-asked)
		require.Equal(t, at(1, 5), <-asked)
		start := time.Now()
		require.NoError(t, f.Report(durable("a", "us-east-1", at(1, 5))))
		applied := durable("b", "us-east-1", at(1, 5))
		applied.Synced = at(1, 4)
		require.NoError(t, f.Report(applied))
		synctest.Wait()
		require.Empty(t, here, "what is applied can still be lost")
		require.NoError(t, f.Report(durable("b", "us-east-1", at(1, 6))))
		require.Equal(t, fleet.Applied{Edges: 2}, <-here)
		synctest.Wait()
		require.Empty(t, all)
		require.NoError(t, f.Report(durable("c", "eu-west-1", at(1, 5))))
		require.Equal(t, fleet.Applied{Edges: 3}, <-all)
		require.Zero(t, time.Since(start), "without any delay")
		require.Equal(t, fleet.Applied{Edges: 3}, f.WaitApplied(t.Context(), at(1, 5), true, time.Second))
	})
}

func TestFleet_WhoWaitsForTooLongLearnsForWhom(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, f.Report(durable("a", "us-east-1", at(1, 5))))
		require.NoError(t, f.Report(durable("b", "us-east-1", at(1, 4))))
		require.NoError(t, f.Report(durable("c", "us-east-1", at(2, 9))))
		start := time.Now()
		require.Equal(t, fleet.Applied{Edges: 1, Behind: []string{"b", "c"}}, f.WaitApplied(t.Context(), at(1, 5), true, 2*time.Second),
			"positions of another history say nothing")
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestFleet_EdgeThatDiesOrLeavesHoldsNobodyUp(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, f.Report(durable("a", "us-east-1", at(1, 5))))
		require.NoError(t, f.Report(durable("b", "us-east-1", at(1, 4))))
		leaving := durable("c", "us-east-1", at(1, 4))
		require.NoError(t, f.Report(leaving))
		out := waits(t.Context(), f, at(1, 5), true, 10*time.Second)
		leaving.Leaving = true
		require.NoError(t, f.Report(leaving))
		start := time.Now()
		for len(out) == 0 {
			require.NoError(t, f.Report(durable("a", "us-east-1", at(1, 5))))
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, fleet.Applied{Edges: 1}, <-out)
		require.Less(t, time.Since(start), 4*time.Second, "b is silent after three seconds")
	})
}

func TestFleet_ClientThatLeavesWaitsNoLonger(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.NoError(t, f.Report(durable("b", "us-east-1", at(1, 4))))
		ctx, cancel := context.WithCancel(t.Context())
		out := waits(ctx, f, at(1, 5), true, 10*time.Second)
		start := time.Now()
		cancel()
		require.Equal(t, fleet.Applied{Behind: []string{"b"}}, <-out)
		require.Zero(t, time.Since(start))
	})
}

// known is a store of progress that other processes have written.
type known struct{ nodes []controlplane.EdgeProgress }

func (known) NoteProgress(context.Context, []controlplane.EdgeProgress) error { return nil }

func (known) GiveUpEdge(context.Context, controlplane.Actor, string, time.Duration) error { return nil }

func (k *known) Progress(context.Context) ([]controlplane.EdgeProgress, error) { return k.nodes, nil }

func TestFleet_WaitsForEdgesThatAreKnownFromBeforeTheStart(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		now := time.Now()
		present, err := f.Expect(t.Context(), &known{[]controlplane.EdgeProgress{
			{Node: "a", Region: "us-east-1", At: now.Add(-2 * time.Second)},
			{Node: "clicks-only", At: now},
			{Node: "far", Region: "eu-west-1", At: now.Add(-time.Hour)},
			{Node: "left", Region: "us-east-1", At: now.Add(-time.Hour), Left: true},
			{Node: "restarts", Region: "us-east-1", At: now.Add(-10 * time.Second), Left: true},
		}})
		require.NoError(t, err)
		require.Len(t, present, 2)
		require.Equal(t, fleet.Applied{Behind: []string{"a", "restarts"}}, f.WaitApplied(t.Context(), at(1, 5), false, time.Second))
		out := waits(t.Context(), f, at(1, 5), true, time.Second)
		for _, node := range []string{"a", "far", "restarts"} {
			require.Empty(t, out)
			require.NoError(t, f.Report(durable(node, "us-east-1", at(1, 5))))
			synctest.Wait()
		}
		require.Equal(t, fleet.Applied{Edges: 3}, <-out)
	})
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		dead := controlplane.EdgeProgress{Node: "dead", Region: "us-east-1", At: time.Now().Add(-time.Minute)}
		_, err := f.Expect(t.Context(), &known{[]controlplane.EdgeProgress{dead}})
		require.NoError(t, err)
		start := time.Now()
		require.Equal(t, fleet.Applied{}, f.WaitApplied(t.Context(), at(1, 5), true, time.Minute))
		require.LessOrEqual(t, time.Since(start), 6*time.Second, "one that is dead is waited for a while only")
	})
}

func TestFleet_EdgeThatAnotherControlPlaneHearsIsNotLeftOut(t *testing.T) {
	inFleet(t, fleet.Config{Region: "us-east-1"}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		store := &known{}
		_, err := f.Expect(t.Context(), store)
		require.NoError(t, err)
		require.NoError(t, f.Report(durable("moved", "us-east-1", at(1, 5))))
		require.NoError(t, f.Report(durable("died", "us-east-1", at(1, 5))))
		died := time.Now()
		later(10 * time.Second)
		now := time.Now()
		store.nodes = []controlplane.EdgeProgress{
			{Node: "died", Region: "us-east-1", At: died},
			{Node: "moved", Region: "us-east-1", At: now},
			{Node: "other", Region: "us-east-1", At: now},
			{Node: "other-left", Region: "us-east-1", At: now, Left: true},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.KeepProgress(ctx, store, time.Hour) }()
		synctest.Wait()
		require.Equal(t, fleet.Applied{Behind: []string{"moved", "other"}}, f.WaitApplied(t.Context(), at(1, 5), true, time.Second))
		cancel()
		<-done
	})
}
