//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/bench"
	"waypost/bench/corpus"
)

const (
	overHTTP     = "POST /api/v1/urls"
	plainSingles = "single INSERTs"
)

// create measures single links over many connections and few, next to single INSERTs.
func (l *lab) create(ctx context.Context) (_ bench.Section, err error) {
	const most, warmUp = 64, 1
	s, err := l.startSystem(ctx, "create")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	p, err := l.newPlain(ctx, s.State.DatabaseURL, most)
	if err != nil {
		return bench.Section{}, err
	}
	defer p.pool.Close()
	client := &fasthttp.HostClient{Addr: strings.TrimPrefix(s.State.API, "http://"), MaxConns: most}
	defer client.CloseIdleConnections()
	type creating struct {
		name, what, base string
		callers          int
		create           func(target string) error
		figures
	}
	var cases []*creating
	for _, callers := range []int{most, 16, 4} {
		over := fmt.Sprintf(", %d connections", callers)
		base := &creating{name: plainSingles + over, callers: callers, create: func(target string) error { return p.single(ctx, target) }}
		api := &creating{name: overHTTP + over, callers: callers, base: base.name, create: func(target string) error {
			return post(client, s.State.API, s.State.APIKey, target)
		}}
		if callers == most {
			base.what = "the rows of the links alone, no changelog, a transaction each."
			api.what = "HTTP, JSON, the rules for targets, keys, the changelog; both edges follow meanwhile."
		}
		cases = append(cases, base, api)
	}
	length := sized(l, 2*time.Second, 100*time.Millisecond)
	var number atomic.Uint64
	for round := range l.o.Rounds + warmUp {
		for _, c := range cases {
			product, postgres, err := s.CPU()
			if err != nil {
				return bench.Section{}, err
			}
			start := time.Now()
			times, err := l.createFor(c.callers, length, &number, c.create)
			if err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
			}
			took := time.Since(start)
			productAfter, postgresAfter, err := s.CPU()
			if err != nil {
				return bench.Section{}, err
			}
			if round < warmUp {
				continue
			}
			c.add(len(times), took, productAfter.Since(product), postgresAfter.Since(postgres))
			c.p50, c.p99 = append(c.p50, millis(times, 0.5)), append(c.p99, millis(times, 0.99))
			l.o.Logf("round %d of %d: %-36s %6.0f/s, p99 %.1f ms", round-warmUp+1, l.o.Rounds, c.name, float64(len(times))/took.Seconds(), c.p99[len(c.p99)-1])
		}
	}
	out := bench.Section{
		Title: "Creating single links",
		Notes: []string{fmt.Sprintf("%d rounds of %s for each case, after one that is not counted; targets of 90 bytes on average; the client's CPU is in the figures", l.o.Rounds, length)},
	}
	for _, c := range cases {
		out.Cases = append(out.Cases, bench.Case{Name: c.name, What: c.what, Base: c.base, Measures: c.measures("link")})
		switch {
		case c.base == "":
		case c.callers == most:
			out.AddRatioGoal(c.name, "µs per link", 1/1.2)
			out.AddRatioGoal(c.name, "p50 ms", 1)
			out.AddRatioGoal(c.name, "p99 ms", 1)
		default:
			out.AddRatioGoal(c.name, "µs per link", 1/0.95)
		}
	}
	return out, nil
}

// createFor lets callers create links for some time and returns how long each took.
func (l *lab) createFor(
	callers int, length time.Duration, number *atomic.Uint64, create func(target string) error,
) ([]time.Duration, error) {
	errs, times := make([]error, callers), make([][]time.Duration, callers)
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var target []byte
			for at, more := time.Now(), true; more && errs[i] == nil; more = at.Before(end) {
				target = l.targets.Append(target[:0], number.Add(1))
				errs[i] = create(string(target))
				now := time.Now()
				times[i] = append(times[i], now.Sub(at))
				at = now
			}
		})
	}
	wg.Wait()
	return slices.Concat(times...), errors.Join(errs...)
}

