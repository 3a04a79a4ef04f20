//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waypost"
	"waypost/bench"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver"
	"waypost/keyrange"
	"waypost/migrations"
)

const region waypost.Region = "eu"

// database is a private PostgreSQL with the schema, and the control plane's stores.
type database struct {
	*postgres.DB
	server *pgserver.Server
	pool   *pgxpool.Pool // for what the product does not do
	coder  *keyrange.Coder
}

func (l *lab) startDatabase(ctx context.Context, name string) (_ *database, err error) {
	dir, err := l.subdir(name)
	if err != nil {
		return nil, err
	}
	d := &database{}
	settings := map[string]string{"shared_buffers": "4GB", "max_wal_size": "16GB"}
	if d.server, err = pgserver.Start(ctx, pgserver.Config{Dir: dir, Settings: sized(l, settings, nil)}); err != nil {
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
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	cfg.ConnConfig.User = "postgres" // no row-level security binds it
	if d.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
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

// links returns the control plane's service of links.
func (d *database) links() *controlplane.Links {
	minter := controlplane.NewMinter(controlplane.MinterConfig{Store: d.DB, Coder: d.coder, Region: region, Node: "bench"})
	return controlplane.New(controlplane.Config{Stores: d.Stores(), Minter: minter, Region: region}).Links
}

// timed notes how long do took for that number of things, and the CPU of this process
// and of PostgreSQL.
func (d *database) timed(f *figures, things int, do func() error) error {
	own, err1 := bench.CPUTime(os.Getpid())
	server, err2 := bench.PostgresCPU(d.server.PID())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	start := time.Now()
	if err := do(); err != nil {
		return err
	}
	took := time.Since(start)
	ownAfter, err1 := bench.CPUTime(os.Getpid())
	serverAfter, err2 := bench.PostgresCPU(d.server.PID())
	f.add(things, took, ownAfter.Since(own), serverAfter.Since(server))
	return errors.Join(err1, err2)
}
