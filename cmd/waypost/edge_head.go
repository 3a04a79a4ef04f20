package main

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

// headFile is where an edge keeps when its replica was last known to be at the head: one
// line, "waypost-head 1 TIME ORIGIN". It is a file, and not a part of the replica, because it
// changes while no link does, and outlives a store that a snapshot replaces; and because
// a store that is given to a successor, or fails, takes nothing more.
const headFile = "head.seen"

// headSeen says that a replica was at the head.
type headSeen struct {
	at       time.Time        // by the edge's clock; what came through others: by PostgreSQL's; zero: not known
	origin   int64            // Unix milliseconds, by PostgreSQL's clock: of the head
	position waypost.Position // of the replica; not in the file
}

const (
	headFormat = "waypost-head 1 "
	headTime   = "2006-01-02T15:04:05.000Z" // UTC; what is less than a millisecond is cut off, which makes it older
	maxHead    = 256                        // bytes
)

// errHead says that a file is not one that this version writes.
var errHead = errors.New("it is not what this version writes")

// line is what the file holds.
func (h headSeen) line() []byte {
	return []byte(headFormat + h.at.UTC().Format(headTime) + " " + time.UnixMilli(h.origin).UTC().Format(headTime) + "\n")
}

// parseHead reads the line. It takes nothing but what headSeen.line gives.
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

// heard is what was heard of the origin, for the first follower of a process: what a control
// plane tells again that has heard nothing of PostgreSQL meanwhile is no news.
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

// recallHead gives what the file says of the replica, once the directory is this process's. An empty replica is of no age, and whatever
// fills it writes its own. Whatever is wrong with the file, the edge runs.
func (s *edgeStore) recallHead() headSeen {
	if s.dir == nil {
		return headSeen{}
	}
	path := s.dir.Path(headFile)
	if _, holds := s.Cluster(); !holds {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("what is remembered of another replica cannot be removed", "error", err)
		}
		return headSeen{}
	}
	text, err := readHead(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.log.Info("nothing tells when the replica was last at the head: its age is counted from this start")
		return headSeen{}
	}
	var h headSeen
	if err == nil {
		h, err = parseHead(text)
	}
	if err == nil {
		if ahead := time.Until(h.at); ahead > 0 {
			s.log.Warn("the replica was last at the head at a time that is yet to come: its age is counted from this start", "at", h.at, "ahead", ahead)
		}
		return h
	}
	s.log.Error("when the replica was last at the head cannot be read; the file is set aside, and the age is counted from this start", "error", err)
	if err := os.Rename(path, fmt.Sprintf("%s.unreadable-%d", path, time.Now().Unix())); err != nil {
		s.log.Error("the file cannot be set aside", "error", err)
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

// keepHead implements [headStore]. Who has a replica has a directory.
func (s *edgeStore) keepHead(h headSeen) error {
	return atomicfile.Write(s.dir.Path(headFile), h.line(), 0o600)
}
