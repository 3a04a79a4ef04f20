package node

import (
	"context"

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
