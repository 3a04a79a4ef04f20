package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/replication"
)

// trustFile is where an edge keeps the key that its control plane signs with, and the
// newest position that it has seen signed.
const trustFile = "control.key"

// openTrust recalls what was pinned. What cannot be read is set aside, and the key is
// pinned anew: that is better than an edge that follows nobody.
func (s *edgeStore) openTrust() error {
	path := filepath.Join(s.root, trustFile)
	kept, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		kept, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("recall the control plane's key: %w", err)
	}
	s.trust, err = replication.NewTrust(kept, s.keepTrust)
	if err == nil {
		return nil
	}
	s.log.Error("the control plane's key that was pinned cannot be read; it is set aside, and the next one is pinned", "error", err)
	if err := os.Rename(path, fmt.Sprintf("%s.unreadable-%d", path, time.Now().Unix())); err != nil {
		return fmt.Errorf("set aside the control plane's key: %w", err)
	}
	s.trust, err = replication.NewTrust(nil, s.keepTrust)
	return err
}

// keepTrust makes durable what was pinned: at once, or when there is a directory. The
// follower's goroutine calls it, and makes the directory.
func (s *edgeStore) keepTrust(document []byte) error {
	select {
	case <-s.opened:
		return atomicfile.Write(s.dir.Path(trustFile), document, 0o600)
	default:
		s.untilOpened.Store(&document)
		return nil
	}
}

// recall lets the last batch that is kept for peers vouch for the replica's position, also after a restart.
func (s *edgeStore) recall(db *replica.DB) {
	cluster, kept, err := db.LastKept()
	if err == nil && kept != nil {
		err = s.trust.Recall(cluster, kept)
	}
	if err != nil {
		s.log.Warn("peers can follow this edge once it has heard from its source", "error", err)
	}
}
