package certs

import "context"

// Note passes an event of certmagic to c that belongs to no order.
func (c *Certificates) Note(event string, data map[string]any) error {
	return c.allowRenewal(context.Background(), event, data)
}

// ReasonOf explains an error to the owner of a name.
var ReasonOf = reasonOf
