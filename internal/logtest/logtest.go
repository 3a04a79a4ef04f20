// Package logtest lets tests read logs and output while they are written.
package logtest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Buffer keeps the text written to it. Zero is empty, and goroutines may share it.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written until now.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger returns a logger that writes to the buffer.
func (b *Buffer) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
