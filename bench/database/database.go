//go:build linux

// Package database is a PostgreSQL that a benchmark has for itself, with the schema and the
// rules of the control plane over it.
package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver"
	"waypost/keyrange"
	"waypost/migrations"
)

// Region owns the key ranges.
const Region waypost.Region = "eu"

// Database is a PostgreSQL of this program's own, with the schema in place.
type Database struct {
	*postgres.DB
	Server *pgserver.Server
	Pool   *pgxpool.Pool // for what the product does not do
	Coder  *keyrange.Coder
}

// Start starts one in an empty directory.
func Start(ctx context.Context, dir string) (_ *Database, err error) {
	d := &Database{}
	if d.Server, err = pgserver.Start(ctx, pgserver.Config{Dir: dir}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Stop())
		}
	}()
	if err := migrations.Up(ctx, d.Server.URL()); err != nil {
		return nil, err
	}
	if d.DB, err = postgres.Open(ctx, postgres.Config{URL: d.Server.URL()}); err != nil {
		return nil, err
	}
	cluster := postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"}
	if _, err := d.EnsureCluster(ctx, cluster); err != nil {
		return nil, err
	}
	if err := d.EnsureRanges(ctx, []waypost.Region{Region}); err != nil {
		return nil, err
	}
	space, err := keyrange.NewSpace(cluster.CodeLength, cluster.PrefixLength)
	if err != nil {
		return nil, err
	}
	d.Coder = keyrange.NewCoder(space, cluster.Secret)
	cfg, err := pgxpool.ParseConfig(d.Server.URL())
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	cfg.ConnConfig.User = "postgres" // to see the links of everybody
	if d.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	return d, nil
}

// Stop ends what Start has started.
func (d *Database) Stop() error {
	if d.Pool != nil {
		d.Pool.Close()
	}
	if d.DB != nil {
		d.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return d.Server.Stop(ctx)
}

// Service returns the control plane's service of links over the database, with keys of
// the lease store.
func (d *Database) Service(leases controlplane.LeaseStore, node string) (*controlplane.Links, *controlplane.Minter) {
	minter := controlplane.NewMinter(controlplane.MinterConfig{Store: leases, Coder: d.Coder, Region: Region, Node: node})
	stores := d.Stores()
	stores.Leases = leases
	return controlplane.New(controlplane.Config{Stores: stores, Minter: minter, Region: Region}).Links, minter
}
