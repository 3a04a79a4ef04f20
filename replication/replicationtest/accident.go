package replicationtest

import "waypost"

// Empty removes all rows, in a new history that goes on from here, like a control plane
// that was pointed at another database.
func (s *Source) Empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rows)
	s.digest = 0
	s.openEpoch(s.tail().Seq)
	s.tell()
}

// CommitSpoilt commits a record as a faulty version would encode it.
func (s *Source) CommitSpoilt(r waypost.Record, spoil func(raw []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.commit(r)
	spoil(t.Records[0])
	s.tell()
}

// tell wakes who waits for changes. s.mu is held.
func (s *Source) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
