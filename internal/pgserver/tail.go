package pgserver

import (
	"bytes"
	"strings"
	"sync"
)

// tailSize bounds the output of a child that is kept for an error message.
const tailSize = 8 << 10

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.kept)
}

// reason picks the line of PostgreSQL's output that says why it ended: the last
// fatal one, or else simply the last.
func reason(out []byte) string {
	why := "it wrote nothing"
	fatal := false
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		is := strings.Contains(line, "FATAL: ") || strings.Contains(line, "PANIC: ") || strings.Contains(line, "error: ")
		if line != "" && (is || !fatal) {
			why, fatal = line, is
		}
	}
	return why
}
