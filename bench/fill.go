//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waypost/bench/corpus"
)

// FillLinks copies that number of links into workspace 1 of the database at url, as a
// superuser. The triggers put them into the changelog.
func FillLinks(ctx context.Context, url string, targets *corpus.Targets, links int) (err error) {
	const each = 10_000
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	cfg.User, cfg.RuntimeParams["synchronous_commit"] = "postgres", "off"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	columns := []string{"workspace_id", "domain_id", "code", "custom", "original_url"}
	for first := 0; first < links; first += each {
		rows := pgx.CopyFromSlice(min(each, links-first), func(i int) ([]any, error) {
			n := uint64(first + i)
			return []any{1, 1, string(corpus.AppendCode(nil, n)), false, string(targets.Append(nil, n))}, nil
		})
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{"link"}, columns, rows); err != nil {
			return fmt.Errorf("fill PostgreSQL: %w", err)
		}
	}
	return nil
}
