package keys_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/keys"
)

func TestMinter_CounterKnowsGeneratedCodesOnly(t *testing.T) {
	m := keys.NewMinter(keys.MinterConfig{Store: &pieces{most: 1}, Coder: newCoder(t), Region: "eu", Node: "n/1"})
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	code := newCoder(t).Encode(5, 1234)
	counter, ok := m.Counter(code)
	require.True(t, ok)
	require.Equal(t, controlplane.Counter{Prefix: 5, N: 1234}, counter)
	for _, other := range []waypost.Code{code[:6], code + "0", "abc-def", "abcd_ef"} {
		_, ok := m.Counter(other)
		require.False(t, ok, "%s", other)
	}
}

func TestMinter_LeasesGrowWithTheDemandAndShrinkAgain(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	store := &counting{asked: make(chan int64)}
	m := keys.NewMinter(keys.MinterConfig{Store: store, Coder: newCoder(t), Region: "eu", Node: "n/1", Size: 100, Now: clock})
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

func (c *counting) TakeLease(ctx context.Context, _ waypost.Region, _ string, size int64, _ []int64) (keys.Lease, error) {
	select {
	case c.asked <- size:
	case <-ctx.Done():
		return keys.Lease{}, ctx.Err()
	}
	c.next += size
	return keys.Lease{ID: c.next, Range: 1, Lo: c.next - size, Hi: c.next, Epoch: 1, Generation: 1}, nil
}

func (c *counting) ReturnLease(context.Context, keys.Lease, int64) error { return nil }

func (c *counting) Unleased(context.Context, waypost.Region) (int64, error) { return 0, nil }

// gate stands before the lease source: while it is shut, taking a lease fails.
type gate struct {
	keys.LeaseStore
	shut  atomic.Bool
	calls atomic.Int64
}

func (g *gate) TakeLease(ctx context.Context, region waypost.Region, node string, size int64, finished []int64) (keys.Lease,
	error,
) {
	g.calls.Add(1)
	if g.shut.Load() {
		return keys.Lease{}, waypost.WrapError(waypost.EUnavailable, "no lease", errors.New("the gate is shut"))
	}
	return g.LeaseStore.TakeLease(ctx, region, node, size, finished)
}

func TestMinter_KeysAreAtHandWithoutTheDatabaseAndTheirEndIsAClearError(t *testing.T) {
	g := &gate{LeaseStore: start(t).db}
	m := keys.NewMinter(keys.MinterConfig{Store: g, Coder: newCoder(t), Region: "eu", Node: "test/2", Size: 100, Patience: time.Minute})
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	_, err := m.Mint(t.Context())
	require.NoError(t, err)
	calls := g.calls.Load()
	g.shut.Store(true)
	var minted int
	for ; ; minted++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := m.Mint(ctx)
		cancel()
		if err != nil {
			require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
			break
		}
	}
	require.Equal(t, calls*100-1, int64(minted), "all of the lease was minted, and nothing but the lease")
	g.shut.Store(false)
	require.Eventually(t, func() bool { // an attempt that was under way may still fail
		_, err := m.Mint(t.Context())
		return err == nil
	}, time.Minute, time.Millisecond, "minting goes on as soon as leases do")
}
