package node

import "waypost/internal/atomicfile"

// trustFile holds the key with which the control plane signs, and the newest position
// that this edge has seen signed.
const trustFile = "control.key"

// keepTrust makes the pinned key durable.
func (s *store) keepTrust(document []byte) error {
	return atomicfile.Write(s.dir.Path(trustFile), document, 0o600)
}

// recall lets the last batch that is kept for followers vouch for the replica's position,
// also after a restart.
func (s *store) recall() {
	cluster, kept, err := s.LastKept()
	if err == nil && kept != nil {
		err = s.trust.Recall(cluster, kept)
	}
	if err != nil {
		s.log.Warn("cannot recall the last signed batch: followers wait until this relay hears from its source", "error", err)
	}
}
