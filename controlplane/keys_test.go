package controlplane_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/keyrange"
)

var operator = controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}

func change(t *testing.T, s *system, steps ...controlplane.RangeStep) []controlplane.StepDone {
	t.Helper()
	done, err := s.KeyRanges.ChangeRanges(t.Context(), operator, controlplane.RangeChange{Steps: steps})
	require.NoError(t, err)
	return done
}

func TestKeyRanges_RangesThatMoveUnderCreatesAndReservationsFailNoneOfThem(t *testing.T) {
	s := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := make(map[waypost.Code]bool)
	take := func(codes ...waypost.Code) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range codes {
			if seen[c] {
				t.Errorf("code %s was issued twice", c)
			}
			seen[c] = true
		}
	}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if w%2 == 0 {
					l, _, err := s.Links.Create(t.Context(), actor, wish())
					if err != nil {
						t.Error(err)
						return
					}
					take(l.Code)
					continue
				}
				codes, err := s.KeyRanges.ReserveKeys(t.Context(), actor, "printer", 37)
				if err != nil {
					t.Error(err)
					return
				}
				take(codes...)
			}
		})
	}
	fenced := 0
	for deadline := time.Now().Add(time.Minute); fenced < 10 && time.Now().Before(deadline); {
		space, err := s.KeyRanges.KeySpace(t.Context(), operator)
		require.NoError(t, err)
		for _, r := range space.Ranges {
			if r.State == controlplane.RangeLive && len(r.Leases) > 0 {
				fenced += change(t, s, controlplane.RangeStep{Action: controlplane.MoveRange, Range: r.ID, Region: "us"})[0].Fenced
				change(t, s, controlplane.RangeStep{Action: controlplane.MoveRange, Range: r.ID, Region: "eu"})
				break
			}
		}
	}
	cancel()
	wg.Wait()
	require.GreaterOrEqual(t, fenced, 10)
	require.NotEmpty(t, seen)
}

func TestKeyRanges_OnlyOperatorsSeeAndChangeRanges(t *testing.T) {
	s := start(t, nil)
	for name, a := range map[string]controlplane.Actor{
		"a key without admin":        {Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeLinksWrite}},
		"an admin of another tenant": {Workspace: 2, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}},
		"nobody":                     {},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.KeyRanges.KeySpace(t.Context(), a)
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
			_, err = s.KeyRanges.ChangeRanges(t.Context(), a,
				controlplane.RangeChange{Steps: []controlplane.RangeStep{{
					Action: controlplane.DrainRange,
					Range:  1,
				}}})
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
			_, err = s.KeyRanges.PlanRanges(t.Context(), a)
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
			_, err = s.KeyRanges.Decode(t.Context(), a, "0000000")
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
		})
	}
}

func TestKeyRanges_CustomCodeOfAGeneratedShapeIsRefusedOrNeverIssued(t *testing.T) {
	s := start(t, nil)
	first, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	coder := newCoder(t)
	prefix, counter, ok := coder.Decode(first.Code)
	require.True(t, ok)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom(string(coder.Encode(prefix, counter+1)))))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err), "it may be issued this very moment")
	require.ErrorContains(t, err, "form of a generated one")

	ahead := coder.Encode(prefix, counter+2000)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom(string(ahead))))
	require.NoError(t, err)
	d, err := s.KeyRanges.Decode(t.Context(), operator, string(ahead))
	require.NoError(t, err)
	require.Equal(t, controlplane.CounterBurned, d.State)
	require.Equal(t, [2]int64{int64(prefix), counter + 2000}, [2]int64{int64(d.Prefix), d.Counter})
	for range 3 {
		codes, err := s.KeyRanges.ReserveKeys(t.Context(), actor, "all", 1000)
		require.NoError(t, err)
		require.NotContains(t, codes, ahead)
	}
	_, err = s.KeyRanges.Decode(t.Context(), operator, "not-one")
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
}

func TestKeyRanges_NoServiceGetsAKeyThatIsSomeLinksAlready(t *testing.T) {
	s := start(t, nil)
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (2, 'Two', 'two')`)
	require.NoError(t, err)
	first, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	prefix, counter, ok := newCoder(t).Decode(first.Code)
	require.True(t, ok)
	var old []waypost.Code // custom codes from before codes burned anything
	for i := range int64(300) {
		if i%3 == 0 {
			old = append(old, newCoder(t).Encode(prefix, counter+1+i))
		}
	}
	_, err = s.hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url) SELECT 2, 1, c, 'https://example.com/' FROM unnest($1::text[]) c`, old)
	require.NoError(t, err)
	codes, err := s.KeyRanges.ReserveKeys(t.Context(), actor, "printer", 400)
	require.NoError(t, err)
	require.Len(t, codes, 400)
	for _, c := range old {
		require.NotContains(t, codes, c)
	}
	stats, err := s.KeyRanges.KeyStats(t.Context(), actor)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"printer": 400}, stats.Reserved)
}

