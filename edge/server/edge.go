// Package server answers redirects from a local replica and from nothing else: it
// calls nobody, deletes nothing and waits for no disk while it answers.
//
// It never imports the control plane. The replica itself is edge/replica, the
// stream that feeds it is package replication, and the journal that takes the clicks
// is edge/clicks.
package server

import (
	"net/netip"

	"waypost"
)

// Links is the replica, as the redirect path sees it. All methods may be called by
// many goroutines at once.
type Links interface {
	// Link finds the record of a code. It copies what it finds behind buf, and the
	// record refers to that copy; buf comes back grown, to be used again. It does
	// not allocate once buf is large enough. An error means that the store could
	// not be read; it says nothing about the link.
	Link(domain waypost.DomainID, code, buf []byte) (rec waypost.Record, grown []byte, found bool, err error)

	// Domain gives the domain that a host belongs to: lower case, without a port.
	Domain(host []byte) (waypost.DomainID, bool)

	// Targets gives where a domain leads visitors who follow no link of it; none for
	// one that is not known. The bytes must not be changed. It does not allocate.
	Targets(domain waypost.DomainID) waypost.DomainTargets
}

// Clicks takes the clicks that were redirected. Record may be called by many
// goroutines at once, before the answer is written; it must neither keep the slices,
// nor allocate, nor wait for anything.
type Clicks interface {
	Record(c waypost.Click)
}

// Sealer seals the address of a visitor for the journal of clicks, so that it can only
// be opened as long as the secret of its day, at in Unix milliseconds, is kept. Zero
// says that there is none. Seal may be called by many goroutines at once, and neither
// allocates nor waits for anything.
type Sealer interface {
	Seal(dst *[16]byte, addr netip.Addr, at int64)
}
