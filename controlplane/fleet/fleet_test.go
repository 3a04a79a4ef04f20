package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane/fleet"
	"waypost/replication"
)

// head is a changelog whose head the test moves.
type head struct {
	mu  sync.Mutex
	at  waypost.Position
	err error
}

func (h *head) Head(context.Context) (replication.Head, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return replication.Head{Position: h.at}, h.err
}

func (h *head) move(p waypost.Position, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.err = p, err
}

func at(ordinal uint32, seq uint64) waypost.Position {
	return waypost.Position{Epoch: waypost.Epoch{Ordinal: ordinal, ID: waypost.EpochID{byte(ordinal)}}, Seq: seq, Stamp: seq}
}

// inFleet runs a test on a running fleet, in time of its own.
func inFleet(t *testing.T, cfg fleet.Config, test func(t *testing.T, f *fleet.Fleet, h *head)) {
	synctest.Test(t, func(t *testing.T) {
		h := &head{at: at(1, 10)}
		cfg.Head = h
		if cfg.Boots == nil {
			cfg.Boots = &bootStore{}
		}
		f := fleet.New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()
		synctest.Wait()
		test(t, f, h)
		cancel()
		<-done
	})
}

// tell reports.
func tell(f *fleet.Fleet, r fleet.EdgeReport) error {
	_, err := f.Report(context.Background(), r)
	return err
}

// bootStore is a store of boots, which several fleets may share, and which may be away.
type bootStore struct {
	mu    sync.Mutex
	boots map[string]fleet.Boot
	err   error
}

func (s *bootStore) NoteBoots(_ context.Context, boots []fleet.Boot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boots == nil {
		s.boots = make(map[string]fleet.Boot)
	}
	for _, b := range boots {
		if s.err != nil {
			return s.err
		}
		if old, known := s.boots[b.Node+string(b.ID[:])]; known {
			b.First, b.Stopped = old.First, b.Stopped || old.Stopped
		}
		s.boots[b.Node+string(b.ID[:])] = b
		delete(s.boots, b.Node+string(b.Continues[:]))
	}
	return nil
}

func (s *bootStore) Boots(context.Context) (all []fleet.Boot, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.boots {
		if !b.Stopped {
			all = append(all, b)
		}
	}
	return all, s.err
}

func (s *bootStore) DropBoots(_ context.Context, followed []fleet.Boot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range followed {
		if s.boots[b.Node+string(b.ID[:])].At.Equal(b.At) {
			delete(s.boots, b.Node+string(b.ID[:]))
		}
	}
	return s.err
}

// gone declares an edge gone.
func (s *bootStore) gone(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.boots {
		if b.Node == node {
			delete(s.boots, key)
		}
	}
}

// fails makes the store answer with an error, or nil as before.
func (s *bootStore) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func report(node string, p waypost.Position) fleet.EdgeReport {
	r := fleet.EdgeReport{Boot: waypost.BootID{1}, Position: p}
	r.Node, r.Region, r.Version, r.StartedAt = node, "us-east-1", "1.2.3", time.Now()
	return r
}

// only returns the one edge of a fleet.
func only(t *testing.T, f *fleet.Fleet) fleet.EdgeStatus {
	t.Helper()
	all := f.Edges()
	require.Len(t, all, 1)
	return all[0]
}

// later lets time pass, and what happens in it happen.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestFleet_EdgeIsAliveWhileItReportsAndSilentThreeSecondsLater(t *testing.T) {
	inFleet(t, fleet.Config{}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.Empty(t, f.Edges())
		first := time.Now()
		for range 10 {
			require.NoError(t, tell(f, report("edge-a", at(1, 10))))
			e := only(t, f)
			require.Equal(t, fleet.EdgeAlive, e.State)
			require.Equal(t, first.UTC(), e.Since)
			require.Equal(t, fleet.ViaReport, e.Via)
			later(time.Second)
		}
		seen := time.Now().Add(-time.Second)
		later(2 * time.Second)
		require.Equal(t, fleet.EdgeAlive, only(t, f).State)
		later(time.Millisecond)
		e := only(t, f)
		require.Equal(t, fleet.EdgeSilent, e.State)
		require.Equal(t, seen.UTC(), e.LastSeen)
		require.Equal(t, seen.UTC(), e.Since, "since when it is not seen")

		later(10 * time.Minute)
		require.Equal(t, fleet.EdgeGone, only(t, f).State)
		require.NoError(t, tell(f, report("edge-a", at(1, 10))))
		e = only(t, f)
		require.Equal(t, fleet.EdgeAlive, e.State)
		require.Equal(t, time.Now().UTC(), e.Since)

		later(24*time.Hour + time.Second)
		require.Empty(t, f.Edges(), "forgotten")
	})
}

