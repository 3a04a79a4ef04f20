// Package fleet knows the edges: their reports and how far they are behind, their
// credentials, and the orders that operators give them. It declares the small interfaces
// that it needs of a database.
package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/replication"
)

// Fleet tracks the edges, their state and their lag. It keeps them in memory: after a
// restart it is complete once every edge has reported, which edges do each second.
//
// An edge's own report, over an authenticated connection, takes precedence. Gossip fills
// in while an edge does not report, and is marked as such. An edge that neither knows is
// shown by the progress that [Fleet.KeepProgress] has stored: that it existed, and when.
// Which edges may be serving is in the [BootStore] before they serve.
// All methods may be called by many goroutines at once.
type Fleet struct {
	cfg     Config
	started time.Time
	boots   bootReads
	twins   map[string]bool // names of which a warning was logged; KeepProgress owns it

	mu      sync.Mutex
	nodes   map[bootKey]*fleetNode
	heads   headHistory
	noted   []controlplane.EdgeProgress // of all control planes, at the last read
	serving map[bootKey]Boot            // likewise: boots that may be serving
	notedAt time.Time                   // time of that read

	controls   map[string]ControlPlane // by name, at their last heartbeats
	controlsAt time.Time               // when those were read

	waiters int           // of WaitApplied
	news    chan struct{} // closed and replaced by a report while there are waiters
}

// bootKey names one start of an edge. Two of a name that both report are twins, such as
// an edge and a copy of its disk.
type bootKey struct {
	node string
	boot waypost.BootID
}

// Config configures a Fleet. Zero fields mean the default.
type Config struct {
	Head  HeadSource // required
	Boots BootStore  // required to take reports, and to wait for edges

	// Hints returns the edges that gossip knows, if there is gossip. It must not block.
	Hints func() []FleetHint

	// Ask makes edges report at once when they have a position on their disks. It must
	// not block. Nil: they report at their own interval.
	Ask    func(waypost.Position)
	Region waypost.Region // of this control plane

	// Own returns this control plane for the fleet view. It must not block. Nil: it has no
	// name.
	Own func() ControlPlane

	Poll   time.Duration // between looks at the head; default 500 ms
	Silent time.Duration // an edge not heard of for longer is silent; default 3 s
	Gone   time.Duration // and for longer than this, gone; default 10 min
	Forget time.Duration // and for longer than this, forgotten; default 24 h
	Max    int           // edges that are remembered; default 10,000

	Logger *slog.Logger     // default: nothing is logged
	Now    func() time.Time // default time.Now
}

// HeadSource reads the newest position of the changelog.
type HeadSource interface {
	Head(ctx context.Context) (replication.Head, error)
}

// EdgeReport is a report of an edge, with its boots and positions read. The caller has
// checked the edge's credential.
type EdgeReport struct {
	api.EdgeReport
	Boot, Continues  waypost.BootID   // Continues is zero for none
	Position, Synced waypost.Position // zero when unknown, and without a replica
	Credential       string           // of the connection; "": unknown
}

// The credentials of edges.
const (
	CredentialOwn     = "own"
	CredentialShared  = "shared"  // the token that all have
	CredentialRevoked = "revoked" // its own was
)

// FleetHint is the state of an edge by gossip.
type FleetHint struct {
	Node      string
	Region    waypost.Region
	Role      string
	Boot      waypost.BootID
	Addr      string
	Version   string
	Position  waypost.Position // on its disk
	StartedAt time.Time        // of this boot, by the edge's clock
	Alive     bool
	Left      bool // it has announced its end
	LastHeard time.Time
	Since     time.Time // when it became alive, or ceased to be
}

// The states of edges.
const (
	EdgeAlive  = "alive"
	EdgeSilent = "silent" // not heard of for a short time
	EdgeGone   = "gone"   // left on purpose, or not heard of for long
)

// The sources of information about edges.
const (
	ViaReport = "report" // from itself, authenticated
	ViaGossip = "gossip" // a hint
	ViaRecord = "record" // stored when it reported to another control plane, or before this one was started
)

// EdgeStatus describes an edge in the fleet view: its last report, or as much of a report
// as gossip or a record knows. Its age counts on until now. The lag is unknown without a
// replica, in another epoch, before the head was seen at all, and when nothing is missing
// but the age is more than [MaxAge].
type EdgeStatus struct {
	api.Edge
	Blocks *uint64 // digest of the blocks that it knows; nil: unknown
}

// fleetNode holds the last report of one boot of an edge.
type fleetNode struct {
	report EdgeReport
	first  time.Time // when its first report came
	seen   time.Time // when the last one came
	since  time.Time // the first report since it was silent, or since its boot
	noted  bool      // the store knows it
}