// millis returns a quantile in ms, and sorts the times.
func millis(times []time.Duration, q float64) float64 {
	slices.Sort(times)
	return float64(times[int(q*float64(len(times)-1))]) / 1e6
}

// post creates a link through the API.
func post(client *fasthttp.HostClient, api, key, target string) error {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(api + "/api/v1/urls")
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.SetContentType("application/json")
	req.SetBodyString(`{"original_url":"` + target + `"}`)
	if err := client.Do(req, res); err != nil {
		return fmt.Errorf("create a link: %w", err)
	}
	if code := res.StatusCode(); code != fasthttp.StatusCreated {
		return fmt.Errorf("create a link: %d: %s", code, res.Body())
	}
	return nil
}

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
	for _, sql := range []string{
		`CREATE TABLE plain_link (LIKE link INCLUDING ALL)`,
		`CREATE TABLE plain_changelog (LIKE changelog INCLUDING ALL)`,
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			pool.Close()
			return nil, fmt.Errorf("make plain tables: %w", err)
		}
	}
	return &plain{pool: pool, lab: l}, nil
}

// awaitStatistics waits until PostgreSQL has statistics of the links. A control plane
// makes them a few seconds after the first links of an installation, and never again.
func (p *plain) awaitStatistics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for made := false; !made; {
		if err := p.pool.QueryRow(ctx, `SELECT reltuples >= 0 FROM pg_class WHERE oid = 'link'::regclass`).Scan(&made); err != nil {
			return fmt.Errorf("wait for statistics: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// rows returns the text of INSERTs of n links and, when asked for, of their entries in
// the changelog.
func rows(n int, log bool) string {
	var links, entries strings.Builder
	for i := range n {
		if i > 0 {
			links.WriteByte(',')
			entries.WriteByte(',')
		}
		code, target, slot := 3*i+1, 3*i+2, 3*i+3
		_, _ = fmt.Fprintf(&links, "(1,1,$%d,false,$%d,302,'','','{}','',false,false,$%d,1,1,1)", code, target, slot)
		_, _ = fmt.Fprintf(&entries, "($%d::text::bigint,%d,1,1,1,1,$%d,0,302,0,$%d)", 3*n+1, i, code, target)
	}
	sql := `INSERT INTO plain_link (workspace_id, domain_id, code, custom, original_url, redirect_status, title, description, tags,
		created_by, forward_query, forward_path, slot, rev_epoch, rev_seq, stamp) VALUES ` + links.String()
	if log {
		return `WITH l AS (` + sql + `) INSERT INTO plain_changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, payload) VALUES ` + entries.String()
	}
	return sql
}

var oneRow = rows(1, false)

// appendLink appends the arguments of a link: its code, which is far from that of the
// link before, target and slot.
func appendLink(args []any, number uint64, target string) []any {
	code := corpus.AppendCode(nil, number)
	return append(args, string(code), target, int16(waypost.Slot(waypost.KindLink, waypost.DefaultDomain, code)))
}

func (p *plain) single(ctx context.Context, target string) error {
	if _, err := p.pool.Exec(ctx, oneRow, appendLink(nil, p.next.Add(1), target)...); err != nil {
		return fmt.Errorf("plain INSERT: %w", err)
	}
	return nil
}

// by100 writes n links over some connections, each of which has its own share.
func (p *plain) by100(ctx context.Context, n, connections int) error {
	const by = 100
	sql := rows(by, true)
	errs := make([]error, connections)
	var wg sync.WaitGroup
	for c := range connections {
		wg.Go(func() {
			for range n / by / connections {
				first := p.next.Add(by) - by
				args := make([]any, 0, 3*by+1)
				for i := range uint64(by) {
					args = appendLink(args, first+i, string(p.lab.targets.Append(nil, first+i)))
				}
				if _, errs[c] = p.pool.Exec(ctx, sql, append(args, fmt.Sprint(first))...); errs[c] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