func TestFleet_EdgeThatSaysGoodbyeIsGoneAtOnce(t *testing.T) {
	inFleet(t, fleet.Config{}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		r := report("edge-a", at(1, 10))
		r.Leaving = true
		require.NoError(t, tell(f, r))
		require.Equal(t, fleet.EdgeGone, only(t, f).State)
		r.Leaving, r.Boot = false, waypost.BootID{2}
		require.NoError(t, tell(f, r))
		require.Equal(t, fleet.EdgeAlive, only(t, f).State)
	})
}

func TestFleet_LagIsToldInChangesAndInTime(t *testing.T) {
	inFleet(t, fleet.Config{}, func(t *testing.T, f *fleet.Fleet, h *head) {
		lag := func(p waypost.Position) fleet.EdgeStatus {
			require.NoError(t, tell(f, report("edge-a", p)))
			return only(t, f)
		}
		requireLag := func(p waypost.Position, changes uint64, seconds float64, why ...any) {
			t.Helper()
			e := lag(p)
			require.NotNil(t, e.LagChanges)
			require.Equal(t, changes, *e.LagChanges, why...)
			require.InDelta(t, seconds, *e.LagSeconds, 0.5, why...)
		}
		requireLag(at(1, 10), 0, 0)
		later(time.Minute)
		requireLag(at(1, 10), 0, 0, "at the head there is no lag, however old that is")

		h.move(at(1, 15), nil)
		later(500 * time.Millisecond)
		requireLag(at(1, 10), 5, 0)
		later(20 * time.Second)
		h.move(at(1, 16), nil)
		later(10 * time.Second)
		requireLag(at(1, 10), 6, 30)
		requireLag(at(1, 14), 2, 30)
		requireLag(at(1, 15), 1, 10)
		requireLag(at(1, 17), 0, 0, "ahead of the last look at the head")

		require.Nil(t, lag(waypost.Position{}).LagChanges, "without a replica")
		require.Nil(t, lag(at(2, 16)).LagChanges, "in another history")

		h.move(at(2, 3), nil)
		later(500 * time.Millisecond)
		requireLag(at(2, 2), 1, 0)
		require.Nil(t, lag(at(1, 16)).LagChanges, "in the history before")

		h.move(at(2, 3), errors.New("the database is away"))
		later(10 * time.Second)
		requireLag(at(2, 2), 1, 10, "against the last head that was seen")
	})
}

func TestFleet_OldReplicaIsNotSaidToLackNothing(t *testing.T) {
	inFleet(t, fleet.Config{}, func(t *testing.T, f *fleet.Fleet, h *head) {
		told := func(p waypost.Position, age time.Duration) fleet.EdgeStatus {
			r := report("edge-a", p)
			r.AgeSeconds = age.Seconds()
			require.NoError(t, tell(f, r))
			return only(t, f)
		}
		require.NotNil(t, told(at(1, 10), fleet.MaxAge).LagChanges)
		later(time.Second)
		e := only(t, f)
		require.Nil(t, e.LagChanges, "it is a second older now")
		require.Equal(t, 6.0, *e.AgeSeconds)
		require.Nil(t, told(at(1, 10), time.Hour).LagChanges)

		h.move(at(1, 15), nil)
		later(time.Second)
		e = told(at(1, 10), time.Hour)
		require.Equal(t, new(uint64(5)), e.LagChanges)
	})
}

func TestFleet_LagOfADayIsStillToldInTime(t *testing.T) {
	inFleet(t, fleet.Config{Poll: 5 * time.Second}, func(t *testing.T, f *fleet.Fleet, h *head) {
		start := time.Now()
		const last = 10 + 24*60*60/5
		for seq := uint64(11); seq <= last; seq++ {
			h.move(at(1, seq), nil)
			later(5 * time.Second)
		}
		for _, seq := range []uint64{10, 1_000, 8_000, 17_000, last - 1} {
			require.NoError(t, tell(f, report("edge-a", at(1, seq))))
			e := only(t, f)
			require.Equal(t, last-seq, *e.LagChanges)
			behind := (time.Since(start) - time.Duration(seq-10)*5*time.Second).Seconds()
			require.InDelta(t, behind, *e.LagSeconds, 5+behind/60)
		}
	})
}

func TestFleet_ReportsOfAnEarlierBootDoNotHideTheLiveOne(t *testing.T) {
	inFleet(t, fleet.Config{}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		old := report("edge-a", at(1, 5))
		later(time.Second)
		young := report("edge-a", at(1, 9))
		young.Boot = waypost.BootID{2}
		require.NoError(t, tell(f, young))
		require.NoError(t, tell(f, old))
		require.Equal(t, &api.Sequence{Epoch: 1, Seq: 9}, only(t, f).Position)
		later(4 * time.Second)
		require.NoError(t, tell(f, old))
		require.Equal(t, &api.Sequence{Epoch: 1, Seq: 5}, only(t, f).Position, "nobody else is there")
	})
}

