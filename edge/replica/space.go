package replica

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"waypost/replication"
)

// ErrLowDisk says that the disk has less room than must stay free. Changes wait, and are
// taken again once there is more.
var ErrLowDisk = replication.ErrNoRoom

const (
	// By default so much of a disk must stay free, or of a small one this part.
	defaultMinFree      = 512 << 20
	defaultMinFreeShare = 0.02
	// spacePause is for how long what was found counts.
	spacePause = 100 * time.Millisecond
)

// MinFree is how much of a disk must stay free, and with a share also that part of it.
// Zero is the default, a negative number none.
type MinFree struct {
	Bytes int64
	Share float64 // 0 to 1
}

// of gives the bytes that must stay free of a disk.
func (m MinFree) of(total int64) int64 {
	switch {
	case m == MinFree{}:
		return min(defaultMinFree, int64(float64(total)*defaultMinFreeShare))
	case m.Bytes < 0:
		return 0
	}
	return max(m.Bytes, int64(float64(total)*m.Share))
}

// space knows how much room the disk has.
type space struct {
	look  func(dir string) (free, total int64, err error)
	mu    sync.Mutex
	at    time.Time
	free  int64
	least int64
	low   bool
}

// diskSpace asks the system.
func diskSpace(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, os.NewSyscallError("statfs", err)
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

// lowDisk gives ErrLowDisk while there is less room than must be. It takes a tenth more to
// come back, so that it does not flutter.
func (db *DB) lowDisk() error {
	s := &db.space
	if s.look == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.at.IsZero() || now.Sub(s.at) >= spacePause {
		free, total, err := s.look(db.cfg.Dir)
		if err != nil { // says nothing; a write will tell
			db.cfg.Logger.Debug("the disk's free space is not known", "error", err)
			return nil
		}
		s.at, s.free, s.least = now, free, db.cfg.MinFree.of(total)
		switch low := free < s.least || s.low && free < s.least+s.least/10; {
		case low && !s.low:
			db.cfg.Logger.Error("the disk is almost full: the replica takes no changes, and serves what it holds", "free", free, "must_stay_free", s.least)
			s.low = true
		case !low && s.low:
			db.cfg.Logger.Info("the disk has room again: the replica takes changes", "free", free, "must_stay_free", s.least)
			s.low = false
		}
	}
	if s.low {
		return fmt.Errorf("%w: %d bytes are free of which %d must stay", ErrLowDisk, s.free, s.least)
	}
	return nil
}

// recordBytes is what a record takes on disk when there is nothing to tell it from.
const recordBytes = 100

// Fits refuses a snapshot of so many records, 0: not known, for which the disk has no room
// beside the store that serves.
func (r *restore) Fits(records uint64) error {
	if err := r.db.lowDisk(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	r.reserve(records)
	s := &r.db.space
	if s.look == nil || s.least == 0 {
		return nil
	}
	each := int64(recordBytes)
	if st := r.db.live.Load(); st != nil && st.pdb != nil {
		if held := st.applied.Load().records; held > 100_000 {
			each = int64(st.pdb.Metrics().DiskSpaceUsage()/held) + 1
		}
		if records == 0 {
			records = st.applied.Load().records
		}
	}
	need := int64(records) * each
	for i := range r.tables {
		need -= r.tables[i].Bytes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if need > s.free-s.least {
		return fmt.Errorf("restore: %w: a snapshot of %d links needs about %d MiB beside what is there, and %d MiB are free of which %d must stay: "+
			"make room, or stop this edge and remove its replica", ErrLowDisk, records, need>>20, s.free>>20, s.least>>20)
	}
	return nil
}
