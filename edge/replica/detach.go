package replica

import (
	"context"
	"errors"
	"fmt"

	"waypost"
)

// errDetached is what a detached replica answers to whoever wants to change it.
var errDetached = waypost.Errorf(waypost.EUnavailable, "the replica is detached from its directory")

// Detach gives the replica's directory up, with its lock, so that another process
// can open it, and goes on answering from memory: Link, Domain, Position and the like
// stay as they are, and nothing is applied any more. What was applied is durable
// before.
//
// It fails, and nothing is changed, when the lookup table does not hold all links, or
// a restore is under way, or the replica is degraded. It is called once Apply has
// returned, waits for reads of the store that are under way, and takes no notice of ctx
// once it has begun.
func (db *DB) Detach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("detach the replica: %w", err)
	}
	if err := db.beginDetach(); err != nil {
		return fmt.Errorf("detach the replica: %w", err)
	}
	err := db.sync()
	if err == nil {
		err = db.failed() // what has failed meanwhile is not synced again
	}
	if err != nil {
		db.mu.Lock()
		db.detached = false
		db.mu.Unlock()
		db.wakeFill()
		return fmt.Errorf("detach the replica: %w", err)
	}
	// The stores that were replaced are removed while the directory is still ours.
	db.retirements.Wait()

	db.mu.Lock()
	old := db.live.Load()
	answering := &store{
		name: old.name, health: newHealth(old.health.log), loaded: true, domains: old.domains, byDays: old.byDays,
		drained: make(chan struct{}, 1),
	}
	answering.applied.Store(old.applied.Load())
	answering.synced.Store(old.synced.Load())
	answering.hosts.Store(old.hosts.Load())
	answering.salts.Store(old.salts.Load())
	answering.table.Store(old.table.Load())
	db.live.Store(answering)
	old.comparing.end(errCompared)
	db.mu.Unlock()

	old.awaitReaders()
	if err := old.closePebble(); err != nil {
		db.cfg.Logger.Warn("closing the store that the replica is detached from", "error", err)
	}
	if err := db.dirLock.Close(); err != nil {
		db.cfg.Logger.Warn("giving up the lock on the replica", "error", err)
	}
	db.dirLock = nil
	db.cfg.Logger.Info("the replica is detached and answers from memory", "links", answering.table.Load().Stats().Entries)
	return nil
}

// beginDetach judges whether the replica can, and keeps it from changing.
func (db *DB) beginDetach() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch st := db.live.Load(); {
	case db.closed.Load():
		return errClosed
	case db.detached:
		return errDetached
	case st == nil:
		return errEmpty
	case db.restoring != nil, db.repairing != nil:
		return errors.New("a restore or a repair is under way")
	case st.table.Load() == nil || !st.table.Load().IsComplete():
		return errIncomplete
	case st.health.err() != nil:
		return fmt.Errorf("it is degraded: %w", st.health.err())
	}
	db.detached = true
	return nil
}

// Detached reports whether the replica has given up its directory.
func (db *DB) Detached() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.detached
}

// Attach takes the directory back after Detach, in whatever state another process
// has left it, and changes are taken again. It fails, and the replica stays detached,
// while that process has it, or when what is there cannot be read.
func (db *DB) Attach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("attach the replica: %w", err)
	}
	if db.closed.Load() {
		return errClosed
	}
	if !db.Detached() {
		return errors.New("attach the replica: it is not detached")
	}
	if err := db.lock(); err != nil {
		return err
	}
	name, err := db.readCurrent()
	if err == nil && name == "" {
		err = errEmpty
	}
	var st *store
	if err == nil {
		st, err = db.openExisting(name)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("attach the replica: %w", err), db.dirLock.Close())
		db.dirLock = nil
		return err
	}

	db.mu.Lock()
	answering := db.live.Load()
	table := answering.table.Load()
	// What was applied meanwhile is not in the table.
	if same := name == answering.name && *st.applied.Load() == *answering.applied.Load(); same {
		st.loaded = true
		st.table.Store(table)
		table = nil
	}
	db.live.Store(st)
	answering.table.Store(nil)
	db.detached = false
	db.mu.Unlock()
	if table != nil {
		db.endTable(table, [4]uint64{})
	}
	db.wakeFill()
	return nil
}
