//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/bench"
	"waypost/bench/corpus"
)

// growth fills one workspace of a system, and measures at each size what a link costs an
// edge and PostgreSQL, how long an edge takes to start and to be filled from nothing, and
// how long lists and searches take.
type growth struct {
	o       *options
	s       *bench.System
	dir     string
	targets *corpus.Targets
	db      *pgx.Conn // as superuser, whom no row-level security binds
	token   string    // of edges
	links   int       // so far
	client  http.Client
	samples int // requests for each list
}

func (o *options) grow(ctx context.Context) (_ bench.Section, err error) {
	const million = 1_000_000
	sizes, samples := []int{million, 10 * million}, 300
	switch {
	case o.Full:
		sizes = append(sizes, 50*million)
	case o.Try:
		sizes, samples = []int{1000, 3000}, 3
	}
	g := &growth{o: o, samples: samples, client: http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if g.dir, err = o.TempDir(); err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(g.dir)) }()
	if g.targets, err = corpus.ReadTargets(o.Targets); err != nil {
		return bench.Section{}, err
	}
	if err := g.start(ctx); err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, g.stop(ctx)) }()
	out := bench.Section{Title: "Growth of one workspace", Notes: []string{
		"targets of 90 bytes on average, each with a title; PostgreSQL, the control plane, one edge and the clients share the machine",
		"the links are made with plain INSERTs, and most indexes afterwards",
		fmt.Sprintf("%d requests for each list, one after the other, with 50 links a page", samples),
	}}
	for _, size := range sizes {
		if err := g.fill(ctx, size); err != nil {
			return bench.Section{}, err
		}
		column := millions(size) + " links"
		err := g.measure(ctx, func(name string, figure float64) {
			g.o.Logf("%s: %s %.4g", column, name, figure)
			m := bench.Measure{Name: column, Rounds: []float64{figure}}
			row := slices.IndexFunc(out.Cases, func(c bench.Case) bool { return c.Name == name })
			if row < 0 {
				row = len(out.Cases)
				out.Cases = append(out.Cases, bench.Case{Name: name})
			}
			out.Cases[row].Measures = append(out.Cases[row].Measures, m)
			if most, ok := goals[name]; ok {
				out.AddGoal(name, column, most)
			}
		})
		if err != nil {
			return bench.Section{}, fmt.Errorf("%s: %w", column, err)
		}
	}
	if o.Try {
		return out, nil
	}
	return out, bench.PutChart(filepath.Join(o.Out, "growth.svg"), out.Title, growthPanels(&out))
}

// growthPanels are the parts of the picture: a bar for each size, and for the model.
func growthPanels(s *bench.Section) (panels []bench.Panel) {
	for _, p := range []struct{ title, measure, model string }{
		{"memory of an edge, MB", measureMemory, modelOfMemory},
		{"disk of an edge, MB", measureDisk, modelOfDisk},
		{measureStart, measureStart, ""},
		{measureFill, measureFill, ""},
		{measureRedirect, measureRedirect, ""},
		{measurePostgres, measurePostgres, ""},
		{"list, newest first, p99 ms", lists[0].name + ", p99 ms", ""},
		{"search for two words of titles, p99 ms", lists[2].name + ", p99 ms", ""},
	} {
		panel := bench.Panel{Title: p.title}
		for _, c := range s.Cases {
			for _, m := range c.Measures {
				switch c.Name {
				case p.measure:
					panel.Bars = append(panel.Bars, bench.Bar{Name: m.Name, Value: bench.Median(m.Rounds), Strong: true})
				case p.model:
					panel.Bars = append(panel.Bars, bench.Bar{Name: "by the model", Value: bench.Median(m.Rounds)})
				}
			}
		}
		panels = append(panels, panel)
	}
	return panels
}

const (
	measureStart    = "start to first redirect, s"
	measureFill     = "empty edge to a full one, links per second"
	measureRedirect = "CPU µs per redirect"
	measurePostgres = "PostgreSQL, bytes per link without the changelog"
	measureMemory   = "memory of an edge, MB"
	modelOfMemory   = "the table of links in it, by the model, MB"
	measureDisk     = "disk of an edge, MB"
	modelOfDisk     = "the same by the model, MB"
)

func millions(links int) string {
	if links < 1_000_000 {
		return strconv.Itoa(links)
	}
	return strconv.Itoa(links/1_000_000) + " million"
}

// goals are the bounds of figures at every size.
var goals = func() map[string]float64 {
	all := map[string]float64{measureStart: 2}
	for _, l := range lists {
		all[l.name+", p99 ms"] = 40
	}
	return all
}()

// The model of docs/operations/capacity.md, bytes for each link.
const modelMemory, modelDisk = 111, 70

