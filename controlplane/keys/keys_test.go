package keys_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
)

func change(t *testing.T, s *system, steps ...api.RangeStep) []api.StepDone {
	t.Helper()
	done, err := s.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: steps})
	require.NoError(t, err)
	return done
}

func TestRanges_RangesThatMoveUnderCreatesAndReservationsFailNoneOfThem(t *testing.T) {
	s := start(t)
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
					l, err := s.create(t, "")
					if err != nil {
						t.Error(err)
						return
					}
					take(l.Code)
					continue
				}
				codes, err := s.ReserveKeys(t.Context(), actor, "printer", 37)
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
		space, err := s.KeySpace(t.Context(), operator)
		require.NoError(t, err)
		for _, r := range space.Ranges {
			if r.State == keys.RangeLive && len(r.Leases) > 0 {
				fenced += change(t, s, api.RangeStep{Action: keys.MoveRange, Range: r.ID, Region: "us"})[0].Fenced
				change(t, s, api.RangeStep{Action: keys.MoveRange, Range: r.ID, Region: "eu"})
				break
			}
		}
	}
	cancel()
	wg.Wait()
	require.GreaterOrEqual(t, fenced, 10)
	require.NotEmpty(t, seen)
}

func TestRanges_OnlyOperatorsSeeAndChangeRanges(t *testing.T) {
	s := start(t)
	for name, a := range map[string]controlplane.Actor{
		"a key without admin":        {Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeLinksWrite}},
		"an admin of another tenant": {Workspace: 2, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}},
		"nobody":                     {},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.KeySpace(t.Context(), a)
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
			_, err = s.ChangeRanges(t.Context(), a,
				api.RangeChange{Steps: []api.RangeStep{{
					Action: keys.DrainRange,
					Range:  1,
				}}})
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
			_, err = s.PlanRanges(t.Context(), a)
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
			_, err = s.Decode(t.Context(), a, "0000000")
			require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
		})
	}
}

func TestRanges_CustomCodeOfAGeneratedShapeIsRefusedOrNeverIssued(t *testing.T) {
	s := start(t)
	first, err := s.create(t, "")
	require.NoError(t, err)
	coder := newCoder(t)
	prefix, counter, ok := coder.Decode(first.Code)
	require.True(t, ok)
	_, err = s.create(t, string(coder.Encode(prefix, counter+1)))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err), "it may be issued this very moment")
	require.ErrorContains(t, err, "form of a generated one")

	ahead := coder.Encode(prefix, counter+2000)
	_, err = s.create(t, string(ahead))
	require.NoError(t, err)
	d, err := s.Decode(t.Context(), operator, string(ahead))
	require.NoError(t, err)
	require.Equal(t, keys.CounterBurned, d.State)
	require.Equal(t, counter+2000, d.Counter)
	require.Equal(t, string(ahead[:2]), d.Prefix)
	require.Equal(t, d.Prefix, d.Range.Prefix)
	for range 3 {
		codes, err := s.ReserveKeys(t.Context(), actor, "all", 1000)
		require.NoError(t, err)
		require.NotContains(t, codes, ahead)
	}
	_, err = s.Decode(t.Context(), operator, "not-one")
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
}

func TestRanges_NoServiceGetsAKeyThatIsSomeLinksAlready(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (2, 'Two', 'two')`)
	require.NoError(t, err)
	first, err := s.create(t, "")
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
	codes, err := s.ReserveKeys(t.Context(), actor, "printer", 400)
	require.NoError(t, err)
	require.Len(t, codes, 400)
	for _, c := range old {
		require.NotContains(t, codes, c)
	}
	stats, err := s.Stats(t.Context(), actor)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"printer": 400}, stats.Reserved)
}

func TestRanges_WhatIsIssuedIsCountedOnceByRange(t *testing.T) {
	s := start(t)
	_, err := s.ReserveKeys(t.Context(), actor, "x", 250)
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

func TestRanges_PlanMakesAllRegionsLastEquallyLongAndIsRefusedOnceItIsStale(t *testing.T) {
	s := start(t)
	require.NoError(t, s.db.EnsureRanges(t.Context(), []waypost.Region{"eu", "us", "ap"}))
	space, err := s.KeySpace(t.Context(), operator)
	require.NoError(t, err)
	for _, r := range space.Ranges {
		rate := int64(1000)
		if r.Region == "us" {
			rate *= 50
		}
		require.NoError(t, s.db.Beat(t.Context(), "n/1", waypost.Region(r.Region), map[int64]int64{r.ID: rate}))
	}
	plan, err := s.PlanRanges(t.Context(), operator)
	require.NoError(t, err)
	require.Len(t, plan.Steps, 2, plan.Reason)
	dry, err := s.ChangeRanges(t.Context(), operator, api.RangeChange{
		Steps:       plan.Steps,
		Fingerprint: plan.Fingerprint, DryRun: true,
	})
	require.NoError(t, err)
	require.Len(t, dry, 2)
	_, err = s.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: plan.Steps, Fingerprint: plan.Fingerprint})
	require.NoError(t, err)
	space, err = s.KeySpace(t.Context(), operator)
	require.NoError(t, err)
	var least, most float64
	for _, supply := range space.Supplies() {
		require.NotNil(t, supply.MinutesLeft)
		minutes := *supply.MinutesLeft
		if least == 0 || minutes < least {
			least = minutes
		}
		most = max(most, minutes)
	}
	require.LessOrEqual(t, most/least, 1.1)

	_, err = s.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: plan.Steps, Fingerprint: plan.Fingerprint})
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	plan, err = s.PlanRanges(t.Context(), operator)
	require.NoError(t, err)
	require.Empty(t, plan.Steps)
	require.NotEmpty(t, plan.Reason)
}

func TestRanges_PlanKnowsTheKeysOfTheLastSeconds(t *testing.T) {
	s := start(t)
	require.NoError(t, s.db.EnsureRanges(t.Context(), []waypost.Region{"eu", "us"}))
	_, err := s.create(t, "")
	require.NoError(t, err)
	plan, err := s.PlanRanges(t.Context(), operator) // before any heartbeat
	require.NoError(t, err)
	require.Positive(t, plan.Before[0].Rate, plan.Reason)
	require.Zero(t, plan.Before[1].Rate)
}
