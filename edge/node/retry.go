package node

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// levelOf returns the level for a line about a failure that follows a number of others:
// the first, second, third, fifth, ninth and so on are shown, and the rest when
// debugging.
func levelOf(failures int, shown slog.Level) slog.Level {
	if failures&(failures-1) == 0 {
		return shown
	}
	return slog.LevelDebug
}

// pauseAfter waits between a failure that follows a number of others and the next try:
// 0.2 s and ever longer, 10 s at most, and less by chance, because many edges may fail at
// the same moment. It returns false when ctx ends.
func pauseAfter(ctx context.Context, failures int) bool {
	wait := min(200*time.Millisecond<<min(failures, 10), 10*time.Second)
	select {
	case <-time.After(wait/2 + rand.N(wait/2)):
		return true
	case <-ctx.Done():
		return false
	}
}
