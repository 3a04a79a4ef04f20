//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/pgserver"
	"waypost/keyrange"
	"waypost/migrations"
)

const region waypost.Region = "eu"

// database is a PostgreSQL of this program's own, with the schema in place.
type database struct {
	*postgres.DB
	server *pgserver.Server
	pool   *pgxpool.Pool // for what the product does not do
	coder  *keyrange.Coder
}

func startDatabase(ctx context.Context, dir string) (_ *database, err error) {
	d := &database{}
	if d.server, err = pgserver.Start(ctx, pgserver.Config{Dir: dir}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	if err := migrations.Up(ctx, d.server.URL()); err != nil {
		return nil, err
	}
	if d.DB, err = postgres.Open(ctx, postgres.Config{URL: d.server.URL()}); err != nil {
		return nil, err
	}
	cluster := postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"}
	if _, err := d.EnsureCluster(ctx, cluster); err != nil {
		return nil, err
	}
	if err := d.EnsureRanges(ctx, []waypost.Region{region}); err != nil {
		return nil, err
	}
	space, err := keyrange.NewSpace(cluster.CodeLength, cluster.PrefixLength)
	if err != nil {
		return nil, err
	}
	d.coder = keyrange.NewCoder(space, cluster.Secret)
	cfg, err := pgxpool.ParseConfig(d.server.URL())
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	cfg.ConnConfig.User = "postgres" // to see the links of everybody
	if d.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	return d, nil
}

func (d *database) stop() error {
	if d.pool != nil {
		d.pool.Close()
	}
	if d.DB != nil {
		d.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return d.server.Stop(ctx)
}

// service gives the rules of the control plane over the database, with keys of the
// lease store.
func (d *database) service(leases controlplane.LeaseStore, node string) (*controlplane.Service, *controlplane.Minter) {
	minter := controlplane.NewMinter(controlplane.MinterConfig{Store: leases, Coder: d.coder, Region: region, Node: node})
	return controlplane.New(controlplane.Config{
		Links: d, Leases: leases, Ranges: d, Reserved: d, Audit: d, Keys: d, Minter: minter, Region: region,
	}), minter
}

// unusedPrefix gives a prefix that no range was made of.
func (d *database) unusedPrefix(ctx context.Context) (prefix int, err error) {
	err = d.pool.QueryRow(ctx, `SELECT max(p) FROM generate_series(0, $1::integer) p WHERE NOT EXISTS (SELECT FROM key_range WHERE prefix = p)`,
		d.coder.Space().Prefixes()-1).Scan(&prefix)
	return prefix, err
}
