//go:build linux

package main

import (
	"context"

	own "waypost/bench/database"
)

const region = own.Region

// database is the PostgreSQL that is measured.
type database struct{ *own.Database }

func startDatabase(ctx context.Context, dir string) (*database, error) {
	d, err := own.Start(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &database{d}, nil
}

// unusedPrefix gives a prefix that no range was made of.
func (d *database) unusedPrefix(ctx context.Context) (prefix int, err error) {
	err = d.Pool.QueryRow(ctx, `SELECT max(p) FROM generate_series(0, $1::integer) p WHERE NOT EXISTS (SELECT FROM key_range WHERE prefix = p)`,
		d.Coder.Space().Prefixes()-1).Scan(&prefix)
	return prefix, err
}
