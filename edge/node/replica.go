package node

import (
	"errors"

	"waypost"
)

// errNoReplica is the answer of an edge that waits for its first snapshot.
var errNoReplica = errors.New("this edge has no replica yet")

// holds reports whether the replica has taken its first snapshot.
func (s *store) holds() bool {
	_, holds := s.Cluster()
	return holds
}

// Domain implements [server.Links]. Before the first snapshot every host is known, so
// that visitors learn of the missing replica from Link.
func (s *store) Domain(host []byte) (waypost.DomainID, waypost.DomainTraits, bool) {
	id, traits, known := s.DB.Domain(host)
	if !s.holds() {
		return waypost.DefaultDomain, 0, true
	}
	return id, traits, known
}

// isDefault reports whether a host is known to be the host of the default domain.
func (s *store) isDefault(host string) bool {
	id, _, known := s.DB.Domain([]byte(host))
	return s.holds() && known && id == waypost.DefaultDomain
}

// reported returns the position that others see: none during a repair, and none of a
// replica that is not verified.
func (s *store) reported() waypost.Position {
	if s.Repairing() || !s.Verified() {
		return waypost.Position{}
	}
	return s.Position()
}

// damaged reports whether records are known to be wrong or missing.
func (s *store) damaged() bool {
	return s.holds() && !s.Verified() && !s.Verifying() && !s.Repairing()
}

// digest returns the digest of the replica at a position, and false when the replica has
// moved on.
func (s *store) digest(at waypost.Position) (uint64, bool) {
	digest := s.Digest()
	return digest, s.Position() == at
}
