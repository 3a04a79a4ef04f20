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

	// SegmentBytes is the size of one journal file, 4 KiB to 64 MiB. Default: 8 MiB,
	// which is some 250,000 clicks.
	SegmentBytes int64

	// MaxBytes bounds what Dir holds, dead letters and quarantine included; at least
	// four segments. At the bound, clicks are dropped and counted. Default: 256 MiB.
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

	// Beside is the lock of a journal in Dir that another process has open, as that
	// one gave it away with [Journal.Lock]. Each of the two then keeps to the files of
	// its own boots, until Adopt. Open takes the file, whatever comes of it. Default:
	// this journal is alone, and takes over what earlier boots left.
	Beside *os.File

	// Logger gets what an operator has to know. Default: discarded.
	Logger *slog.Logger

	// Metrics takes the journal's collector. Default: none.
	Metrics prometheus.Registerer

	disk disk
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
		c.SegmentBytes = 8 << 20
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 256 << 20
	}
	if c.FlushInterval <= 0 {
		c.FlushInterval = 500 * time.Millisecond
	}
	if c.SyncInterval <= 0 {
		c.SyncInterval = time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
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
	case c.MaxBytes < 4*c.SegmentBytes:
		return c, fmt.Errorf("%d bytes are less than four segments", c.MaxBytes)
	}
	if c.Shards <= 0 {
		c.Shards = min(runtime.GOMAXPROCS(0), maxShards, int(c.MaxBytes/c.SegmentBytes/2))
	}
	return c, nil
}
