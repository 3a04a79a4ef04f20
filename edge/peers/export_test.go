package peers

import (
	"context"
	"time"

	"waypost/replication"
)

// Best asks the peers once.
func (c *Chooser) Best(ctx context.Context, st replication.Status) string { return c.best(ctx, st) }

// Quiet is for how long nothing new has come.
func (c *Chooser) Quiet(st replication.Status) time.Duration { return c.quiet(&st) }
