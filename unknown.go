package waypost

import "net/netip"

// UnknownKind says how an address that names no link was answered.
type UnknownKind uint8

// The kinds of unknown addresses.
const (
	LedNowhere   UnknownKind = iota // 404, or the domain's target for unknown codes
	LedByPattern                    // the redirect of a pattern
)

// Bounds of unknown addresses.
const (
	MaxUnknownPath  = 128 // bytes
	UnknownVisitors = 5   // different ones of a day, from which on an address is shown
)

// UnknownVisit is a GET of an address that names no link. Its holder owns the slices.
type UnknownVisit struct {
	Domain DomainID
	Traits DomainTraits
	Kind   UnknownKind
	Path   []byte     // as it was sent, without its first slash and the query
	Agent  []byte     // User-Agent
	From   netip.Addr // the visitor's; the zero Addr is unknown
	At     int64      // Unix milliseconds
}
