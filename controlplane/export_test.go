package controlplane

import "time"

// CheckMetadata checks metadata that are not empty.
func CheckMetadata(text []byte) error { return checkMetadata(text) }

// NewClicks makes the service without the others.
func NewClicks(stores Stores, now func() time.Time) *Clicks {
	cfg := Config{Stores: stores, Now: now}
	return newClicks(&cfg, &Links{store: stores.Links, domains: newDomains(&cfg), now: now})
}
