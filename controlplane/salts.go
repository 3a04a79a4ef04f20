package controlplane

import (
	"context"

	"waypost"
)

// SaltStore has the secrets by which edges tell the visitors of a day apart. It
// makes them ahead and destroys them by itself.
type SaltStore interface {
	// DestroySalt destroys the salt of a day, in days since 1970, UTC, before its
	// time, and notes by whom. Nobody can tell the visitors of that day any more, nor
	// open what the edges' journals still hold of their addresses, once the edges have
	// come to the position. The day never gets another salt: clicks of it that are yet to
	// come count without a visitor. ENotFound when there is no salt of that day.
	DestroySalt(ctx context.Context, by Actor, day int32) (waypost.Position, error)
}
