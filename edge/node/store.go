package node

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/edge/blocks"
	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/internal/datadir"
	"waypost/replication"
)

// store is the data directory of an edge with its replica.
type store struct {
	*replica.DB // set by open
	root        string
	region      string
	config      replica.Config // without its directory
	log         *slog.Logger
	clicks      *recorder
	budgets     *spender
	blocks      *blocks.Blocks
	trust       *replication.Trust
	node        string // this edge's name; kept in the directory
	dir         *datadir.Dir
}

func openStore(
	cfg *Config, log *slog.Logger, meters prometheus.Registerer, clicks *recorder, budgets *spender,
	blocked *blocks.Blocks,
) (*store, error) {
	s := &store{
		root: cfg.DataDir, region: string(cfg.Region), node: cfg.Node, config: cfg.Replica, log: log, clicks: clicks, budgets: budgets,
		blocks: blocked,
	}
	s.config.Logger, s.config.Metrics, s.config.Arrived = log, meters, budgets.expect
	clicks.bindStore(s)
	budgets.bindStore(s, clicks.through)
	var err error
	if s.trust, err = replication.OpenTrust(filepath.Join(s.root, trustFile), s.keepTrust, log); err != nil {
		return nil, err
	}
	return s, s.open()
}

// open locks the directory, making it where it is missing, and opens the replica.
func (s *store) open() error {
	dir, err := datadir.Open(s.root, datadir.Edge, 0o700)
	if err != nil {
		return err
	}
	if err := errors.Join(s.nameNode(dir.Path("node")), keepFormats(dir.Path(formatsFile))); err != nil {
		return errors.Join(err, dir.Close())
	}
	s.budgets.open(dir.Path("budgets"), s.node) // before the first link and the first redirect
	if s.DB, err = replica.Open(s.replicaConfig(dir)); err != nil {
		return errors.Join(fmt.Errorf("open the replica in %s: %w", s.root, err), dir.Close())
	}
	s.dir = dir
	s.recall()
	s.clicks.open(dir.Path("clicks"), s.node)                           // before the first redirect
	s.blocks.Open(dir.Path("blocks"), dir.Path("blocked"), s.isDefault) // before the first redirect
	return nil
}

func (s *store) replicaConfig(dir *datadir.Dir) replica.Config {
	c := s.config
	c.Dir = dir.Path("replica")
	return c
}

// nameNode keeps the name in the directory, or takes it from there when none is
// configured.
func (s *store) nameNode(path string) error {
	kept, err := readName(path)
	switch {
	case err == nil && (s.node == "" || s.node == kept):
		s.node = kept
		return nil // without a write: a full disk must not keep an edge from starting
	case err != nil && s.node == "" && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("name of this edge: %w", err)
	case s.node == "":
		s.node = s.region + "-" + randomName()
	}
	return atomicfile.Write(path, []byte(s.node+"\n"), 0o600)
}

func readName(path string) (string, error) {
	text, err := atomicfile.Read(path, 256)
	if err != nil {
		return "", err
	}
	name := strings.TrimSpace(string(text))
	if name == "" {
		return "", fs.ErrNotExist
	}
	return name, nil
}

// randomName returns six random letters and digits in lower case.
func randomName() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails, and ends the process where there is no randomness
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))[:6]
}

// close waits for calls of the replica that are under way.
func (s *store) close() error { return errors.Join(s.DB.Close(), s.dir.Close()) }
