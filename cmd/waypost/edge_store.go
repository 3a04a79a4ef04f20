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

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/cmd/waypost/internal/atomicfile"
	"waypost/cmd/waypost/internal/config"
	"waypost/cmd/waypost/internal/datadir"
	"waypost/edge/replica"
	"waypost/replication"
)

// errNoReplica answers for an edge that has not got its first snapshot yet.
var errNoReplica = errors.New("this edge has no replica yet")

// edgeStore is an edge's data directory with its replica. A fresh one is made no
// sooner than a control plane has let this edge in, so that a wrong token or
// address leaves nothing behind.
type edgeStore struct {
	root   string
	region string
	node   string // this edge's name; kept in the directory
	log    *slog.Logger
	meters prometheus.Registerer
	clicks *edgeClicks

	dir *datadir.Dir               // set together with db, by the goroutine that follows
	db  atomic.Pointer[replica.DB] // nil while there is none
}

func openEdgeStore(cfg config.Edge, log *slog.Logger, meters prometheus.Registerer, clicks *edgeClicks) (*edgeStore, error) {
	s := &edgeStore{root: cfg.DataDir, region: cfg.Region, node: cfg.Node, log: log, meters: meters, clicks: clicks}
	clicks.cluster = s.Cluster
	marked, err := datadir.Inspect(cfg.DataDir, datadir.Edge)
	if err != nil {
		return nil, err
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
	dir, err := datadir.Open(s.root, datadir.Edge, 0o700)
	if err != nil {
		return err
	}
	if err := s.nameNode(dir.Path("node")); err != nil {
		return errors.Join(err, dir.Close())
	}
	db, err := replica.Open(replica.Config{Dir: dir.Path("replica"), Logger: s.log, Registerer: s.meters})
	if err != nil {
		return errors.Join(fmt.Errorf("open the replica in %s: %w", s.root, err), dir.Close())
	}
	s.dir = dir
	s.clicks.open(dir.Path("clicks"), s.node) // before the first redirect
	s.db.Store(db)
	return nil
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
	var err error
	if db := s.db.Swap(nil); db != nil {
		err = db.Close()
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.Close())
	}
	return err
}

// Link implements [edge.Links].
func (s *edgeStore) Link(domain waypost.DomainID, code, buf []byte) (waypost.Record, []byte, bool, error) {
	if db := s.db.Load(); db != nil {
		return db.Link(domain, code, buf)
	}
	return waypost.Record{}, buf, false, errNoReplica
}

// Domain implements [edge.Links].
func (s *edgeStore) Domain(host []byte) (waypost.DomainID, bool) {
	if db := s.db.Load(); db != nil {
		if _, holds := db.Cluster(); holds {
			return db.Domain(host)
		}
	}
	return waypost.DefaultDomain, true // Link then says that there is no replica yet
}

// Targets implements [edge.Links].
func (s *edgeStore) Targets(domain waypost.DomainID) waypost.DomainTargets {
	if db := s.db.Load(); db != nil {
		return db.Targets(domain)
	}
	return waypost.DomainTargets{}
}

// Degraded says why the replica takes no more changes, nil while it does.
func (s *edgeStore) Degraded() error {
	if db := s.db.Load(); db != nil {
		return db.Degraded()
	}
	return nil
}

// Digest is that of the replica at a position, false when it has moved on.
func (s *edgeStore) Digest(at waypost.Position) (uint64, bool) {
	db := s.db.Load()
	if db == nil {
		return 0, false
	}
	digest := db.Digest()
	return digest, db.Position() == at
}

// Cluster implements [replication.Sink].
func (s *edgeStore) Cluster() (replication.Cluster, bool) {
	if db := s.db.Load(); db != nil {
		return db.Cluster()
	}
	return replication.Cluster{}, false
}

// Position implements [replication.Sink].
func (s *edgeStore) Position() waypost.Position {
	if db := s.db.Load(); db != nil {
		return db.Position()
	}
	return waypost.Position{}
}

// Apply implements [replication.Sink].
func (s *edgeStore) Apply(ctx context.Context, b *replication.Batch) error {
	if db := s.db.Load(); db != nil {
		return db.Apply(ctx, b)
	}
	return errNoReplica
}

// Heartbeat implements [replication.Sink].
func (s *edgeStore) Heartbeat(h replication.Head) error {
	if db := s.db.Load(); db != nil {
		return db.Heartbeat(h)
	}
	return nil
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
