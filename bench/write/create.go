//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
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
	imported     = "waypost links import"
	plainBy100   = "INSERTs by 100"
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

// importing imports a file between two rounds of plain INSERTs.
func (l *lab) importing(ctx context.Context) (_ bench.Section, err error) {
	const plainConnections = 4
	links, plainLinks, firstLinks := sized(l, 500_000, 2000), sized(l, 100_000, 1000), 2_000
	s, err := l.startSystem(ctx, "import")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	first, file := filepath.Join(l.dir, "first.csv"), filepath.Join(l.dir, "links.csv")
	if err := errors.Join(l.writeLinks(first, firstLinks), l.writeLinks(file, links)); err != nil {
		return bench.Section{}, err
	}
	p, err := l.newPlain(ctx, s.State.DatabaseURL, plainConnections)
	if err != nil {
		return bench.Section{}, err
	}
	defer p.pool.Close()
	importOf := func(file string) *exec.Cmd {
		return exec.CommandContext(ctx, s.Binary, "links", "import", file, "--data-dir", s.DataDir)
	}
	if out, err := importOf(first).CombinedOutput(); err != nil {
		return bench.Section{}, fmt.Errorf("import: %w\n%s", err, out)
	}
	if err := p.awaitStatistics(ctx); err != nil {
		return bench.Section{}, err
	}
	client := importOf(file)
	round := func(f *figures, links int, do func() error) error {
		product, postgres, err := s.CPU()
		if err != nil {
			return err
		}
		start := time.Now()
		if err := do(); err != nil {
			return err
		}
		took := time.Since(start)
		productAfter, postgresAfter, err := s.CPU()
		used := productAfter.Since(product)
		if f == nil || err != nil {
			return err
		}
		if client.ProcessState != nil && len(f.wall) == 0 {
			used += client.ProcessState.UserTime() + client.ProcessState.SystemTime()
		}
		f.add(links, took, used, postgresAfter.Since(postgres))
		l.o.Logf("%d links in %s", links, took)
		return nil
	}
	var plain, file100 figures
	insert := func() error { return p.by100(ctx, plainLinks, plainConnections) }
	err = round(&plain, plainLinks, insert)
	if err == nil {
		err = round(&file100, links, func() error {
			if out, err := client.CombinedOutput(); err != nil {
				return fmt.Errorf("import: %w\n%s", err, out)
			}
			return s.AwaitEdges(ctx)
		})
	}
	if err == nil {
		err = round(&plain, plainLinks, insert)
	}
	if err != nil {
		return bench.Section{}, err
	}
	// The import is one round, compared with the INSERTs before and after it.
	for _, f := range []*[]float64{&file100.wall, &file100.cpu, &file100.postgres} {
		*f = append(*f, (*f)[0])
	}
	out := bench.Section{
		Title: fmt.Sprintf("Importing %d links", links),
		Notes: []string{
			fmt.Sprintf("the import once, %d INSERTs before it and as many after it, over %d connections", plainLinks, plainConnections),
			"time until both edges have applied the last link; CPU of all processes, the client's too",
			fmt.Sprintf("%d links came before, and PostgreSQL's first statistics of the table", firstLinks),
		},
		Cases: []bench.Case{
			{Name: plainBy100, What: "links and their entries of the changelog, 100 of each in a transaction.", Measures: plain.measures("link")},
			{Name: imported, What: "from CSV to links on two edges: the command, the API with its checks, keys, the changelog, the stream.", Base: plainBy100, Measures: file100.measures("link")},
		},
	}
	for name, pid := range map[string]int{"the control plane": int(s.State.Control.PID), "an edge": int(s.State.Edges[0].PID)} {
		peak, err := bench.PeakMemory(pid)
		if err != nil {
			return bench.Section{}, err
		}
		out.Notes = append(out.Notes, fmt.Sprintf("peak memory of %s: %.0f MB", name, math.Round(float64(peak)/(1<<20))))
	}
	slices.Sort(out.Notes)
	out.AddGoal(imported, "µs per link", 1e6/40_000)
	out.AddRatioGoal(imported, "µs per link", 2)
	return out, nil
}

// writeLinks makes a file to import.
func (l *lab) writeLinks(name string, n int) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("make a file of links: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	line := []byte("original_url\n")
	for i := range n {
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write links: %w", err)
		}
		line = append(l.targets.Append(append(line[:0], '"'), uint64(i)), "\"\n"...)
	}
	_, err = w.Write(line)
	return errors.Join(err, w.Flush())
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
