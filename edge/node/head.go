package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"waypost"
	"waypost/internal/atomicfile"
	"waypost/replication"
)

// headFile holds the time at which the replica was last known to be at the head, in one
// line, "waypost-head 1 TIME ORIGIN". It is not a part of the replica, because it changes
// while no link does, outlives a store that a snapshot replaces, and can be written when
// the store takes nothing more.
const headFile = "head.seen"

// headSeen is one moment at which a replica was at the head.
type headSeen struct {
	at       time.Time        // by the edge's clock; news through other edges: by PostgreSQL's; zero: unknown
	origin   int64            // of the head, in Unix milliseconds by PostgreSQL's clock
	position waypost.Position // of the replica; not in the file
}

const (
	headFormat = "waypost-head 1 "
	headTime   = "2006-01-02T15:04:05.000Z" // UTC; cut to milliseconds, which makes it older
	maxHead    = 256                        // bytes
)

var errHead = errors.New("the file has another format")

// line returns the contents of the file.
func (h headSeen) line() []byte {
	return []byte(headFormat + h.at.UTC().Format(headTime) + " " + time.UnixMilli(h.origin).UTC().Format(headTime) + "\n")
}

// parseHead reads the line. It accepts exactly the output of headSeen.line.
func parseHead(text []byte) (h headSeen, err error) {
	rest, ok := strings.CutPrefix(string(text), headFormat)
	if !ok {
		return h, errHead
	}
	at, origin, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
	var known time.Time
	if h.at, err = time.Parse(headTime, at); err == nil {
		known, err = time.Parse(headTime, origin)
	}
	if err != nil {
		return headSeen{}, fmt.Errorf("%w: %w", errHead, err)
	}
	h.origin = known.UnixMilli()
	if h.at.Before(time.Unix(0, 0)) || h.origin < 0 || string(h.line()) != string(text) {
		return headSeen{}, errHead
	}
	return h, nil
}

// heard returns the status for the first follower of a process. A control plane that has
// not reached PostgreSQL since then repeats an old head, which is then no news.
func (h headSeen) heard(now time.Time) (before replication.Status) {
	if h.at.IsZero() {
		return before
	}
	before.AdvancedAt, before.Head.At = now, h.origin
	if h.at.Before(now) {
		before.AdvancedAt = h.at
	}
	return before
}

// recallHead reads the file. The file of a
// replica that is gone is removed. No fault of the file keeps an edge from running.
func (s *store) recallHead() headSeen {
	path := s.dir.Path(headFile)
	if !s.holds() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("cannot remove the age of another replica", "error", err)
		}
		return headSeen{}
	}
	text, err := readHead(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.log.Info("counting the replica's age from this start, because the last head is unknown")
		return headSeen{}
	}
	var h headSeen
	if err == nil {
		h, err = parseHead(text)
	}
	if err == nil {
		if ahead := time.Until(h.at); ahead > 0 {
			s.log.Warn("counting the replica's age from this start, because it was last at the head at a future time", "at", h.at, "ahead", ahead)
		}
		return h
	}
	s.log.Error("cannot read when the replica was last at the head; the file is set aside, and the age is counted from this start", "error", err)
	if err := atomicfile.SetAside(path); err != nil {
		s.log.Error("cannot set the file aside", "error", err)
	}
	return headSeen{}
}

func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHead+1))
	return text, errors.Join(err, f.Close())
}

// keepHead implements [headStore].
func (s *store) keepHead(h headSeen) error {
	return atomicfile.Write(s.dir.Path(headFile), h.line(), 0o600)
}
