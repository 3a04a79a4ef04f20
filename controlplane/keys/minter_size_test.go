package keys_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/keys"
	"waypost/keyrange"
)

// pieces leases no more than most at a time, and notes what was asked for.
type pieces struct {
	most int64

	mu    sync.Mutex
	sizes []int64
	next  int64
}

func (p *pieces) TakeLease(_ context.Context, _ waypost.Region, _ string, size int64, _ []int64) (keys.Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, size)
	n := min(size, p.most)
	p.next += n
	return keys.Lease{ID: p.next, Range: 1, Lo: p.next - n, Hi: p.next, Epoch: 1, Generation: 1}, nil
}

func (p *pieces) ReturnLease(context.Context, keys.Lease, int64) error { return nil }

func (p *pieces) Unleased(context.Context, waypost.Region) (int64, error) { return 0, nil }

func (p *pieces) asked() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int64(nil), p.sizes...)
}

func TestMinter_IdleMinterDoesNotHoardWhatComesInPieces(t *testing.T) {
	for name, c := range map[string]struct {
		codeLength   int
		piece, first int64
		hoard        int64 // what it may hold at most
	}{
		"rests that others gave back": {codeLength: 7, piece: 40, first: 1000, hoard: 1000},
		"a small key space":           {codeLength: 5, piece: 238, first: 238, hoard: 238},
	} {
		t.Run(name, func(t *testing.T) {
			space, err := keyrange.NewSpace(c.codeLength, 2)
			require.NoError(t, err)
			store := &pieces{most: c.piece}
			m := keys.NewMinter(keys.MinterConfig{
				Store: store, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: "n/1", Size: 1000,
			})
			require.Eventually(t, func() bool { return m.Remaining() >= c.first/2 }, 60*time.Second, time.Millisecond)
			require.NoError(t, m.Close(t.Context()))
			for _, size := range store.asked() {
				require.Equal(t, c.first, size)
			}
			require.LessOrEqual(t, store.next, c.hoard)
		})
	}
}

func TestMinter_SmallestLeaseIsRefilledAsWell(t *testing.T) {
	m := keys.NewMinter(keys.MinterConfig{Store: &pieces{most: 1}, Coder: newCoder(t), Region: "eu", Node: "n/1", Size: 1})
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	keys, err := m.MintMany(ctx, 5)
	require.NoError(t, err)
	require.Len(t, keys, 5)
}
