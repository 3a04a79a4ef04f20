package node

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

// A control plane repeats an order until it is answered, which may take longer than a
// thousand other orders.
func TestOrders_RunOnceHoweverManyComeMeanwhile(t *testing.T) {
	o := newOrders(slog.New(slog.DiscardHandler), nil, nil)
	answered := make(chan int64)
	o.answer = func(_ context.Context, order int64, _ api.EdgeOutcome) (bool, error) {
		answered <- order
		return true, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); o.run(ctx, o.drains, o.drain) }()
	t.Cleanup(func() { cancel(); <-ended })

	slow := api.EdgeOrder{ID: 1, What: "accept"}
	o.queueOrder(slow)
	require.Equal(t, slow, <-o.acceptances) // it is being executed
	for id := int64(2); id < 2+2*knownOrders; id++ {
		o.queueOrder(api.EdgeOrder{ID: id, What: "drain"})
		require.Equal(t, id, <-answered)
	}
	o.queueOrder(slow)
	require.Empty(t, o.acceptances)
	o.mu.Lock()
	defer o.mu.Unlock()
	require.Less(t, len(o.seen), knownOrders+10, "what was answered is forgotten in time")
}
