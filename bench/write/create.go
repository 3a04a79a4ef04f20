//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/bench"
	"waypost/bench/corpus"
)

// create measures single links over many connections and few, next to single INSERTs.
func (l *lab) create(ctx context.Context) (out bench.Section, err error) {
	const most, warmUp = 64, 1
	s, err := l.startSystem(ctx, "create")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	p, err := l.newPlain(ctx, s.State.DatabaseURL, most)
	if err != nil {
		return out, err
	}
	defer p.pool.Close()
	client := &fasthttp.HostClient{Addr: hostOf(s.State.API), MaxConns: most}
	defer client.CloseIdleConnections()
	type creating struct {
		bench.Case
		callers int
		create  func(target string) error
		figures
	}
	var cases []*creating
	for _, callers := range []int{most, 16, 4} {
		over := fmt.Sprintf(", %d connections", callers)
		base := &creating{callers: callers, create: func(target string) error { return p.single(ctx, target) }}
		api := &creating{callers: callers, create: func(target string) error { _, err := post(client, s, target); return err }}
		base.Name, api.Name, api.Base = "single INSERTs"+over, "POST /api/v1/urls"+over, "single INSERTs"+over
		if callers == most {
			base.What = "the rows of the links alone, no changelog, a transaction each."
			api.What = "HTTP, JSON, the rules for targets, keys, the changelog; both edges follow meanwhile."
		}
		cases = append(cases, base, api)
	}
	length := sized(l, 2*time.Second, 100*time.Millisecond)
	var number atomic.Uint64
	for round := range l.o.Rounds + warmUp {
		for _, c := range cases {
			var times []time.Duration
			var f figures
			err := f.timed(s.CPU, func() (links int, more time.Duration, err error) {
				times, err = l.createFor(c.callers, length, &number, c.create)
				return len(times), 0, err
			})
			if err != nil {
				return out, fmt.Errorf("%s: %w", c.Name, err)
			}
			if round < warmUp {
				continue
			}
			c.wall, c.cpu, c.postgres = append(c.wall, f.wall...), append(c.cpu, f.cpu...), append(c.postgres, f.postgres...)
			c.p50, c.p99 = append(c.p50, millis(times, 0.5)), append(c.p99, millis(times, 0.99))
			l.o.Logf("round %d of %d: %-36s %6.1f µs, p99 %.1f ms", round, l.o.Rounds, c.Name, f.wall[0], c.p99[len(c.p99)-1])
		}
	}
	out.Title = "Creating single links"
	out.Notes = []string{fmt.Sprintf("%d rounds of %s for each case, after one that is not counted; targets of 90 bytes on average; the client's CPU is in the figures",
		l.o.Rounds, length)}
	for _, c := range cases {
		c.Measures = c.measures("link")
		out.Cases = append(out.Cases, c.Case)
		most := 1 / 1.2
		if c.callers < 64 {
			most = 1 / 0.95
		}
		out.AddRatioGoal(c.Name, "µs per link", most)
	}
	return out, nil
}

// createFor lets callers create links for some time and returns how long each took.
func (l *lab) createFor(
	callers int, length time.Duration, number *atomic.Uint64, create func(target string) error,
) ([]time.Duration, error) {
	times := make([][]time.Duration, callers)
	end := time.Now().Add(length)
	var group errgroup.Group
	for i := range callers {
		group.Go(func() error {
			for at := time.Now(); len(times[i]) == 0 || at.Before(end); {
				if err := create(string(l.targets.Append(nil, number.Add(1)))); err != nil {
					return err
				}
				now := time.Now()
				times[i] = append(times[i], now.Sub(at))
				at = now
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(times...), err
}

// post creates a link through the API, and returns its code.
func post(client *fasthttp.HostClient, s *bench.System, target string) (code string, err error) {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(s.State.API + "/api/v1/urls")
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.Set("Authorization", "Bearer "+s.State.APIKey)
	req.Header.SetContentType("application/json")
	req.SetBodyString(`{"original_url":"` + target + `"}`)
	if err := client.Do(req, res); err != nil {
		return "", fmt.Errorf("create a link: %w", err)
	}
	if status := res.StatusCode(); status != fasthttp.StatusCreated {
		return "", fmt.Errorf("create a link: %d: %s", status, res.Body())
	}
	_, rest, _ := strings.Cut(string(res.Body()), `"short_code":"`)
	code, _, _ = strings.Cut(rest, `"`)
	return code, nil
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// plain sends INSERTs into copies of the product's tables, with the same columns,
// constraints and indexes but without triggers.
type plain struct {
	pool *pgxpool.Pool
	lab  *lab
	next atomic.Uint64
}

func (l *lab) newPlain(ctx context.Context, url string, connections int) (*plain, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	cfg.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if _, err := pool.Exec(ctx, `
		CREATE TABLE plain_link (LIKE link INCLUDING ALL); CREATE TABLE plain_changelog (LIKE changelog INCLUDING ALL)`); err != nil {
		pool.Close()
		return nil, fmt.Errorf("make plain tables: %w", err)
	}
	return &plain{pool: pool, lab: l}, nil
}

const (
	plainColumns = `INSERT INTO plain_link (workspace_id, domain_id, code, custom, original_url, redirect_status, title, description, tags,
		created_by, forward_query, forward_path, slot, rev_epoch, rev_seq, stamp) `
	oneRow = plainColumns + `VALUES (1, 1, $1, false, $2, 302, '', '', '{}', '', false, false, $3, 1, 1, 1)`
	// manyRows also writes the links' entries of the changelog.
	manyRows = `WITH u AS (SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[]) WITH ORDINALITY u (code, target, slot, ord)),
		l AS (` + plainColumns + `SELECT 1, 1, code, false, target, 302, '', '', '{}', '', false, false, slot, 1, 1, 1 FROM u)
		INSERT INTO plain_changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, payload)
		SELECT $4, ord, 1, 1, 1, 1, code, 0, 302, 0, target FROM u`
)

// link returns the code of the next link, which is far from the code before, and its
// slot.
func (p *plain) link() (n uint64, code string, slot int16) {
	n = p.next.Add(1)
	name := corpus.AppendCode(nil, n)
	return n, string(name), int16(waypost.Slot(waypost.KindLink, waypost.DefaultDomain, name))
}

func (p *plain) single(ctx context.Context, target string) error {
	_, code, slot := p.link()
	if _, err := p.pool.Exec(ctx, oneRow, code, target, slot); err != nil {
		return fmt.Errorf("plain INSERT: %w", err)
	}
	return nil
}

// by100 writes n links, an equal share over each connection.
func (p *plain) by100(ctx context.Context, n, connections int) error {
	const by = 100
	var group errgroup.Group
	for range connections {
		group.Go(func() error {
			for range n / by / connections {
				var codes, targets []string
				var slots []int16
				var n uint64
				for range by {
					var code string
					var slot int16
					n, code, slot = p.link()
					codes, slots = append(codes, code), append(slots, slot)
					targets = append(targets, string(p.lab.targets.Append(nil, n)))
				}
				if _, err := p.pool.Exec(ctx, manyRows, codes, targets, slots, int64(n)); err != nil {
					return fmt.Errorf("plain INSERTs: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
