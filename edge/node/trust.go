package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/replication"
)

// trustFile holds the key with which the control plane signs, and the newest position
// that this edge has seen signed.
const trustFile = "control.key"

// openTrust reads the pinned key. An unreadable file is set aside, and the next key is
// pinned, because an edge that follows no control plane would be worse.
func (s *store) openTrust() error {
	path := filepath.Join(s.root, trustFile)
	kept, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		kept, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("read the control plane's key: %w", err)
	}
	s.trust, err = replication.NewTrust(kept, s.keepTrust)
	if err == nil {
		return nil
	}
	s.log.Error("cannot read the pinned key of the control plane; it is set aside, and the next key is pinned", "error", err)
	if err := atomicfile.SetAside(path); err != nil {
		return fmt.Errorf("set aside the control plane's key: %w", err)
	}
	s.trust, err = replication.NewTrust(nil, s.keepTrust)
	return err
}

// keepTrust makes the pinned key durable, at once or when there is a directory. The
// follower's goroutine calls it, and makes the directory.
func (s *store) keepTrust(document []byte) error {
	select {
	case <-s.opened:
		return atomicfile.Write(s.dir.Path(trustFile), document, 0o600)
	default:
		s.untilOpened.Store(&document)
		return nil
	}
}

// recall lets the last batch that is kept for peers vouch for the replica's position,
// also after a restart.
func (s *store) recall(db *replica.DB) {
	cluster, kept, err := db.LastKept()
	if err == nil && kept != nil {
		err = s.trust.Recall(cluster, kept)
	}
	if err != nil {
		s.log.Warn("cannot recall the last signed batch: peers wait until this edge hears from its source", "error", err)
	}
}
