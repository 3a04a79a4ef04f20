package upstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/replication"
)

// Replica is what is asked first. All methods may be called by many goroutines at once,
// and none waits.
type Replica interface {
	// Link, Domain and Targets are those of edge.Links.
	Link(domain waypost.DomainID, code, buf []byte) (rec waypost.Record, grown []byte, found bool, err error)
	Domain(host []byte) (waypost.DomainID, bool)
	Targets(domain waypost.DomainID) waypost.DomainTargets

	Position() waypost.Position
	Cluster() (replication.Cluster, bool)

	// Issuable reports whether any code of a prefix can have been issued, and Issued whether that of one
	// of its counters can.
	Issuable(prefix int) bool
	Issued(prefix int, counter int64) bool
}

// Source is the control plane: see [replication.Asker]. It has no record of a link
// that is not there.
type Source interface {
	Ask(ctx context.Context, domain waypost.DomainID, code []byte) (record []byte, head replication.Head, err error)
}

// Config of Links. Zero fields mean the default.
type Config struct {
	Replica Replica // required
	Source  Source  // required

	// Fresh reports whether the replica is at the head, as far as is known. While it is
	// not, nothing is asked, and nothing is said of what was never issued. Required.
	Fresh func() bool

	Timeout   time.Duration // for one question; 150 ms
	AtOnce    int           // questions; 16
	PerSecond int           // questions; 100
	Negative  time.Duration // for which an unknown code is not asked for again; 1 s
	Remember  int           // unknown codes; 4096
	Hold      int           // answers ahead of the replica; 256
	HoldFor   time.Duration // an answer, at most; 10 s

	// Failures is after how many in a row nothing is asked for a while, which doubles
	// from MinPause to MaxPause; 3, 1 s, 30 s.
	Failures           int
	MinPause, MaxPause time.Duration

	Logger  *slog.Logger          // default: discarded
	Metrics prometheus.Registerer // default: none
	Clock   func() time.Time      // default: time.Now
}

func (c Config) withDefaults() Config {
	setDefault(&c.Timeout, 150*time.Millisecond)
	setDefault(&c.AtOnce, 16)
	setDefault(&c.PerSecond, 100)
	setDefault(&c.Negative, time.Second)
	setDefault(&c.Remember, 4096)
	setDefault(&c.Hold, 256)
	setDefault(&c.HoldFor, 10*time.Second)
	setDefault(&c.Failures, 3)
	setDefault(&c.MinPause, time.Second)
	setDefault(&c.MaxPause, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
