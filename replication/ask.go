package replication

import "waypost"

// question is one time of asking.
type question struct {
	at    waypost.Position
	again uint64
}

// Ask makes the followers say where they stand once they have a position on their disks;
// how they say it is not the stream's business. Of several positions the newest counts. It
// does not block.
func (s *Server) Ask(p waypost.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Epoch == s.asked.Epoch && p.Seq <= s.asked.Seq {
		s.again++ // those who have told may have told too early
	} else {
		s.asked = p
	}
	s.broadcast()
}

// AskAll makes the followers that are at the head, or come to it, say where they stand.
func (s *Server) AskAll() {
	s.mu.Lock()
	head := s.head.Position
	s.mu.Unlock()
	s.Ask(head)
}
