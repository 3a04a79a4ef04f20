package node

import (
	"context"

	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/replication"
)

// sound refuses repairs, and snapshots that come from PostgreSQL, while its rows do not
// add up to the digest that followers are held against.
func (c *control) sound(ctx context.Context, path string) error {
	err := c.digests.Sound(ctx)
	if own := c.source.own; err != nil && path == replication.PathSnapshot && own != nil && own.current() {
		return nil
	}
	return err
}

// soundOrders refuses orders to repair an edge meanwhile.
type soundOrders struct {
	*fleet.Orders
	digests *controlplane.DigestCheck
}

// Give implements httpapi.Orders.
func (o soundOrders) Give(ctx context.Context, actor controlplane.Actor, order fleet.EdgeOrder) (fleet.EdgeOrder, error) {
	if err := actor.CheckOperator(); err != nil {
		return fleet.EdgeOrder{}, err
	}
	if order.Repair {
		if err := o.digests.Sound(ctx); err != nil {
			return fleet.EdgeOrder{}, err
		}
	}
	return o.Orders.Give(ctx, actor, order)
}
