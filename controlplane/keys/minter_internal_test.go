package keys

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/keyrange"
)

func coderOf(t *testing.T) *keyrange.Coder {
	t.Helper()
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	return keyrange.NewCoder(space, [32]byte{})
}

// leasing answers with what is at hand, in turn, and then with no key at all.
type leasing struct {
	LeaseStore
	errs []error
	next int64
}

func (l *leasing) TakeLease(context.Context, waypost.Region, string, int64, []int64) (Lease, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		if err != nil {
			return Lease{}, err
		}
	}
	l.next += 10
	return Lease{ID: l.next, Lo: l.next, Hi: l.next + 10, Epoch: 1}, nil
}

func (l *leasing) ReturnLease(context.Context, Lease, int64) error { return nil }

func TestMinter_AttemptsToLeaseAndMintedKeysAreCountedByRegion(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMinter(MinterConfig{
		Store: &leasing{errs: []error{
			waypost.Errorf(waypost.EExhausted, "none left"), waypost.Errorf(waypost.EUnavailable, "away"), errors.New("a fault"), nil,
		}},
		Coder: coderOf(t), Region: "eu", Node: "n/1", Size: 10, Metrics: registry,
	})
	for minted := 0; minted < 3; {
		if _, err := m.Mint(t.Context()); err == nil {
			minted++
		}
	}
	require.NoError(t, m.Close(t.Context()))
	families, err := registry.Gather()
	require.NoError(t, err)
	got := make(map[string]float64)
	for _, f := range families {
		for _, sample := range f.GetMetric() {
			name := f.GetName()
			for _, l := range sample.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			got[name] = sample.GetCounter().GetValue()
		}
	}
	for status, want := range map[string]float64{"ok": 1, "exhausted": 1, "unavailable": 1, "error": 1} {
		require.InDelta(t, want, got["kgs_allocations_total region=eu status="+status], 0, "%s of %v", status, got)
	}
	require.InDelta(t, 3, got["kgs_generated_total region=eu"], 0)
}
