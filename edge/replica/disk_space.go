package replica

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"waypost/replication"
)

// ErrLowDisk means that the disk has less room than must stay free. Changes wait until
// there is more.
var ErrLowDisk = replication.ErrNoRoom

const (
	// The default part of a disk that must stay free; of a small one the share.
	defaultMinFree      = 512 << 20
	defaultMinFreeShare = 0.02
	// spacePause bounds the age of a measurement.
	spacePause = 100 * time.Millisecond
)

// MinFree is the part of a disk that must stay free, in bytes or, with a share, also that
// part of it. Zero is the default, a negative number none.
type MinFree struct {
	Bytes int64
	Share float64 // 0 to 1
}

// of returns the bytes that must stay free of a disk.
func (m MinFree) of(total int64) int64 {
	switch {
	case m == MinFree{}:
		return min(defaultMinFree, int64(float64(total)*defaultMinFreeShare))
	case m.Bytes < 0:
		return 0
	}
	return max(m.Bytes, int64(float64(total)*m.Share))
}

// diskSpace measures the room on the disk. Its first fields are set when it is made.
type diskSpace struct {
	dir     string
	minFree MinFree
	log     *slog.Logger
	look    func(dir string) (free, total int64, err error) // nil: there is no limit

	mu struct {
		sync.Mutex
		at    time.Time // of the last measurement
		free  int64
		least int64
		low   bool
	}
}

// DiskSpace returns the free and the total bytes of a directory's file system, by statfs.
func DiskSpace(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, os.NewSyscallError("statfs", err)
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

// low returns ErrLowDisk while there is less room than must stay free. It needs a tenth
// more to recover, so that it does not flutter.
func (s *diskSpace) low() error {
	if s.look == nil {
		return nil
	}
	m := &s.mu
	m.Lock()
	defer m.Unlock()
	if now := time.Now(); m.at.IsZero() || now.Sub(m.at) >= spacePause {
		free, total, err := s.look(s.dir)
		if err != nil { // means nothing: a write will fail if there is no room
			s.log.Debug("cannot measure the disk's free space", "error", err)
			return nil
		}
		m.at, m.free, m.least = now, free, s.minFree.of(total)
		switch low := free < m.least || m.low && free < m.least+m.least/10; {
		case low && !m.low:
			s.log.Error("refusing changes because the disk is almost full; serving the present links", "free", free, "must_stay_free", m.least)
			m.low = true
		case !low && m.low:
			s.log.Info("taking changes again, because the disk has room", "free", free, "must_stay_free", m.least)
			m.low = false
		}
	}
	if m.low {
		return fmt.Errorf("%w: %d bytes are free of which %d must stay", ErrLowDisk, m.free, m.least)
	}
	return nil
}

// fits refuses a snapshot of that many records, if it needs more bytes than are free.
func (s *diskSpace) fits(need int64, records uint64) error {
	if s.look == nil {
		return nil
	}
	m := &s.mu
	m.Lock()
	defer m.Unlock()
	if m.least > 0 && need > m.free-m.least {
		return fmt.Errorf("%w: a snapshot of %d links needs about %d MiB in addition to the present replica, and %d MiB are free of which %d must stay: "+
			"make room, or stop this edge and remove its replica", ErrLowDisk, records, need>>20, m.free>>20, m.least>>20)
	}
	return nil
}
