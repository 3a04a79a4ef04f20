package peers

import (
	"context"

	"waypost/replication"
)

// Best asks the peers once.
func (c *Chooser) Best(ctx context.Context, st replication.Status) string { return c.best(ctx, st) }
