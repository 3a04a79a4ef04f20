package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"waypost"
	"waypost/internal/atomicfile"
	"waypost/replication"
)

// headFile holds the time at which the replica was last known to be at the head, as a
// [keptHead] in JSON. It is not a part of the replica, because it changes while no link
// does, outlives a store that a snapshot replaces, and can be written when the store
// takes nothing more.
const headFile = "head.seen"

const maxHead = 256 // bytes of the file

// keptHead is the content of the file.
type keptHead struct{ At, Origin time.Time }

// headSeen is one moment at which a replica was at the head.
type headSeen struct {
	at       time.Time        // by the edge's clock; news through other edges: by PostgreSQL's; zero: unknown
	origin   int64            // of the head, in Unix milliseconds by PostgreSQL's clock
	position waypost.Position // of the replica; not in the file
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

// recallHead reads the file. The file of a replica that is gone is removed. No fault of
// the file keeps an edge from running.
func (s *store) recallHead() headSeen {
	path := s.dir.Path(headFile)
	if !s.holds() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("cannot remove the age of another replica", "error", err)
		}
		return headSeen{}
	}
	h, err := readHead(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.log.Info("counting the replica's age from this start, because the last head is unknown")
		return headSeen{}
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

func readHead(path string) (h headSeen, err error) {
	text, err := atomicfile.Read(path, maxHead)
	if err != nil {
		return h, err
	}
	var kept keptHead
	if err := json.Unmarshal(text, &kept); err != nil {
		return h, err
	}
	if kept.At.Before(time.Unix(0, 0)) || kept.Origin.Before(time.Unix(0, 0)) {
		return h, errors.New("its times are impossible")
	}
	return headSeen{at: kept.At, origin: kept.Origin.UnixMilli()}, nil
}

// keepHead implements [headStore].
func (s *store) keepHead(h headSeen) error {
	text, err := json.Marshal(keptHead{h.at.UTC(), time.UnixMilli(h.origin).UTC()})
	if err != nil {
		return err
	}
	return atomicfile.Write(s.dir.Path(headFile), text, 0o600)
}
