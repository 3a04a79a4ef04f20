package controlplane

import (
	"context"
	"time"
)

// CheckMetadata checks metadata that are not empty.
func CheckMetadata(text []byte) error { return checkMetadata(text) }

// NewClicks makes the service without the others.
func NewClicks(store Store, now func() time.Time) *Clicks {
	cfg := Config{Store: store, Now: now}
	return newClicks(&cfg, &Links{store: store, domains: newDomains(&cfg), now: now})
}

// SwitchNow does the work of a control plane on domains that are being switched.
func (s *Domains) SwitchNow(ctx context.Context) error { return s.switchDomains(ctx) }
