package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressLine reports progress: on a terminal by a line that changes in place, below
// all others, and elsewhere, such as in a log, by a line now and then.
type progressLine struct {
	to       io.Writer
	terminal bool
	every    time.Duration // at most one report in this time

	mu    sync.Mutex
	last  time.Time
	shown bool // the line of the terminal
}

func newProgressLine(to io.Writer) *progressLine {
	if onTerminal(to) {
		return &progressLine{to: to, terminal: true, every: 200 * time.Millisecond}
	}
	return &progressLine{to: to, every: progressEvery, last: time.Now()}
}

// progressEvery separates two lines of progress in a log.
const progressEvery = 10 * time.Second

// clearLine moves to the beginning of a terminal's line and empties it.
const clearLine = "\r\033[K"

// show reports progress if the last report is long enough ago.
func (l *progressLine) show(now time.Time, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.last) < l.every {
		return
	}
	l.last = now
	if l.terminal {
		l.shown, format = true, clearLine+format
	} else {
		format += "\n"
	}
	_, _ = fmt.Fprintf(l.to, format, args...) // a failed report is no reason to stop
}

func (l *progressLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		l.shown = false
		_, _ = io.WriteString(l.to, clearLine) // as for a report
	}
	return l.to.Write(p)
}

// finish removes the line from a terminal.
func (l *progressLine) finish() {
	_, _ = l.Write(nil)
}

// shareOf describes how much of a file is read; "" when the size is unknown (0).
func shareOf(size, read int64) string {
	if size == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %% of the file", min(100*read/size, 100))
}
