package upstream

// Remembered is how many unknown codes are remembered.
func (l *Links) Remembered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.unknown.until)
}
