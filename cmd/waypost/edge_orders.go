package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"waypost"
	"waypost/edge/report"
	"waypost/replication"
)

const (
	verifyTime  = 30 * time.Minute // that a comparison may take
	answerTime  = 5 * time.Minute  // until an answer that does not get through is given up
	answerPause = time.Second
	knownOrders = 1024 // that are remembered, so that none is done twice
)

// edgeOrders does what operators ask of an edge, of each kind one thing at a time.
type edgeOrders struct {
	log      *slog.Logger
	follower func() *replication.Follower
	answer   func(context.Context, int64, report.Outcome) (final bool, err error)

	verifications, acceptances chan report.Order

	mu   sync.Mutex
	seen map[int64]bool
}

func newEdgeOrders(log *slog.Logger, follower func() *replication.Follower) *edgeOrders {
	return &edgeOrders{
		log: log, follower: follower, seen: map[int64]bool{},
		verifications: make(chan report.Order, 4), acceptances: make(chan report.Order, 4),
	}
}

// take notes an order, which comes again and again until it is answered. It does not block.
func (o *edgeOrders) take(order report.Order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[order.ID] {
		return
	}
	var queue chan report.Order // nil, as for kinds of later versions: it is left alone
	switch order.What {
	case "verify":
		queue = o.verifications
	case "accept":
		queue = o.acceptances
	}
	select {
	case queue <- order:
		if len(o.seen) >= knownOrders {
			clear(o.seen)
		}
		o.seen[order.ID] = true
	default: // it comes again
	}
}

// run does what is in a queue until ctx ends.
func (o *edgeOrders) run(ctx context.Context, queue <-chan report.Order, do func(context.Context, report.Order) report.Outcome) {
	for {
		select {
		case <-ctx.Done():
			return
		case order := <-queue:
			outcome := do(ctx, order)
			if ctx.Err() != nil { // the next start of this edge is told again
				return
			}
			o.deliver(ctx, order.ID, outcome)
		}
	}
}

// deliver answers until that has got through.
func (o *edgeOrders) deliver(ctx context.Context, id int64, outcome report.Outcome) {
	for begun := time.Now(); time.Since(begun) < answerTime; {
		final, err := o.answer(ctx, id, outcome)
		if err == nil || final {
			if err != nil {
				o.log.Warn("nobody wants to know what came of an order", "error", err)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(answerPause):
		}
	}
	o.log.Warn("what came of an order did not reach the control plane", "order", id)
}

// verify compares the replica with the source.
func (o *edgeOrders) verify(ctx context.Context, order report.Order) report.Outcome {
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	o.log.Info("the replica is compared with its source", "order", order.ID, "repair", order.Repair)
	v, err := o.follower().Verify(limited, order.Repair)
	outcome := report.Outcome{
		Slots: v.Slots, Records: v.Records, Different: v.Different, Repaired: v.Repaired,
		Epoch: v.Position.Epoch.Ordinal, Seq: v.Position.Seq, Seconds: v.Took.Seconds(),
	}
	now := time.Now()
	for i := range v.Differences {
		d := &v.Differences[i]
		outcome.Differences = append(outcome.Differences, report.Difference{
			Slot: d.Slot, Kind: uint8(d.Kind), Domain: uint32(d.Domain), Name: d.Name, What: string(d.What),
			Edge: visitorGets(d.Kind, d.Held, d.What, now), Source: visitorGets(d.Kind, d.Source, "", now),
		})
	}
	switch {
	case err != nil:
		outcome.Error = err.Error()
		o.log.Warn("the replica could not be compared with its source", "order", order.ID, "error", err)
	case v.Different > 0:
		o.log.Error("the replica was not what its source holds", "order", order.ID, "slots", v.Different, "repaired", v.Repaired)
	}
	return outcome
}

// accept lets the replica take what it holds back.
func (o *edgeOrders) accept(_ context.Context, order report.Order) report.Outcome {
	what, err := o.follower().Accept(replication.HoldKind(order.Hold))
	if err != nil {
		return report.Outcome{Error: err.Error()}
	}
	o.log.Warn("what the replica holds back is accepted", "order", order.ID, "what", what)
	return report.Outcome{Accepted: string(what)}
}

// visitorGets tells in words what a record answers a visitor; of what is no link, that it is there.
func visitorGets(kind waypost.Kind, r *waypost.Record, what replication.DifferenceKind, now time.Time) string {
	switch {
	case what == replication.Unreadable:
		return "unreadable"
	case r == nil && kind == waypost.KindLink:
		return "404"
	case r == nil:
		return "none"
	case kind != waypost.KindLink: // a salt is nobody's to see
		return fmt.Sprintf("revision %d.%d", r.Revision.Epoch, r.Revision.Seq)
	case r.State != waypost.Live, r.ExpiresAt != 0 && r.ExpiresAt <= now.UnixMilli():
		return fmt.Sprint(http.StatusGone)
	}
	return fmt.Sprintf("%d %s", r.Status, r.Payload)
}
