package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/handover"
	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/internal/config"
	"waypost/internal/datadir"
	"waypost/replication"
)

// errNoReplica answers for an edge that has not got its first snapshot yet.
var errNoReplica = errors.New("this edge has no replica yet")

// edgeStore is an edge's data directory with its replica. A fresh one is made no
// sooner than a control plane has let this edge in, so that a wrong token or
// address leaves nothing behind.
type edgeStore struct {
	root    string
	region  string
	node    string // this edge's name; kept in the directory
	log     *slog.Logger
	meters  prometheus.Registerer
	clicks  *edgeClicks
	lookup  int64         // bytes for the replica's lookup table
	verify  time.Duration // see replica.Config.VerifyInterval
	free    replica.MinFree
	peerLog int64                 // bytes for the changes that are kept for other edges; 0: none
	valve   replica.DeletionGuard // what is held back

	trust       *replication.Trust
	untilOpened atomic.Pointer[[]byte] // what it keeps once there is a directory

	dir    *datadir.Dir               // set together with db, before opened is closed
	opened chan struct{}              // closed when there is a directory
	db     atomic.Pointer[replica.DB] // takes changes; nil while there is none, or a successor has it
	frozen atomic.Pointer[replica.DB] // answers in its place, if there is one: see detach

	succession *handover.Succession // has the locks of a predecessor; nil: there was none
}

func openEdgeStore(cfg config.Edge, lookup int64, log *slog.Logger, meters prometheus.Registerer, clicks *edgeClicks, succession *handover.Succession) (s *edgeStore, err error) {
	s = &edgeStore{
		root: cfg.DataDir, region: cfg.Region, node: cfg.Node, log: log, meters: meters, clicks: clicks,
		opened: make(chan struct{}), succession: succession, lookup: lookup, verify: cfg.VerifyInterval,
	}
	if s.free.Bytes, s.free.Share, err = config.ParseMinFreeDisk(cfg.MinFreeDisk); err != nil {
		return nil, fmt.Errorf("edge.min_free_disk: %w", err)
	}
	if s.verify == 0 {
		s.verify = -1
	}
	s.valve = replica.DeletionGuard{Share: float64(cfg.HoldDeletesPercent) / 100, Least: uint64(cfg.HoldDeletesLeast), Window: cfg.HoldDeletesWindow}
	if cfg.HoldDeletesPercent == 0 {
		s.valve.Share = -1
	}
	if cfg.PeerAddr != "" {
		size, err := config.ParsePeerLog(cfg.PeerLog)
		if err != nil {
			return nil, fmt.Errorf("edge.peer_log: %w", err)
		}
		s.peerLog = size
	}
	clicks.know(s)
	if err := s.openTrust(); err != nil {
		return nil, err
	}
	if succession != nil {
		clicks.beside = succession.Take(clickFile)
		return s, s.takeOver()
	}
	marked, err := datadir.Inspect(cfg.DataDir, datadir.Edge)
	if err != nil {
		return nil, orTakeOver(err)
	}
	if !marked {
		if s.node == "" {
			s.node = cfg.Region + "-" + randomName()
		}
		return s, nil
	}
	return s, s.open()
}

// open locks the directory, making it where it is missing, and opens the replica.
// When that fails it can be tried again.
func (s *edgeStore) open() error {
	dir, err := s.openDirectory()
	if err != nil {
		return err
	}
	if err := s.nameNode(dir.Path("node")); err != nil {
		return errors.Join(err, dir.Close())
	}
	if pinned := s.untilOpened.Load(); pinned != nil {
		if err := atomicfile.Write(dir.Path(trustFile), *pinned, 0o600); err != nil {
			return errors.Join(err, dir.Close())
		}
	}
	db, err := replica.Open(s.replicaConfig(dir))
	if err != nil {
		return errors.Join(fmt.Errorf("open the replica in %s: %w", s.root, err), dir.Close())
	}
	s.recall(db)
	s.dir = dir
	s.clicks.open(dir.Path("clicks"), s.node) // before the first redirect
	s.db.Store(db)
	close(s.opened)
	return nil
}

// ensure sees to it that there is a directory.
func (s *edgeStore) ensure() error {
	if s.dir != nil || s.succession != nil {
		return nil
	}
	return s.open()
}

func (s *edgeStore) replicaConfig(dir *datadir.Dir) replica.Config {
	return replica.Config{Dir: dir.Path("replica"), LookupBytes: s.lookup, VerifyInterval: s.verify, MinFree: s.free, DeletionGuard: s.valve, LogBytes: s.peerLog, Logger: s.log, Registerer: s.meters}
}

// nameNode keeps the name in the directory, and takes it from there when none is
// configured.
func (s *edgeStore) nameNode(path string) error {
	if s.node == "" {
		kept, err := readName(path)
		if err == nil {
			s.node = kept
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("name of this edge: %w", err)
		}
		s.node = s.region + "-" + randomName()
	}
	if kept, err := readName(path); err == nil && kept == s.node {
		return nil // a full disk must not keep an edge from starting
	}
	return atomicfile.Write(path, []byte(s.node+"\n"), 0o600)
}

func readName(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, 256))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	name := strings.TrimSpace(string(text))
	if name == "" {
		return "", fs.ErrNotExist
	}
	return name, nil
}

// Close waits for what is under way in the replica.
func (s *edgeStore) Close() error {
	var errs []error
	if db := s.db.Swap(nil); db != nil {
		errs = append(errs, db.Close())
	}
	errs = append(errs, s.thaw())
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	return errors.Join(errs...)
}

