package clicks

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	// which is 10,000 clicks whose agents all differ, and 37,000 whose agents are few.
	SegmentBytes int64

	// MaxBytes bounds what Dir holds, dead letters and quarantine included; at least
	// four segments. As it fills, clicks that wait lose detail, and at the bound they are
	// dropped and counted. Default: 2 GiB, which is a week at 500 clicks a second,
	// but at most half of the disk that is free or the journal's own, and at least eight
	// segments.
	MaxBytes int64

	// Shards is the number of segments that are written at the same time. Default:
	// one for each processor, at most 8, and at most half of what MaxBytes holds.
	Shards int

	// FlushInterval is how often what was recorded is fixed as a batch while the
	// control plane keeps up with them. Default: 500 ms.
	FlushInterval time.Duration

	// SyncInterval bounds what a power cut loses, together with the time that the
	// disk takes for a sync: what was recorded before is then on the disk, in a
	// segment or in a batch. A killed process loses nothing. Default: 1 s.
	SyncInterval time.Duration

	// KeepAcknowledged is how long batches that the control plane has counted are kept, to be
	// sent again should it lose them in a failover; they take at most an eighth of MaxBytes, and
	// are the first to go when there is no room. Default: 24 h; less than 0: they are not
	// kept.
	KeepAcknowledged time.Duration

	// Beside is the lock of a journal in Dir that another process has open, as that
	// one gave it away with [Journal.Lock]. Each of the two then keeps to the files of
	// its own boots, until Adopt. Open takes the file, whatever comes of it. Default:
	// this journal is alone, and takes over what earlier boots left.
	Beside *os.File

	// Audience tells who clicked. Default: nobody is told, only bots from people.
	Audience Audience

	// Logger gets what an operator has to know. Default: discarded.
	Logger *slog.Logger

	// Metrics takes the journal's collector. Default: none.
	Metrics prometheus.Registerer

	disk        disk
	packBatches int   // acknowledged batches in a pack
	packBytes   int64 // of them
	exactBytes  int64 // that folds may take while clicks have their time
	wearing     time.Duration
}

// disk is what tests let fail.
type disk struct {
	allocate func(f *os.File, size int64) error
	sync     func(f *os.File) error
}

const (
	minSegment = 4 << 10
	maxSegment = 64 << 20
	maxShards  = 8
)

func (c Config) withDefaults() (Config, error) {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = failpoint.Number("bytes of a click segment", 2<<20)
	}
	if c.FlushInterval <= 0 {
		c.FlushInterval = failpoint.Limit("clicks become a batch after", 500*time.Millisecond)
	}
	if c.SyncInterval <= 0 {
		c.SyncInterval = time.Second
	}
	if c.KeepAcknowledged == 0 {
		c.KeepAcknowledged = failpoint.Limit("acknowledged clicks are kept", 24*time.Hour)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.packBytes == 0 {
		c.packBytes = packBytes
	}
	if c.packBatches == 0 {
		c.packBatches = int(failpoint.Number("batches of a pack", packBatches))
	}
	if c.wearing == 0 {
		c.wearing = wearing
	}
	if c.disk.allocate == nil {
		c.disk.allocate = allocate
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
	c.exactBytes = failpoint.Number("bytes of exact folds", c.MaxBytes/exactShare)
	if c.Shards <= 0 {
		c.Shards = min(runtime.GOMAXPROCS(0), maxShards, int(c.MaxBytes/c.SegmentBytes/2))
	}
	return c, nil
}
