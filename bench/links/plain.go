//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// plain are INSERTs into copies of the product's tables, as a program would send them
// that has no changelog to keep and nobody to answer.
type plain struct {
	pool *pgxpool.Pool
	lab  *lab
	next atomic.Uint64
}

func (l *lab) newPlain(ctx context.Context, url string, connections int) (*plain, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	cfg.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	for _, sql := range []string{
		`CREATE TABLE IF NOT EXISTS plain_link (LIKE link INCLUDING ALL)`,
		`CREATE TABLE IF NOT EXISTS plain_changelog (LIKE changelog INCLUDING ALL)`,
		`CREATE SEQUENCE IF NOT EXISTS plain_code START 1000000`,
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			pool.Close()
			return nil, fmt.Errorf("making plain tables: %w", err)
		}
	}
	return &plain{pool: pool, lab: l}, nil
}

// rows gives the text of INSERTs of so many links and, when asked for, of what the
// changelog holds of each.
func rows(n int, log bool) string {
	var links, entries strings.Builder
	for i := range n {
		if i > 0 {
			links.WriteByte(',')
			entries.WriteByte(',')
		}
		code, target := 2*i+1, 2*i+2
		_, _ = fmt.Fprintf(&links, "(1,1,$%d,false,$%d,302,'','','{}','',false,false,1,1,1,1)", code, target)
		_, _ = fmt.Fprintf(&entries, "($%d::text::bigint,%d,1,1,1,1,$%d,0,302,0,$%d)", 2*n+1, i, code, target)
	}
	sql := `INSERT INTO plain_link (workspace_id, domain_id, code, custom, original_url, redirect_status, title, description, tags, created_by, forward_query, forward_path, slot, rev_epoch, rev_seq, stamp) VALUES ` + links.String()
	if log {
		return `WITH l AS (` + sql + `) INSERT INTO plain_changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, payload) VALUES ` + entries.String()
	}
	return sql
}

// insert writes n links, by so many in a statement, over so many connections.
func (p *plain) insert(ctx context.Context, n, by, connections int, log bool) (time.Duration, error) {
	sql := rows(by, log)
	var left atomic.Int64
	left.Store(int64(n / by))
	errs := make(chan error, connections)
	start := time.Now()
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			var target []byte
			for left.Add(-1) >= 0 {
				first := p.next.Add(uint64(by)) - uint64(by)
				args := make([]any, 0, 2*by+1)
				for i := range by {
					target = p.lab.targets.Append(target[:0], first+uint64(i))
					args = append(args, fmt.Sprintf("p%08d", first+uint64(i)), string(target))
				}
				if log {
					args = append(args, fmt.Sprint(first))
				}
				if _, err := p.pool.Exec(ctx, sql, args...); err != nil {
					errs <- fmt.Errorf("plain INSERT: %w", err)
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return time.Since(start), nil
	}
}
