package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxLine bounds a line that has no end yet.
const maxLine = 64 << 10

// colors of the names, in the order in which they first come: ANSI, legible on
// light and dark backgrounds.
var colors = []string{"36", "33", "32", "35", "34", "31"}

// output joins the output of several processes, line by line, each line with the
// name of its process in front.
type output struct {
	color bool

	mu    sync.Mutex
	to    io.Writer
	lines map[string]*lines
}

func newOutput(to io.Writer, color bool) *output {
	return &output{to: to, color: color, lines: make(map[string]*lines)}
}

// named returns the writer of one process. A process that is started again goes on
// with the same one.
func (o *output) named(name string) *lines {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lines[name]
	if l == nil {
		l = &lines{out: o, prefix: fmt.Sprintf("%-15s | ", name)}
		if o.color {
			l.prefix = "\x1b[" + colors[len(o.lines)%len(colors)] + "m" + l.prefix + "\x1b[0m"
		}
		o.lines[name] = l
	}
	return l
}

// flush writes lines that were never ended.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, l := range o.lines {
		if len(l.partial) > 0 {
			errs = append(errs, l.emit(append(l.partial, '\n')))
			l.partial = nil
		}
	}
	return errors.Join(errs...)
}

// lines is the output of one process.
type lines struct {
	out     *output
	prefix  string
	partial []byte
	last    string // whole line, for an error message
}

func (l *lines) Write(p []byte) (int, error) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		end := bytes.IndexByte(l.partial, '\n') + 1
		if end == 0 && len(l.partial) < maxLine {
			return len(p), nil
		}
		if end == 0 {
			l.partial = append(l.partial, '\n')
			end = len(l.partial)
		}
		// A terminal that is gone must not stop the process that logs.
		_ = l.emit(l.partial[:end])
		l.partial = l.partial[:copy(l.partial, l.partial[end:])]
	}
}

func (l *lines) emit(line []byte) error {
	l.last = string(bytes.TrimRight(line, "\r\n"))
	_, err := l.out.to.Write(append([]byte(l.prefix), line...))
	return err
}

// lastLine is the newest whole line.
func (l *lines) lastLine() string {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	return l.last
}
