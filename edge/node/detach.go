package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"waypost/edge/replica"
	"waypost/internal/datadir"
)

// frozenName is the directory of the copy that answers while a successor has the replica
// itself. A start removes the copy of a process that was killed.
const frozenName = "frozen"

// Names of the files that a predecessor hands over, besides listeners. The last is the
// lock of the data directory again, and means that there is a replica.
const (
	lockFile    = "data directory"
	clickFile   = "click journal"
	replicaFile = "replica"
)

// openDirectory opens the directory, or takes it over from a predecessor.
func (s *store) openDirectory() (*datadir.Dir, error) {
	if s.succession != nil {
		if lock := s.succession.Take(lockFile); lock != nil {
			return datadir.Adopt(s.root, datadir.Edge, lock)
		}
	}
	dir, err := datadir.Open(s.root, datadir.Edge, 0o700)
	if err != nil {
		return nil, orTakeOver(err)
	}
	if err := os.RemoveAll(dir.Path(frozenName)); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// orTakeOver adds the other remedy for a directory that is in use.
func orTakeOver(err error) error {
	if errors.Is(err, datadir.ErrInUse) {
		return fmt.Errorf("%w, or take its place with --takeover", err)
	}
	return err
}

// takeOver opens the directory of a predecessor. If the predecessor had a replica, this
// process must be able to read it: otherwise the predecessor goes on.
func (s *store) takeOver() error {
	had := s.succession.Take(replicaFile)
	if had != nil {
		if err := had.Close(); err != nil {
			return err
		}
	}
	if err := s.open(); err != nil {
		return err
	}
	if _, holds := s.Cluster(); holds || had == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("the replica in %s cannot be read by this process", s.root), s.release(), s.dir.Close())
}

// detach leaves the replica to a successor, and answers from its present state: from
// memory, or from a copy if memory does not hold all of it. Nothing may be applied
// meanwhile. After an error nothing has changed.
func (s *store) detach(ctx context.Context) error {
	db := s.live()
	if db == nil {
		return nil
	}
	var frozen *replica.DB
	if _, holds := db.Cluster(); holds {
		err := db.Detach(ctx)
		if err == nil {
			s.set(nil, db)
			return nil
		}
		s.log.Info("a copy of the replica answers during the takeover", "reason", err)
		if err := os.RemoveAll(s.dir.Path(frozenName)); err != nil {
			return err
		}
		frozen, err = db.Freeze(s.dir.Path(frozenName))
		if err != nil {
			return err
		}
	}
	s.set(nil, frozen)
	if err := db.Close(); err != nil {
		// Applied changes are synced; the successor notices other damage.
		s.log.Error("cannot close the replica in order", "error", err)
	}
	return nil
}

// attach takes the replica back, and tries until ctx ends.
func (s *store) attach(ctx context.Context) {
	const pause = time.Second
	for ctx.Err() == nil {
		err := s.tryAttach(ctx)
		if err == nil {
			return
		}
		s.log.Error("cannot open the replica again; this edge answers, and takes no changes", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (s *store) tryAttach(ctx context.Context) error {
	cfg := s.replicaConfig(s.dir)
	var why error
	old := s.frozen()
	if old != nil && old.Detached() {
		if why = old.Attach(ctx); why == nil {
			s.set(old, nil)
			return nil
		}
		cfg.Registerer = nil // the detached replica keeps the metrics until it is closed
	}
	// An unreadable replica is set aside, and the frozen one answers until the next
	// snapshot.
	db, err := replica.Open(cfg)
	if err != nil {
		return errors.Join(why, err)
	}
	s.set(db, old)
	if err := s.preferFresh(db); err != nil {
		s.log.Error("cannot close the frozen replica in order", "error", err)
	}
	return nil
}

// preferFresh drops the frozen replica once the live one holds something. If a successor
// left the live one unreadable, that is after the next snapshot.
func (s *store) preferFresh(db *replica.DB) error {
	if s.frozen() == nil {
		return nil
	}
	if _, holds := db.Cluster(); !holds {
		return nil
	}
	return s.thaw()
}

// release closes the replica that takes changes, if there is one.
func (s *store) release() error {
	live := s.live()
	if live == nil {
		return nil
	}
	s.set(nil, s.frozen())
	return live.Close()
}

// thaw closes the frozen replica, if there is one, after its last reader.
func (s *store) thaw() error {
	frozen := s.frozen()
	if frozen == nil {
		return nil
	}
	s.set(s.live(), nil)
	return errors.Join(frozen.Close(), os.RemoveAll(s.dir.Path(frozenName)))
}

// inherit removes the copy of a predecessor that has ended.
func (s *store) inherit() error {
	return errors.Join(s.dir.Sign(), os.RemoveAll(s.dir.Path(frozenName)))
}
