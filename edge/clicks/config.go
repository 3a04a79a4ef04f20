package clicks

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"waypost"
	"waypost/internal/failpoint"
)

// Config says where a Journal is and how much it may take. Zero fields mean the
// default.
type Config struct {
	// Dir is required, is made when it is missing, and is this journal's alone: it
	// is locked for as long as the journal is open.
	Dir string

	// Node is required: the name under which this edge sends its clicks, a
	// [waypost.ValidNode].
	Node string

	// SegmentBytes is the size of one journal file, 4 KiB to 64 MiB. Default: 2 MiB,
	// which is 10,000 clicks if all agents differ, and 37,000 clicks of few agents.
	SegmentBytes int64

	// MaxBytes bounds the files in Dir, dead letters and quarantine included; at least
	// four segments. On top come, for a moment, files that replace others, until these
	// are removed: one batch or pack, one segment, and one compacted segment, which is at
	// most as large as its inputs together, and had room when the merge began. As it
	// fills, clicks that wait lose detail, and at the bound they are dropped and counted.
	// Default: 2 GiB, which is a week at 500 clicks a second, but at most half of the
	// disk that is free or the journal's own, and at least eight segments.
	MaxBytes int64

	// Shards is the number of segments that are written at the same time. Default: one
	// for each processor, at most 8, and at most half of the segments that fit into
	// MaxBytes.
	Shards int

	// FlushInterval is the time after which recorded clicks become a batch while the control
	// plane keeps up. Default: 500 ms.
	FlushInterval time.Duration

	// SyncInterval, plus the time of a sync, bounds the clicks that a power cut loses:
	// older ones are on the disk, in a segment or in a batch. A killed process loses none.
	// Default: 1 s.
	SyncInterval time.Duration

	// KeepAcknowledged bounds for how long batches that the control plane counted are
	// retained, to be sent again if it loses them in a failover. They take at most an eighth
	// of MaxBytes, and are removed first when there is no room. Default: 24 h; less than 0:
	// they are not retained.
	KeepAcknowledged time.Duration

	// Profiler describes visitors. Default: only bots are told from people.
	Profiler Profiler

	// Logger gets events that an operator has to know. Default: discarded.
	Logger *slog.Logger

	// Metrics takes the journal's collector. Default: none.
	Metrics prometheus.Registerer

	disk        disk
	packBatches int   // acknowledged batches in a pack
	packBytes   int64 // of them
	exactBytes  int64 // that compacted segments may take while clicks have their time
	reuseFor    time.Duration
}

// disk holds the operations that tests let fail or hang.
type disk struct {
	allocate func(f *os.File, size int64) error
	sync     func(f *os.File) error
	rename   func(from, to string) error
}

const (
	minSegment = 4 << 10
	maxSegment = 64 << 20
	maxShards  = 8
)

func (c Config) withDefaults() (Config, error) {
	c.SegmentBytes = cmp.Or(c.SegmentBytes, failpoint.Number("bytes of a click segment", 2<<20))
	c.FlushInterval = cmp.Or(c.FlushInterval, failpoint.Limit("clicks become a batch after", 500*time.Millisecond))
	c.SyncInterval = cmp.Or(c.SyncInterval, time.Second)
	c.KeepAcknowledged = cmp.Or(c.KeepAcknowledged, failpoint.Limit("acknowledged clicks are kept", 24*time.Hour))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.packBytes = cmp.Or(c.packBytes, packBytes)
	c.packBatches = cmp.Or(c.packBatches, int(failpoint.Number("batches of a pack", packBatches)))
	c.reuseFor = cmp.Or(c.reuseFor, reuseFor)
	if c.disk.allocate == nil {
		c.disk.allocate = allocate
	}
	if c.disk.rename == nil {
		c.disk.rename = os.Rename
	}
	if c.disk.sync == nil {
		c.disk.sync = (*os.File).Sync
	}
	switch {
	case c.Dir == "":
		return c, errors.New("no directory")
	case !waypost.ValidNode(c.Node):
		return c, fmt.Errorf("%q is no name of a node", c.Node)
	case c.SegmentBytes < minSegment || c.SegmentBytes > maxSegment:
		return c, fmt.Errorf("segments of %d bytes: must be %d to %d", c.SegmentBytes, minSegment, maxSegment)
	case c.MaxBytes != 0 && c.MaxBytes < 4*c.SegmentBytes:
		return c, fmt.Errorf("%d bytes are less than four segments", c.MaxBytes)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultQuota(c.Dir, c.SegmentBytes)
	}
	c.exactBytes = failpoint.Number("bytes of exact compacted segments", c.MaxBytes/exactShare)
	if c.Shards <= 0 {
		c.Shards = min(runtime.GOMAXPROCS(0), maxShards, int(c.MaxBytes/c.SegmentBytes/2))
	}
	return c, nil
}

// retains reports whether acknowledged batches are retained at all.
func (c *Config) retains() bool { return c.KeepAcknowledged > 0 }

// defaultQuota is a week of clicks, if the disk has room for that and everything else.
func defaultQuota(dir string, segment int64) int64 {
	const week = 2 << 30
	free, err := freeBytes(dir)
	if err != nil {
		return week // opening the directory reports the error
	}
	if own, err := (&directory{root: dir}).used(); err == nil {
		free += own
	}
	return max(min(week, free/2), 8*segment)
}

// freeBytes is the room on the disk of a directory, or of the parent it will be made in.
func freeBytes(dir string) (int64, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return int64(s.Bavail) * s.Bsize, nil
		}
		up := filepath.Dir(dir)
		if !os.IsNotExist(err) || up == dir {
			return 0, os.NewSyscallError("statfs", err)
		}
		dir = up
	}
}
