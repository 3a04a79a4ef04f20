package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"waypost/api"
	"waypost/api/requestid"
	"waypost/edge/replica"
	"waypost/replication"
)

const (
	verifyTime  = 30 * time.Minute // for a verification
	answerTime  = 5 * time.Minute  // for the delivery of an answer
	answerPause = time.Second      // between attempts to deliver
	knownOrders = 1024             // answered orders that are remembered; a report may still repeat them
)

// orders executes the orders of operators, one of each kind at a time.
type orders struct {
	log      *slog.Logger
	follower func() *replication.Follower
	// verifyReplica is [replica.DB.Verify].
	verifyReplica func(context.Context) (replica.Verification, error)
	answer        func(context.Context, int64, api.EdgeOutcome) (final bool, err error)

	verifications, acceptances, drains, explanations chan api.EdgeOrder

	draining atomic.Bool // until it is undone, or this process ends

	mu       sync.Mutex
	seen     map[int64]bool // orders that wait, are executed, or were answered recently
	answered []int64        // of these, the oldest first
}

func newOrders(
	log *slog.Logger, follower func() *replication.Follower, verify func(context.Context) (replica.Verification, error),
) *orders {
	return &orders{
		log: log, follower: follower, verifyReplica: verify, seen: map[int64]bool{},
		verifications: make(chan api.EdgeOrder, 4), acceptances: make(chan api.EdgeOrder, 4), drains: make(chan api.EdgeOrder, 4),
		explanations: make(chan api.EdgeOrder, 16),
	}
}

// queueOrder queues an order, which is repeated until it is answered. It does not block.
func (o *orders) queueOrder(order api.EdgeOrder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[order.ID] {
		return
	}
	var queue chan api.EdgeOrder // nil for an unknown kind, which is ignored
	switch order.What {
	case "verify":
		queue = o.verifications
	case "accept":
		queue = o.acceptances
	case "drain", "undrain":
		queue = o.drains
	case "explain":
		queue = o.explanations
	}
	select {
	case queue <- order:
		o.seen[order.ID] = true
	default: // the order is repeated
	}
}

// run executes the orders of a queue until ctx ends.
func (o *orders) run(ctx context.Context, queue <-chan api.EdgeOrder, do func(context.Context, api.EdgeOrder) api.EdgeOutcome) {
	for {
		select {
		case <-ctx.Done():
			return
		case order := <-queue:
			outcome := do(ctx, order)
			if ctx.Err() != nil { // the order is repeated at the next start
				return
			}
			o.deliver(ctx, order.ID, outcome)
			o.forgetOldest(order.ID)
		}
	}
}

// forgetOldest forgets the oldest answered order, if there are too many with this one.
func (o *orders) forgetOldest(answered int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answered = append(o.answered, answered); len(o.answered) > knownOrders {
		delete(o.seen, o.answered[0])
		o.answered = o.answered[1:]
	}
}

// deliver answers until the control plane has the answer.
func (o *orders) deliver(ctx context.Context, id int64, outcome api.EdgeOutcome) {
	ctx = requestid.New(ctx)
	for begun := time.Now(); time.Since(begun) < answerTime; {
		final, err := o.answer(ctx, id, outcome)
		if err == nil || final {
			if err != nil {
				o.log.WarnContext(ctx, "cannot deliver the outcome of an order, because the control plane refuses it", "error", err)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(answerPause):
		}
	}
	o.log.WarnContext(ctx, "cannot deliver the outcome of an order", "order", id)
}

// verify adds up the records of the replica. A replica that is damaged is repaired in any
// case.
func (o *orders) verify(ctx context.Context, order api.EdgeOrder) api.EdgeOutcome {
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	o.log.Info("verifying the replica", "order", order.ID)
	begun := time.Now()
	v, err := o.verifyReplica(limited)
	outcome := api.EdgeOutcome{Records: v.Records, Seconds: time.Since(begun).Seconds()}
	if !v.Position.IsZero() {
		outcome.Position = &api.Sequence{Epoch: v.Position.Epoch.Ordinal, Seq: v.Position.Seq}
	}
	if v.Damage != nil {
		outcome.Damage = v.Damage.Error()
	}
	if err != nil {
		outcome.Error = err.Error()
		o.log.Warn("cannot verify the replica", "order", order.ID, "error", err)
	}
	return outcome
}

// accept lets the replica take the changes that it holds back.
func (o *orders) accept(_ context.Context, order api.EdgeOrder) api.EdgeOutcome {
	what, err := o.follower().Accept(replication.HoldKind(order.Hold))
	if err != nil {
		return api.EdgeOutcome{Error: err.Error()}
	}
	o.log.Warn("accepting what the replica holds back", "order", order.ID, "what", what)
	return api.EdgeOutcome{Accepted: string(what)}
}

// unready reports whether an operator has made the edge unready.
func (o *orders) unready() bool { return o != nil && o.draining.Load() }

// drain makes the edge unready, or ready again.
func (o *orders) drain(_ context.Context, order api.EdgeOrder) api.EdgeOutcome {
	draining := order.What == "drain"
	if o.draining.Swap(draining) != draining {
		o.log.Warn("changing whether this edge is drained", "order", order.ID, "draining", draining)
	}
	return api.EdgeOutcome{}
}
