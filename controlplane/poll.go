package controlplane

import (
	"context"
	"time"
)

// Poll calls f now and at every interval until ctx ends, and warn with the first of
// several errors in a row.
func Poll(ctx context.Context, interval time.Duration, f func(context.Context) error, warn func(error)) {
	failing := false
	for {
		err := f(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			warn(err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}