func newCoder(t *testing.T) *keyrange.Coder {
	t.Helper()
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	return keyrange.NewCoder(space, [32]byte{})
}

func TestKeyRanges_LeasesGrowWithTheDemandAndShrinkAgain(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	store := &counting{asked: make(chan int64)}
	m := controlplane.NewMinter(controlplane.MinterConfig{Store: store, Coder: newCoder(t), Region: "eu", Node: "n/1", Size: 100, Now: clock})
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	size := <-store.asked
	sizes := []int64{size}
	for i := range 9 {
		require.Eventually(t, func() bool { return m.Remaining() == size }, time.Minute, time.Millisecond)
		if i > 4 {
			mu.Lock()
			now = now.Add(time.Hour)
			mu.Unlock()
		}
		_, err := m.MintMany(t.Context(), int(size)) // all that is at hand
		require.NoError(t, err)
		size = <-store.asked
		sizes = append(sizes, size)
	}
	require.Equal(t, []int64{100, 100, 200, 400, 800, 1600, 3200, 1600, 800, 400}, sizes)
}

// counting grants every lease, and reports its size.
type counting struct {
	asked chan int64
	next  int64
}

func (c *counting) TakeLease(ctx context.Context, _ waypost.Region, _ string, size int64, _ []int64) (controlplane.Lease, error) {
	select {
	case c.asked <- size:
	case <-ctx.Done():
		return controlplane.Lease{}, ctx.Err()
	}
	c.next += size
	return controlplane.Lease{ID: c.next, Range: 1, Lo: c.next - size, Hi: c.next, Epoch: 1, Generation: 1}, nil
}

func (c *counting) ReturnLease(context.Context, controlplane.Lease, int64) error { return nil }

func (c *counting) Unleased(context.Context, waypost.Region) (int64, error) { return 0, nil }

func TestKeyRanges_WhatIsIssuedIsCountedOnceByRange(t *testing.T) {
	s := start(t, nil)
	_, err := s.KeyRanges.ReserveKeys(t.Context(), actor, "x", 250)
	require.NoError(t, err)
	for i := range 3 {
		var sum int64
		for _, n := range s.minter.TakeIssued() {
			sum += n
		}
		require.Equal(t, []int64{250, 0, 1}[i], sum, fmt.Sprint(i))
		if i == 1 {
			_, err := s.minter.Mint(t.Context())
			require.NoError(t, err)
		}
	}
	require.Equal(t, int64(251), s.minter.Minted())
}

func TestKeyRanges_PlanMakesAllRegionsLastEquallyLongAndIsRefusedOnceItIsStale(t *testing.T) {
	s := start(t, nil)
	require.NoError(t, s.db.EnsureRanges(t.Context(), []waypost.Region{"eu", "us", "ap"}))
	space, err := s.KeyRanges.KeySpace(t.Context(), operator)
	require.NoError(t, err)
	for _, r := range space.Ranges {
		rate := int64(1000)
		if r.Region == "us" {
			rate *= 50
		}
		require.NoError(t, s.db.Beat(t.Context(), "n/1", r.Region, map[int64]int64{r.ID: rate}))
	}
	plan, err := s.KeyRanges.PlanRanges(t.Context(), operator)
	require.NoError(t, err)
	require.Len(t, plan.Steps, 2, plan.Reason)
	dry, err := s.KeyRanges.ChangeRanges(t.Context(), operator, controlplane.RangeChange{
		Steps:       plan.Steps,
		Fingerprint: plan.Fingerprint, DryRun: true,
	})
	require.NoError(t, err)
	require.Len(t, dry, 2)
	_, err = s.KeyRanges.ChangeRanges(t.Context(), operator, controlplane.RangeChange{Steps: plan.Steps, Fingerprint: plan.Fingerprint})
	require.NoError(t, err)
	space, err = s.KeyRanges.KeySpace(t.Context(), operator)
	require.NoError(t, err)
	var least, most float64
	for _, supply := range space.Supplies() {
		minutes, ok := supply.MinutesLeft()
		require.True(t, ok)
		if least == 0 || minutes < least {
			least = minutes
		}
		most = max(most, minutes)
	}
	require.LessOrEqual(t, most/least, 1.1)

	_, err = s.KeyRanges.ChangeRanges(t.Context(), operator, controlplane.RangeChange{Steps: plan.Steps, Fingerprint: plan.Fingerprint})
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	plan, err = s.KeyRanges.PlanRanges(t.Context(), operator)
	require.NoError(t, err)
	require.Empty(t, plan.Steps)
	require.NotEmpty(t, plan.Reason)
}
