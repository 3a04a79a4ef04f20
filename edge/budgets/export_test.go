package budgets

import "os"

// BreakFile makes every further write to the file fail, as a broken disk does.
func (s *Store) BreakFile() error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.file.Close()
}

// SlowDisk calls wait before each sync of the file.
func (s *Store) SlowDisk(wait func()) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.sync = func(f *os.File) error {
		wait()
		return f.Sync()
	}
}

// Kill ends the store as kill -9 does: nothing is written or reported any more.
func (s *Store) Kill() { s.over.Store(true) }
