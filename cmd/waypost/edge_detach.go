package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"waypost/cmd/waypost/internal/datadir"
	"waypost/edge/replica"
)

// frozenName is where the copy of the replica is that answers while a successor has
// the replica itself. What is left over there by a process that was killed is removed.
const frozenName = "frozen"

// What a predecessor hands over, besides listeners.
const (
	lockFile  = "data directory"
	clickFile = "click journal"
)

// openDirectory takes the directory over, or opens it.
func (s *edgeStore) openDirectory() (*datadir.Dir, error) {
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

// orTakeOver says what else can be done about a directory that is in use.
func orTakeOver(err error) error {
	if errors.Is(err, datadir.ErrInUse) {
		return fmt.Errorf("%w, or take its place with --takeover", err)
	}
	return err
}

// takeOver opens what a predecessor has let go of. One that answers from a copy had a
// replica, and can go on from it; without one this edge would answer nothing.
func (s *edgeStore) takeOver() error {
	if err := s.open(); err != nil {
		return err
	}
	_, err := os.Stat(s.dir.Path(frozenName))
	if _, holds := s.Cluster(); holds || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(fmt.Errorf("the replica in %s cannot be read by this process", s.root), err, s.db.Swap(nil).Close(), s.dir.Close())
}

// detach gives the replica up to a successor, and answers from a copy that stays as it
// is. Nothing may be applied meanwhile. After an error all is as before.
func (s *edgeStore) detach() error {
	db := s.db.Load()
	if db == nil {
		return nil
	}
	if _, holds := db.Cluster(); holds {
		if err := os.RemoveAll(s.dir.Path(frozenName)); err != nil {
			return err
		}
		frozen, err := db.Freeze(s.dir.Path(frozenName))
		if err != nil {
			return err
		}
		s.frozen.Store(frozen)
	}
	s.db.Store(nil)
	if err := db.Close(); err != nil {
		// What was applied is synced; the successor finds out what else may be wrong.
		s.log.Error("the replica was not closed in order", "error", err)
	}
	return nil
}

// attach takes the replica back, however long that takes.
func (s *edgeStore) attach(ctx context.Context) {
	const again = time.Second
	for ctx.Err() == nil {
		db, err := replica.Open(replica.Config{Dir: s.dir.Path("replica"), Logger: s.log, Registerer: s.meters})
		if err == nil {
			s.db.Store(db)
			if err := s.preferFresh(db); err != nil {
				s.log.Error("the copy of the replica was not closed in order", "error", err)
			}
			return
		}
		s.log.Error("the replica cannot be opened again; a copy answers, and takes no changes", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// preferFresh ends the answering from a copy, once the replica holds something. If a
// successor left it unreadable, that is after the next snapshot.
func (s *edgeStore) preferFresh(db *replica.DB) error {
	if s.frozen.Load() == nil {
		return nil
	}
	if _, holds := db.Cluster(); !holds {
		return nil
	}
	return s.thaw()
}

// thaw closes the copy, if there is one, after its last reader.
func (s *edgeStore) thaw() error {
	frozen := s.frozen.Swap(nil)
	if frozen == nil {
		return nil
	}
	return errors.Join(frozen.Close(), os.RemoveAll(s.dir.Path(frozenName)))
}

// inherit removes what a predecessor, which has ended, may have left.
func (s *edgeStore) inherit() error {
	return errors.Join(s.dir.Sign(), os.RemoveAll(s.dir.Path(frozenName)))
}
