package certs

import "context"

// Note tells c what certmagic does of itself, in an order of nobody's.
func (c *Certificates) Note(event string, data map[string]any) error {
	return c.note(context.Background(), event, data)
}
