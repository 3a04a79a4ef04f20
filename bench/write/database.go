//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waypost/bench"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver"
	"waypost/migrations"
)

// database is a private PostgreSQL with the schema, and the control plane's stores.
type database struct {
	*postgres.DB
	server *pgserver.Server
	pool   *pgxpool.Pool // for what the product does not do
}

func (l *lab) startDatabase(ctx context.Context, name string) (_ *database, err error) {
	dir, err := l.subdir(name)
	if err != nil {
		return nil, err
	}
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

// timed adds a round to f. It counts the CPU time of this process and of PostgreSQL.
func (d *database) timed(f *figures, things int, do func() error) error {
	cpu := func() (own, server bench.CPU, err error) {
		own, err1 := bench.CPUTime(os.Getpid())
		server, err2 := bench.PostgresCPU(d.server.PID())
		return own, server, errors.Join(err1, err2)
	}
	return f.timed(cpu, func() (int, time.Duration, error) { return things, 0, do() })
}

// fill makes links, through the product's triggers.
func (d *database) fill(ctx context.Context, l *lab, links int) error {
	l.o.Logf("making %d links", links)
	if err := bench.FillLinks(ctx, d.server.URL(), l.targets, links); err != nil {
		return err
	}
	for _, sql := range []string{`VACUUM ANALYZE link`, `CHECKPOINT`} {
		if _, err := d.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("fill PostgreSQL: %w", err)
		}
	}
	return nil
}
