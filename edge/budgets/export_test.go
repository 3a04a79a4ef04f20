package budgets

// BreakFile makes every further write to the file fail, as a broken disk does.
func (s *Store) BreakFile() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}

// Kill ends the store as kill -9 does: nothing is written or reported any more.
func (s *Store) Kill() { s.over.Store(true) }