// New returns an empty fleet. Run computes lags.
func New(cfg Config) *Fleet {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&cfg.Poll, 500 * time.Millisecond},
		{&cfg.Silent, 3 * time.Second},
		{&cfg.Gone, 10 * time.Minute},
		{&cfg.Forget, 24 * time.Hour},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if cfg.Max <= 0 {
		cfg.Max = 10_000
	}
	if cfg.Hints == nil {
		cfg.Hints = func() []FleetHint { return nil }
	}
	if cfg.Own == nil {
		cfg.Own = func() ControlPlane { return ControlPlane{Region: cfg.Region} }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Fleet{
		cfg: cfg, started: cfg.Now(), boots: bootReads{store: cfg.Boots, turn: make(chan struct{}, 1)},
		nodes: make(map[bootKey]*fleetNode),
	}
}

// Run watches the head until ctx ends. While it cannot be read, lags are those
// behind the last one seen.
func (f *Fleet) Run(ctx context.Context) {
	controlplane.Poll(ctx, f.cfg.Poll, f.readHead, func(err error) {
		f.cfg.Logger.Warn("cannot read the head of the changelog, so lags are not current", "error", err)
	})
}

func (f *Fleet) readHead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	head, err := f.cfg.Head.Head(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heads.recordHead(head.Position, f.cfg.Now())
	f.forget()
	return nil
}

// Report stores an edge's report. When it returns without an error, every instance knows
// that this boot may serve, or that it has stopped. For an edge that starts it returns
// the position of the changelog up to which the edge must have everything before it
// serves: while it was off, no change waited for it. Report returns EUnavailable when
// there are too many edges, or the store does not answer.
func (f *Fleet) Report(ctx context.Context, r EdgeReport) (catchUp waypost.Position, err error) {
	n, note, err := f.storeReport(r)
	if err != nil {
		return catchUp, err
	}
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	if note {
		if err := f.cfg.Boots.NoteBoots(ctx, []Boot{*n}); err != nil {
			return catchUp, waypost.WrapError(waypost.EUnavailable, "other control planes do not know of this report yet", err)
		}
		f.mu.Lock()
		if n := f.nodes[bootKey{r.Node, r.Boot}]; n != nil {
			n.noted = true
		}
		f.mu.Unlock()
	}
	if r.Starting {
		head, err := f.cfg.Head.Head(ctx)
		return head.Position, err
	}
	return catchUp, nil
}

// noteLimit bounds the writing of one report to the store.
const noteLimit = time.Second

// storeReport stores a report in memory, and returns its boot for the store, if that must
// know at once.
func (f *Fleet) storeReport(r EdgeReport) (b *Boot, note bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, key := f.cfg.Now(), bootKey{r.Node, r.Boot}
	n := f.nodes[key]
	switch {
	case n == nil:
		if len(f.nodes) >= f.cfg.Max && !f.evict(now) {
			return nil, false, waypost.Errorf(waypost.EUnavailable, "the fleet has %d edges already", f.cfg.Max)
		}
		n = &fleetNode{first: now, since: now}
		f.nodes[key] = n
	case n.report.Leaving && !r.Leaving:
		return nil, false, nil // this one was late
	case now.Sub(n.seen) > f.cfg.Silent: // it may have been declared gone
		n.since, n.noted = now, false
	case r.Leaving != n.report.Leaving:
		n.noted = false
	}
	if before := f.nodes[bootKey{r.Node, r.Continues}]; before != nil && r.Continues != r.Boot { // they are one process
		n.first = before.first
		delete(f.nodes, bootKey{r.Node, r.Continues})
	}
	n.report, n.seen = r, now
	f.tellWaiters()
	return n.boot(), !n.noted, nil
}

// boot returns the boot for the store.
func (n *fleetNode) boot() *Boot {
	r := &n.report
	return &Boot{
		Node: r.Node, ID: r.Boot, Region: waypost.Region(r.Region), First: n.first, At: n.seen, Stopped: r.Leaving, Continues: r.Continues,
	}
}

// forget drops edges that have been silent for long, and boots that others have followed.
func (f *Fleet) forget() {
	now := f.cfg.Now()
	for key, n := range f.nodes {
		if now.Sub(n.seen) > f.cfg.Forget {
			delete(f.nodes, key)
		}
	}
	for _, b := range f.followed(now) {
		delete(f.nodes, bootKey{b.Node, b.ID})
	}
}

// evict makes room by dropping the edge that has been silent for the longest.
func (f *Fleet) evict(now time.Time) bool {
	var oldest *fleetNode
	for _, n := range f.nodes {
		if oldest == nil || n.seen.Before(oldest.seen) {
			oldest = n
		}
	}
	if oldest == nil || now.Sub(oldest.seen) <= f.cfg.Silent {
		return false
	}
	delete(f.nodes, bootKey{oldest.report.Node, oldest.report.Boot})
	return true
}
