package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// OrderStore keeps the orders to edges, for all instances of the control plane.
type OrderStore interface {
	// OrderEdge stores an order and sets its number; the order is in the audit log when
	// it returns. OrderEdge returns ENotFound when no edge with the name has ever
	// reported, and known is false.
	OrderEdge(ctx context.Context, by controlplane.Actor, o api.EdgeOrder, known bool) (api.EdgeOrder, error)

	// EdgeOrder returns an order to an edge by its number, ENotFound for an unknown
	// number.
	EdgeOrder(ctx context.Context, node string, id int64) (api.EdgeOrder, error)

	// EdgeOrders returns all open orders, and the last verification of each edge that has
	// an outcome.
	EdgeOrders(ctx context.Context) (open, verified []api.EdgeOrder, err error)

	// OrderDone stores the outcome of an order. A second outcome changes nothing.
	// ENotFound: there is no such order.
	OrderDone(ctx context.Context, node string, id int64, outcome api.EdgeOutcome) error
}

// The kinds of orders.
const (
	OrderVerify  = "verify"  // add up the records on disk
	OrderAccept  = "accept"  // accept a held change
	OrderDrain   = "drain"   // be unready, so that visitors go elsewhere
	OrderUndrain = "undrain" // be ready again
	OrderExplain = "explain" // explain the answer to a visitor
)

// orderTime is the validity of an order. explainTime is the validity of an order to
// explain, and is short because a person waits for the answer.
const (
	orderTime   = time.Hour
	explainTime = 10 * time.Second
)

// Orders passes orders to edges, and stores their outcomes. All methods may be called by
// many goroutines at once.
type Orders struct {
	store OrderStore
	knows func(node string) bool
	ask   func()
	log   *slog.Logger

	mu       sync.Mutex
	open     map[string][]api.EdgeOrder // by node
	verified map[string]api.EdgeOrder   // by node
}

// NewOrders returns Orders that Run keeps up to date. Knows reports whether an edge with
// a name exists, even if the store does not know the edge yet; ask makes edges report
// soon. Neither must block.
func NewOrders(store OrderStore, knows func(node string) bool, ask func(), log *slog.Logger) *Orders {
	return &Orders{store: store, knows: knows, ask: ask, log: log}
}

// ordersPoll is the interval of reads of the store, for orders of other instances.
const ordersPoll = time.Second

// Run reads the store until ctx ends.
func (o *Orders) Run(ctx context.Context) {
	controlplane.Poll(ctx, ordersPoll, o.readOrders, func(err error) {
		o.log.Warn("cannot read orders, so edges get none", "error", err)
	})
}

func (o *Orders) readOrders(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	open, verified, err := o.store.EdgeOrders(ctx)
	if err != nil {
		return err
	}
	byNode := make(map[string][]api.EdgeOrder)
	for _, order := range open {
		byNode[order.Node] = append(byNode[order.Node], order)
	}
	last := make(map[string]api.EdgeOrder, len(verified))
	for _, order := range verified {
		last[order.Node] = order
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	news := false
	for node, orders := range byNode {
		news = news || len(orders) > len(o.open[node])
	}
	if o.open, o.verified = byNode, last; news {
		o.ask()
	}
	return nil
}

// Give orders an edge. That needs [Actor.CheckOperator]. It returns ENotFound when there
// is no such edge.
func (o *Orders) Give(ctx context.Context, actor controlplane.Actor, order api.EdgeOrder) (api.EdgeOrder, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.EdgeOrder{}, err
	}
	if !waypost.ValidNode(order.Node) {
		return api.EdgeOrder{}, waypost.Errorf(waypost.ENotFound, "there is no such edge")
	}
	order.OrderedBy, order.Until = actor.Label(), time.Now().Add(orderTime)
	if order.What == OrderExplain {
		order.Until = time.Now().Add(explainTime)
	}
	given, err := o.store.OrderEdge(ctx, actor, order, o.knows(order.Node))
	if err == nil {
		if lookErr := o.readOrders(ctx); lookErr != nil {
			o.log.Debug("cannot read orders, the edge gets this one later", "error", lookErr)
		}
	}
	return given, err
}

// Find returns an order to an edge with its outcome. That needs [Actor.CheckOperator].
func (o *Orders) Find(ctx context.Context, actor controlplane.Actor, node string, id int64) (api.EdgeOrder, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.EdgeOrder{}, err
	}
	if !waypost.ValidNode(node) {
		return api.EdgeOrder{}, waypost.Errorf(waypost.ENotFound, "there is no such edge")
	}
	return o.store.EdgeOrder(ctx, node, id)
}

// askTime bounds the time in which an edge answers a question.
const askTime = 5 * time.Second

// Ask orders an edge, and returns the outcome as soon as the edge has answered. It
// returns EUnavailable without an answer within five seconds, and the errors of Give.
func (o *Orders) Ask(ctx context.Context, actor controlplane.Actor, order api.EdgeOrder) (api.EdgeOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	given, err := o.Give(ctx, actor, order)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for err == nil && given.Outcome == nil {
		select {
		case <-ctx.Done():
			return api.EdgeOutcome{}, waypost.Errorf(waypost.EUnavailable, "the edge %s has not answered within %s", order.Node, askTime)
		case <-tick.C:
			given, err = o.store.EdgeOrder(ctx, order.Node, given.ID)
		}
	}
	if err != nil {
		return api.EdgeOutcome{}, err
	}
	return *given.Outcome, nil
}

// For returns the open orders of an edge. It does not block.
func (o *Orders) For(node string) []api.EdgeOrder {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[node]
}

// Verified returns an edge's last verification with an outcome.
func (o *Orders) Verified(node string) (api.EdgeOrder, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	order, ok := o.verified[node]
	return order, ok
}

// Done stores the outcome of an order.
func (o *Orders) Done(ctx context.Context, node string, id int64, outcome api.EdgeOutcome) error {
	return o.store.OrderDone(ctx, node, id, outcome)
}