func TestFleet_GossipFillsInForEdgesThatDoNotReport(t *testing.T) {
	var hints []fleet.FleetHint
	cfg := fleet.Config{Hints: func() []fleet.FleetHint { return hints }}
	inFleet(t, cfg, func(t *testing.T, f *fleet.Fleet, h *head) {
		h.move(at(1, 20), nil)
		later(time.Second)
		began := time.Now()
		hint := func(p waypost.Position) fleet.FleetHint {
			return fleet.FleetHint{
				Node: "edge-a", Region: "us-east-1", Boot: waypost.BootID{1}, Position: p, Alive: true,
				StartedAt: began, Since: began, LastHeard: time.Now(),
			}
		}
		hints = []fleet.FleetHint{hint(at(1, 18))}
		e := only(t, f)
		require.Equal(t, fleet.EdgeAlive, e.State)
		require.Equal(t, fleet.ViaGossip, e.Via)
		require.Equal(t, new(uint64(2)), e.LagChanges)
		require.Nil(t, e.ClicksPending)

		require.NoError(t, tell(f, report("edge-a", at(1, 19))))
		hints = []fleet.FleetHint{hint(at(9, 99))}
		e = only(t, f)
		require.Equal(t, fleet.ViaReport, e.Via, "its own word counts")
		require.Equal(t, &api.Sequence{Epoch: 1, Seq: 19}, e.Position)

		later(4 * time.Second)
		e = only(t, f)
		require.Equal(t, fleet.EdgeSilent, e.State, "gossip has not heard of it either")
		hints = []fleet.FleetHint{hint(at(1, 20))}
		e = only(t, f)
		require.Equal(t, fleet.EdgeAlive, e.State, "cut off from us, but not from the others")
		require.Equal(t, fleet.ViaGossip, e.Via)
		require.Equal(t, &api.Sequence{Epoch: 1, Seq: 20}, e.Position)

		dead := hint(at(1, 20))
		dead.Alive = false
		hints = []fleet.FleetHint{dead}
		require.Equal(t, fleet.EdgeSilent, only(t, f).State)
		dead.Left = true
		hints = []fleet.FleetHint{dead}
		require.Equal(t, fleet.EdgeGone, only(t, f).State)
	})
}

func TestFleet_OfTwoBootsInTheGossipTheLiveOneIsShown(t *testing.T) {
	old := fleet.FleetHint{Node: "edge-a", Position: at(1, 1), StartedAt: time.Unix(1, 0)}
	young := fleet.FleetHint{Node: "edge-a", Position: at(1, 2), StartedAt: time.Unix(2, 0)}
	for _, hints := range [][]fleet.FleetHint{{old, young}, {young, old}} {
		for i := range hints {
			hints[i].LastHeard = time.Now()
		}
		f := fleet.New(fleet.Config{Head: &head{}, Hints: func() []fleet.FleetHint { return hints }})
		require.Equal(t, &api.Sequence{Epoch: 1, Seq: 2}, only(t, f).Position)
		for i := range hints {
			hints[i].Alive = hints[i].StartedAt.Unix() == 1
		}
		require.Equal(t, &api.Sequence{Epoch: 1, Seq: 1}, only(t, f).Position)
	}
}

func TestFleet_FleetIsBounded(t *testing.T) {
	inFleet(t, fleet.Config{Max: 3}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		for i := range 3 {
			require.NoError(t, tell(f, report(fmt.Sprintf("edge-%d", i), at(1, 1))))
			later(time.Second)
		}
		require.Equal(t, waypost.EUnavailable, waypost.CodeOf(tell(f, report("edge-3", at(1, 1)))))
		later(time.Second)
		require.NoError(t, tell(f, report("edge-3", at(1, 1))), "the first is silent by now")
		var nodes []string
		for _, e := range f.Edges() {
			nodes = append(nodes, e.Node)
		}
		require.Equal(t, []string{"edge-1", "edge-2", "edge-3"}, nodes)
	})
}

func TestFleet_LocatesUnlessEveryEdgeReportsThatItCannot(t *testing.T) {
	inFleet(t, fleet.Config{}, func(t *testing.T, f *fleet.Fleet, _ *head) {
		require.True(t, f.Locates(), "no edge is known")
		require.NoError(t, tell(f, report("eu-1", at(1, 10))))
		require.False(t, f.Locates())
		with := report("eu-2", at(1, 10))
		with.PlacesBuilt = new(time.Now())
		require.NoError(t, tell(f, with))
		require.True(t, f.Locates())
		built := map[string]bool{}
		for _, e := range f.Edges() {
			built[e.Node] = e.PlacesBuilt != nil
		}
		require.Equal(t, map[string]bool{"eu-1": false, "eu-2": true}, built)
		with.Leaving = true
		require.NoError(t, tell(f, with))
		require.False(t, f.Locates(), "the other one has left")
	})
}
