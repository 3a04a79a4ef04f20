package replica

import (
	"errors"
	"fmt"
)

// end lets another restore begin. The caller holds db.mu.
func (r *restore) end() {
	r.stop()
	r.ended, r.db.restoring = true, nil
}

// Suspend implements replication.Restore.
func (r *restore) Suspend() error { return r.leave(true) }

// Abort implements replication.Restore.
func (r *restore) Abort() error { return r.leave(false) }

func (r *restore) leave(keep bool) error {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	if r.ended {
		return nil
	}
	if !keep {
		r.stop()
	}
	var err error
	if r.writing != nil {
		if err := <-r.writing; err != nil { // told already, or of no importance any more
			r.db.cfg.Logger.Debug("a restore has ended", "error", err)
		}
	}
	r.end()
	r.db.restores.Add(-1)
	if r.st != nil {
		err = r.st.closePebble()
		if t := r.st.table.Swap(nil); t != nil {
			r.table = t
		}
	}
	if r.table != nil {
		r.db.endTable(r.table, [4]uint64{})
		r.db.wakeFill()
	}
	if !keep || !r.durable {
		err = errors.Join(err, r.remove())
	}
	if err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	return nil
}

// remove takes the files of a restore away.
func (r *restore) remove() error {
	r.db.cfg.Points.Hit("remove restore: begun")
	err := r.db.fs.RemoveAll(r.db.path(r.dir()))
	r.db.cfg.Points.Hit("remove restore: tables removed")
	if !r.keep {
		err = errors.Join(err, r.db.fs.RemoveAll(r.db.path(storeName(r.number))))
	}
	return err
}
