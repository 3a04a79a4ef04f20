package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/api"
	"waypost/api/requestid"
	"waypost/replication"
)

const (
	verifyTime  = 30 * time.Minute // for a comparison
	answerTime  = 5 * time.Minute  // for the delivery of an answer
	answerPause = time.Second      // between attempts to deliver
	knownOrders = 1024             // answered orders that are remembered; a report may still repeat them
)

// orders executes the orders of operators, one of each kind at a time.
type orders struct {
	log      *slog.Logger
	follower func() *replication.Follower
	answer   func(context.Context, int64, api.EdgeOutcome) (final bool, err error)

	verifications, acceptances, drains, explanations chan api.EdgeOrder

	draining atomic.Bool // until it is undone, or this process ends

	mu       sync.Mutex
	seen     map[int64]bool // orders that wait, are executed, or were answered recently
	answered []int64        // of these, the oldest first
}

func newOrders(log *slog.Logger, follower func() *replication.Follower) *orders {
	return &orders{
		log: log, follower: follower, seen: map[int64]bool{},
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
				o.log.WarnContext(ctx, "the control plane refuses the outcome of an order", "error", err)
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

// verify compares the replica with the source.
func (o *orders) verify(ctx context.Context, order api.EdgeOrder) api.EdgeOutcome {
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	o.log.Info("comparing the replica with its source", "order", order.ID, "repair", order.Repair)
	v, err := o.follower().Verify(limited, order.Repair)
	outcome := api.EdgeOutcome{
		Slots: v.Slots, Records: v.Records, Different: v.Different, Repaired: v.Repaired,
		Seconds: v.Took.Seconds(),
	}
	if !v.Position.IsZero() {
		outcome.Position = &api.Sequence{Epoch: v.Position.Epoch.Ordinal, Seq: v.Position.Seq}
	}
	now := time.Now()
	for i := range v.Differences {
		d := &v.Differences[i]
		outcome.Differences = append(outcome.Differences, api.Difference{
			Slot: d.Slot, Kind: uint8(d.Kind), Domain: uint32(d.Domain), Name: d.Name, What: string(d.What),
			Edge: visitorGets(d.Kind, d.Held, d.What, now), Source: visitorGets(d.Kind, d.Source, "", now),
		})
	}
	switch {
	case err != nil:
		outcome.Error = err.Error()
		o.log.Warn("cannot compare the replica with its source", "order", order.ID, "error", err)
	case v.Different > 0:
		o.log.Error("replica differs from its source", "order", order.ID, "slots", v.Different, "repaired", v.Repaired)
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
		o.log.Warn("changing whether visitors are sent elsewhere", "order", order.ID, "draining", draining)
	}
	return api.EdgeOutcome{}
}

// visitorGets describes the answer that a record leads to; of a record that is no link,
// its revision.
func visitorGets(kind waypost.Kind, r *waypost.Record, what replication.DifferenceKind, now time.Time) string {
	switch {
	case what == replication.Unreadable:
		return "unreadable"
	case r == nil && kind == waypost.KindLink:
		return "404"
	case r == nil:
		return "none"
	case kind != waypost.KindLink: // salts are secret
		return fmt.Sprintf("revision %d.%d", r.Revision.Epoch, r.Revision.Seq)
	case r.State != waypost.Live, r.ExpiresAt != 0 && r.ExpiresAt <= now.UnixMilli():
		return fmt.Sprint(http.StatusGone)
	}
	return fmt.Sprintf("%d %s", r.Status, r.Payload)
}
