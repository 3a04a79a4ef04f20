// Package server answers redirects from a local replica: it calls no other process,
// deletes nothing, and waits for no disk while the lookup table holds the link.
//
// It never imports the control plane. The replica is edge/replica, the stream that feeds
// it is package replication, and the click journal is edge/clicks. Package edge/fastpath
// reads plain requests straight from the socket.
package server

import (
	"context"
	"net/netip"

	"waypost"
	"waypost/internal/patterns"
)

// Links is the replica, as the redirect path needs it. All methods may be called by many
// goroutines at once.
type Links interface {
	// Link finds the record of a code and fills rec in. It appends a copy to buf, to which
	// rec refers, and returns the grown buf for the next call. It does not allocate once
	// buf is large enough. An error means that the store could not be read, and says
	// nothing about the link. Without a link, rec is of no use.
	Link(domain waypost.DomainID, code, buf []byte, rec *waypost.Record) (grown []byte, found bool, err error)

	// Domain returns the domain of a host, which is in lower case and without a port, and
	// its traits. Of a host that belongs to no domain it returns the default domain, and
	// false. It does not allocate, and is fast: each visit asks it.
	Domain(host []byte) (id waypost.DomainID, traits waypost.DomainTraits, known bool)

	// Patterns returns the patterns of a domain, nil for none. It does not allocate.
	Patterns(domain waypost.DomainID) *patterns.Index

	// Targets returns where a domain leads visitors in place of its links, and whether it
	// counts utm parameters; nothing for an unknown domain. The bytes must not be changed.
	// It does not allocate.
	Targets(domain waypost.DomainID) waypost.DomainTargets
}

// Budgets has the clicks of exact budgets that this edge may spend. Its methods may be
// called by many goroutines at once.
type Budgets interface {
	// Spend takes one click of a link's budget, and reports whether there was one. It
	// neither waits nor allocates.
	Spend(domain waypost.DomainID, code []byte) bool

	// SpendOrAsk does the same, and asks for a click if there is no click. It waits for two
	// seconds, or until ctx is done, at most. exhausted reports that all clicks are spent;
	// without spent and exhausted the state is unknown.
	SpendOrAsk(ctx context.Context, domain waypost.DomainID, code []byte) (spent, exhausted bool)
}

// Clicks takes the clicks that were redirected. Record may be called by many goroutines
// at once, before the answer is written. It must neither keep the slices, nor allocate,
// nor wait.
type Clicks interface {
	Record(c waypost.Click)
}

// Unknown takes visits of addresses that name no link. Record may be called by many
// goroutines at once. It must neither keep the slices, nor allocate, nor wait.
type Unknown interface {
	Record(v waypost.UnknownVisit)
}

// Sealer encrypts the address of a visitor for the click journal, with the secret of the
// day of at, in Unix milliseconds. Once that secret is destroyed, the address cannot be
// recovered. Zero means that there is no address. Seal may be called by many goroutines
// at once, and must neither allocate nor wait.
type Sealer interface {
	Seal(dst *[16]byte, addr netip.Addr, at int64)
}

// Locator locates visitors.
type Locator interface {
	// Locate returns the country of an address, as ISO 3166-1 alpha-2 in upper case, and
	// the English name of its city. Zero and empty mean that they are unknown. It may be
	// called by many goroutines at once, and must neither wait nor, for places that are
	// asked for often, allocate.
	Locate(addr netip.Addr) (country [2]byte, city string)
}