// serving is what answers, nil while nothing does.
func (s *edgeStore) serving() *replica.DB {
	if frozen := s.frozen.Load(); frozen != nil {
		return frozen
	}
	return s.db.Load()
}

// Link implements [edge.Links].
func (s *edgeStore) Link(domain waypost.DomainID, code, buf []byte) (waypost.Record, []byte, bool, error) {
	for {
		db := s.serving()
		if db == nil {
			return waypost.Record{}, buf, false, errNoReplica
		}
		rec, grown, found, err := db.Link(domain, code, buf)
		if err == nil || db == s.serving() {
			return rec, grown, found, err
		}
		// It was closed meanwhile, and another has its place.
	}
}

// Domain implements [edge.Links].
func (s *edgeStore) Domain(host []byte) (waypost.DomainID, bool) {
	for {
		db := s.serving()
		if db == nil {
			return waypost.DefaultDomain, true // Link then says that there is no replica yet
		}
		id, known := db.Domain(host)
		_, holds := db.Cluster()
		if db != s.serving() {
			continue
		}
		if !holds {
			return waypost.DefaultDomain, true
		}
		return id, known
	}
}

// current is what the sink's state is that of: the replica that takes changes, or, while
// there is none, the one that answers.
func (s *edgeStore) current() *replica.DB {
	if db := s.db.Load(); db != nil {
		return db
	}
	return s.frozen.Load()
}

// knows reports whether a host, in its canonical form, is a domain of the replica's.
func (s *edgeStore) knows(host string) bool {
	if db := s.serving(); db != nil {
		_, ok := db.Domain([]byte(host))
		return ok
	}
	return false
}

// Targets implements [edge.Links].
func (s *edgeStore) Targets(domain waypost.DomainID) waypost.DomainTargets {
	if db := s.serving(); db != nil {
		return db.Targets(domain)
	}
	return waypost.DomainTargets{}
}

// Salt implements [audience.Salts].
func (s *edgeStore) Salt(day int32) *waypost.Salt {
	if db := s.serving(); db != nil {
		return db.Salt(day)
	}
	return nil
}

// Degraded says why the replica takes no more changes, nil while it does.
func (s *edgeStore) Degraded() error {
	if db := s.current(); db != nil {
		return db.Degraded()
	}
	return nil
}

// Digest is that of the replica at a position, false when it has moved on.
func (s *edgeStore) Digest(at waypost.Position) (uint64, bool) {
	db := s.current()
	if db == nil {
		return 0, false
	}
	digest := db.Digest()
	return digest, db.Position() == at
}

// Cluster implements [replication.Sink].
func (s *edgeStore) Cluster() (replication.Cluster, bool) {
	if db := s.current(); db != nil {
		return db.Cluster()
	}
	return replication.Cluster{}, false
}

// Position implements [replication.Sink].
func (s *edgeStore) Position() waypost.Position {
	if db := s.current(); db != nil {
		return db.Position()
	}
	return waypost.Position{}
}

// reported is the position as others are told: none while a repair is under way.
func (s *edgeStore) reported() waypost.Position {
	if s.Repairing() {
		return waypost.Position{}
	}
	return s.Position()
}

// Synced is the position that a crash cannot take back.
func (s *edgeStore) Synced() waypost.Position {
	if db := s.current(); db != nil {
		return db.Synced()
	}
	return waypost.Position{}
}

// Sync makes durable at once what is applied by now.
func (s *edgeStore) Sync() error {
	if db := s.current(); db != nil {
		return db.Sync()
	}
	return nil
}

// Apply implements [replication.Sink].
func (s *edgeStore) Apply(ctx context.Context, b *replication.Batch) error {
	db := s.db.Load()
	if db == nil {
		return errNoReplica
	}
	return errors.Join(db.Apply(ctx, b), s.preferFresh(db))
}

// Heartbeat implements [replication.Sink].
func (s *edgeStore) Heartbeat(h replication.Head) error {
	db := s.db.Load()
	if db == nil {
		return nil
	}
	return errors.Join(db.Heartbeat(h), s.preferFresh(db))
}

// Restore implements [replication.Sink]. The first one, which comes after the
// hello of a control plane that let this edge in, makes the directory.
func (s *edgeStore) Restore(ctx context.Context, c replication.Cluster) (replication.Restore, error) {
	if s.db.Load() == nil {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	return s.db.Load().Restore(ctx, c)
}

// Repairing implements [replication.Repairer].
func (s *edgeStore) Repairing() bool {
	db := s.db.Load()
	return db != nil && db.Repairing()
}

// Repair implements [replication.Repairer].
func (s *edgeStore) Repair(ctx context.Context, c replication.Cluster, e waypost.Epoch) (replication.Repair, error) {
	db := s.db.Load()
	if db == nil {
		return nil, errNoReplica
	}
	return db.Repair(ctx, c, e)
}

// Compare implements [replication.Comparer].
func (s *edgeStore) Compare(ctx context.Context) (replication.Comparison, error) {
	db := s.db.Load()
	if db == nil {
		return nil, errors.Join(replication.ErrUnsettled, errNoReplica)
	}
	return db.Compare(ctx)
}

// Accept implements [replication.Accepter].
func (s *edgeStore) Accept(what replication.HoldKind, upTo waypost.Position) {
	if db := s.db.Load(); db != nil {
		db.Accept(what, upTo)
	}
}
