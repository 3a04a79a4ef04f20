package replication

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/internal/failpoint"
)

// The routes under a node's base URL.
const (
	PathStream   = "/replication/v1/stream"
	PathSnapshot = "/replication/v1/snapshot"
	PathSums     = "/replication/v1/sums"
	PathEnrol    = "/replication/v1/enrol" // of the control plane alone
)

// Headers of a follower's request. They describe it for logs and the fleet view;
// who it is comes from its credential.
const (
	HeaderNode     = "Waypost-Node"
	HeaderRegion   = "Waypost-Region"
	HeaderPosition = "Waypost-Position"
	// HeaderWitness is the newest position that the follower has seen signed, as the
	// control plane has signed it.
	HeaderWitness = "Waypost-Witness"
)

// Headers of an answer.
const (
	// HeaderRecords is about how many records a snapshot has, if the source knows.
	HeaderRecords = "Waypost-Records"
	// HeaderBusy is "1" while as many snapshots are under way as may be: on the answer that
	// opens the stream, and on the refusal of a snapshot or of sums.
	HeaderBusy = "Waypost-Busy"
	// HeaderVia tells through which nodes the changelog comes, the nearest first, with
	// commas between. The origin leaves it out.
	HeaderVia = "Waypost-Via"
)

// ContentType is that of the stream and of the snapshot.
const ContentType = "application/vnd.waypost.replication"

// ServerConfig configures a [Server]. Zero fields mean the default.
type ServerConfig struct {
	Source     Source // required
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: metrics are kept but not registered

	// Signer signs what the source gives; nil: nothing is signed here. Trust is for a node
	// that passes on what was signed elsewhere: the key that it has pinned is told on.
	Signer *Signer
	Trust  *Trust
	// Witness hears a position that a follower presents, and that Signer has signed, before
	// the follower is let in. Nil: nobody wants to know.
	Witness func(context.Context, Testimony)

	// Via gives the nodes through which the changelog comes to whoever follows, this one
	// first. Nil: the source is the origin.
	Via func() []string

	MinPoll   time.Duration // between looks at a moving source; 10 ms
	MaxPoll   time.Duration // between looks at a quiet source; 100 ms
	Heartbeat time.Duration // 1 s

	MaxFollowers int           // on the stream at once; 1000
	MaxSnapshots int           // at once, and as many readings of sums; 4
	Turn         time.Duration // that a snapshot may take while others are refused; 30 min
	HeldBytes    int           // of frames that a snapshot holds before it sends them; 64 MiB
	RingBytes    int           // of frames kept for sharing; 32 MiB
	RingFrames   int           // kept for sharing; 4096
	ReadRecords  int           // asked of the source at once; 1024: what is cut is read twice, and 1,000 links are often committed together
	WriteTimeout time.Duration // for a follower to take 256 KiB; 10 s
	ReadTimeout  time.Duration // for one reading of the tail; 30 s

	Points *failpoint.Points // nil: nothing is done at its places
}

func (c ServerConfig) withDefaults() ServerConfig {
	setDefault(&c.Logger, slog.Default())
	setDefault(&c.MinPoll, 10*time.Millisecond)
	setDefault(&c.MaxPoll, 100*time.Millisecond)
	setDefault(&c.Heartbeat, time.Second)
	setDefault(&c.MaxFollowers, 1000)
	setDefault(&c.MaxSnapshots, 4)
	setDefault(&c.Turn, 30*time.Minute)
	setDefault(&c.HeldBytes, 64<<20)
	setDefault(&c.RingBytes, 32<<20)
	setDefault(&c.RingFrames, 4096)
	setDefault(&c.ReadRecords, 1024)
	setDefault(&c.WriteTimeout, 10*time.Second)
	setDefault(&c.ReadTimeout, 30*time.Second)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
