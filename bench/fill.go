//go:build linux

package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"waypost/bench/corpus"
)

// FillLinks makes that number of links of workspace 1 with plain INSERTs, over two
// connections to the database at url, as a superuser. The triggers put them into the
// changelog.
func FillLinks(ctx context.Context, url string, targets *corpus.Targets, links int) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	cfg.User = "postgres"
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range 2 {
		group.Go(func() error { return fillOver(ctx, cfg.Copy(), targets, &next, links) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	return nil
}

func fillOver(ctx context.Context, cfg *pgx.ConnConfig, targets *corpus.Targets, next *atomic.Int64, links int) error {
	const each = 10_000
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // its work is committed or has failed
	if _, err := conn.Exec(ctx, `SET synchronous_commit = off`); err != nil {
		return err
	}
	for {
		end := int(next.Add(each))
		if end-each >= links {
			return nil
		}
		var codes, urls []string
		for n := end - each; n < min(end, links); n++ {
			codes = append(codes, string(corpus.AppendCode(nil, uint64(n))))
			urls = append(urls, string(targets.Append(nil, uint64(n))))
		}
		if _, err := conn.Exec(ctx, `
			INSERT INTO link (workspace_id, domain_id, code, custom, original_url)
			SELECT 1, 1, c, false, t FROM unnest($1::text[], $2::text[]) u (c, t)`, codes, urls); err != nil {
			return err
		}
	}
}