// start starts the system and connects to its database. The system's own edges stand
// still, so that one copy of the links is in memory and not three.
func (g *growth) start(ctx context.Context) error {
	binary, err := bench.BuildWaypost(ctx, g.dir)
	if err != nil {
		return err
	}
	if g.s, err = bench.StartSystem(ctx, binary, g.dir); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(g.s.DataDir, "secrets", "edge-token"))
	if err == nil {
		g.token = strings.TrimSpace(string(token))
		var cfg *pgx.ConnConfig
		if cfg, err = pgx.ParseConfig(g.s.State.DatabaseURL); err == nil {
			cfg.User = "postgres"
			g.db, err = pgx.ConnectConfig(ctx, cfg)
		}
	}
	if err == nil {
		err = g.signalEdges(syscall.SIGSTOP)
	}
	if err != nil {
		return errors.Join(err, g.stop(ctx))
	}
	return nil
}

func (g *growth) stop(ctx context.Context) (err error) {
	if g.db != nil {
		err = g.db.Close(context.WithoutCancel(ctx))
	}
	return errors.Join(err, g.signalEdges(syscall.SIGCONT), g.s.Stop())
}

func (g *growth) signalEdges(signal syscall.Signal) error {
	for _, e := range g.s.State.Edges {
		if err := syscall.Kill(int(e.PID), signal); err != nil {
			return fmt.Errorf("signal an edge: %w", err)
		}
	}
	return nil
}

// measure adds each figure at the present size.
func (g *growth) measure(ctx context.Context, add func(name string, figure float64)) (err error) {
	links := float64(g.links)
	var size int64
	if err := g.db.QueryRow(ctx, `SELECT pg_database_size(current_database()) - sum(pg_total_relation_size(relid))
		FROM pg_partition_tree('changelog') WHERE isleaf`).Scan(&size); err != nil {
		return fmt.Errorf("ask for the size of the database: %w", err)
	}
	add(measurePostgres, float64(size)/links)

	dir := filepath.Join(g.dir, "edge-"+strconv.Itoa(g.links))
	e, took, err := g.startEdge(ctx, dir)
	if err != nil {
		return err
	}
	add(measureFill, links/took.Seconds())
	if err := e.stop(); err != nil {
		return err
	}
	if e, took, err = g.startEdge(ctx, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.stop(), os.RemoveAll(dir)) }()
	add(measureStart, took.Seconds())
	first, last, err := g.visit(ctx, e)
	if err != nil {
		return err
	}
	add("CPU µs per redirect, the first seconds", first)
	add(measureRedirect, last)
	memory, err := bench.Memory(e.process.Process.Pid)
	if err != nil {
		return err
	}
	disk, err := sizeOf(filepath.Join(dir, "replica"))
	if err != nil {
		return err
	}
	add(measureMemory, float64(memory)/1e6)
	add(modelOfMemory, links*modelMemory/1e6)
	add(measureDisk, float64(disk)/1e6)
	add(modelOfDisk, links*modelDisk/1e6)
	for _, list := range lists {
		times, err := g.list(ctx, list.query)
		if err != nil {
			return fmt.Errorf("%s: %w", list.name, err)
		}
		slices.Sort(times)
		for _, q := range []struct {
			name string
			at   float64
		}{{"p50", 0.5}, {"p99", 0.99}} {
			add(list.name+", "+q.name+" ms", float64(times[int(q.at*float64(len(times)-1))])/1e6)
		}
	}
	return nil
}

// fill makes links up to that number. Their indexes are made again afterwards, which
// takes half the time.
func (g *growth) fill(ctx context.Context, links int) error {
	const step = 1_000_000
	began := time.Now()
	rows, err := g.db.Query(ctx, `
		SELECT 'DROP INDEX ' || indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index
		WHERE indrelid = 'link'::regclass AND NOT indisunique
		UNION ALL
		SELECT 'ALTER TABLE link DROP CONSTRAINT link_code', 'ALTER TABLE link ADD CONSTRAINT link_code ' || pg_get_constraintdef(oid)
		FROM pg_constraint WHERE conrelid = 'link'::regclass AND conname = 'link_code'`)
	if err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	var drop []string
	after := []string{`SET maintenance_work_mem = '2GB'`}
	var dropOne, makeOne string
	if _, err := pgx.ForEachRow(rows, []any{&dropOne, &makeOne}, func() error {
		drop, after = append(drop, dropOne), append(after, makeOne)
		return nil
	}); err != nil {
		return fmt.Errorf("fill PostgreSQL: %w", err)
	}
	run := func(statements ...string) error {
		for _, sql := range statements {
			if _, err := g.db.Exec(ctx, sql); err != nil {
				return fmt.Errorf("fill PostgreSQL: %w", err)
			}
		}
		return nil
	}
	if err := run(drop...); err != nil {
		return err
	}
	for g.links < links {
		end := min(g.links+step, links)
		if err := bench.FillLinks(ctx, g.s.State.DatabaseURL, g.targets, g.links, end, titleOf); err != nil {
			return err
		}
		g.links = end
		g.o.Logf("%d links after %s", g.links, time.Since(began).Round(time.Second))
	}
	return run(append(after, `VACUUM ANALYZE link`, `CHECKPOINT`)...)
}

func (g *growth) get(ctx context.Context, where, key string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return 0, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := g.client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}
