//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"waypost/bench/corpus"
)

// FillLinks makes links [from, to) of workspace 1 with plain INSERTs, over two
// connections to the database at url, which a superuser makes. The triggers put them into
// the changelog. A link has the title that title returns.
func FillLinks(ctx context.Context, url string, targets *corpus.Targets, from, to int, title func(n uint64) string) error {
	const each = 10_000
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	cfg.User = "postgres"
	var next atomic.Int64
	next.Store(int64(from))
	fill := func() (err error) {
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
		if _, err := conn.Exec(ctx, `SET synchronous_commit = off`); err != nil {
			return err
		}
		for {
			end := int(next.Add(each))
			begin := end - each
			if begin >= to {
				return nil
			}
			var codes, urls, titles []string
			for n := begin; n < min(end, to); n++ {
				codes = append(codes, string(corpus.AppendCode(nil, uint64(n))))
				urls = append(urls, string(targets.Append(nil, uint64(n))))
				titles = append(titles, title(uint64(n)))
			}
			if _, err := conn.Exec(ctx, `
				INSERT INTO link (workspace_id, domain_id, code, custom, original_url, title)
				SELECT 1, 1, c, false, t, n FROM unnest($1::text[], $2::text[], $3::text[]) u (c, t, n)`,
				codes, urls, titles); err != nil {
				return err
			}
		}
	}
	var errs [2]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = fill() })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	return nil
}
