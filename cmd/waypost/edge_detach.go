package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"waypost/edge/replica"
	"waypost/internal/datadir"
)

// frozenName is where the copy of the replica is that answers while a successor has
// the replica itself. What is left over there by a process that was killed is removed.
const frozenName = "frozen"

// What a predecessor hands over, besides listeners. The last is the first once more, and
// says that there is a replica.
const (
	lockFile    = "data directory"
	clickFile   = "click journal"
	replicaFile = "replica"
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

// takeOver opens what a predecessor has let go of. One that had a replica can go on from
// it; without one this edge would answer nothing.
func (s *edgeStore) takeOver() error {
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
	return errors.Join(fmt.Errorf("the replica in %s cannot be read by this process", s.root), s.db.Swap(nil).Close(), s.dir.Close())
}

// detach gives the replica up to a successor, and answers as it is now: from memory, or
// from a copy if memory does not hold all of it. Nothing may be applied meanwhile. After
// an error all is as before.
func (s *edgeStore) detach(ctx context.Context) error {
	db := s.db.Load()
	if db == nil {
		return nil
	}
	if _, holds := db.Cluster(); holds {
		err := db.Detach(ctx)
		if err == nil {
			s.frozen.Store(db)
			s.db.Store(nil)
			return nil
		}
		s.log.Info("a copy of the replica answers during the takeover", "reason", err)
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
		err := s.tryAttach(ctx)
		if err == nil {
			return
		}
		s.log.Error("the replica cannot be opened again; this edge answers, and takes no changes", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func (s *edgeStore) tryAttach(ctx context.Context) error {
	cfg := s.replicaConfig(s.dir)
	var why error
	if old := s.frozen.Load(); old != nil && old.Detached() {
		if why = old.Attach(ctx); why == nil {
			s.db.Store(old)
			s.frozen.Store(nil)
			return nil
		}
		cfg.Registerer = nil // the metrics stay the detached one's, and end with it
	}
	// What cannot be read is set aside, and what answers goes on until the next snapshot.
	db, err := replica.Open(cfg)
	if err != nil {
		return errors.Join(why, err)
	}
	s.db.Store(db)
	if err := s.preferFresh(db); err != nil {
		s.log.Error("what answered meanwhile was not closed in order", "error", err)
	}
	return nil
}

// preferFresh ends the answering from what was detached, once the replica holds something. If a
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

// thaw closes what was detached, if there is any, after its last reader.
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
