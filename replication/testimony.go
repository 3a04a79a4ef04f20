package replication

import (
	"net/http"

	"waypost"
)

// Testimony is what a follower knows of a history that PostgreSQL may have forgotten, as the
// control plane has signed it. What a follower could add has no signature, and could only be guessed at.
type Testimony struct {
	Position waypost.Position
	Digest   uint64 // root digest there
	At       int64  // when that was the head, by the origin's clock, Unix milliseconds
}

// hear takes in what a follower has seen signed. What is not signed by this cluster's key
// says nothing.
func (s *Server) hear(r *http.Request) {
	text := r.Header.Get(HeaderWitness)
	if text == "" || s.cfg.Signer == nil || s.cfg.Witness == nil {
		return
	}
	said, err := s.cfg.Signer.Witness(text)
	if err != nil {
		s.cfg.Logger.Warn("what a follower has seen is not believed", "node", bounded(r.Header.Get(HeaderNode)), "error", err)
		return
	}
	s.cfg.Witness(r.Context(), said)
}
