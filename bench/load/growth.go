//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/bench/wrk"
	"waypost/internal/admin"
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

// words are those of titles. A title has three, and every word is in many titles.
var words = strings.Fields(`autumn banner brochure catalogue coupon display event flyer invoice label leaflet letter manual menu
	newsletter packaging partner poster promotion receipt review sample season shelf signup spring summer survey ticket winter`)

func titleOf(n uint64) string {
	word := func(k uint64) string { return words[k%uint64(len(words))] }
	return word(n) + " " + word(n/30+7) + " " + word(n/900+13) + " " + strconv.FormatUint(n, 10)
}

// edgeProcess is an edge of its own.
type edgeProcess struct {
	process         *exec.Cmd
	addr, adminAddr string
}

// startEdge starts an edge and returns the time from its start until it redirects a
// visitor of the newest link.
func (g *growth) startEdge(ctx context.Context, dir string) (_ *edgeProcess, took time.Duration, err error) {
	status := dir + ".status"
	if err := os.Remove(status); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("start an edge: %w", err)
	}
	log, err := os.Create(dir + ".log")
	if err != nil {
		return nil, 0, fmt.Errorf("start an edge: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	e := &edgeProcess{process: exec.Command(g.s.Binary, "edge", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--region", "us-east-1", "--node", "growth")}
	e.process.Env = append(os.Environ(), "WAYPOST_EDGE_CONTROL_URLS="+g.s.State.API, "WAYPOST_EDGE_TOKEN="+g.token,
		"WAYPOST_EDGE_STRICT_HOSTS=false", "WAYPOST_EDGE_DATA_DIR="+dir, "WAYPOST_EDGE_STATUS_FILE="+status)
	e.process.Stdout, e.process.Stderr = log, log
	began := time.Now()
	if err := e.process.Start(); err != nil {
		return nil, 0, fmt.Errorf("start an edge: %w", err)
	}
	code := string(corpus.AppendCode(nil, uint64(g.links-1)))
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, 0, errors.Join(ctx.Err(), e.stop())
		case <-poll.C:
		}
		if e.addr == "" {
			if now, err := admin.ReadStatus(status); err == nil {
				e.addr, e.adminAddr = now.Addr, now.AdminAddr
			}
			continue
		}
		got, err := g.get(ctx, "http://"+e.addr+"/"+code, "")
		if err == nil && got == http.StatusFound {
			return e, time.Since(began), nil
		}
	}
}

func (e *edgeProcess) stop() error {
	if err := e.process.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stop an edge: %w", err)
	}
	if err := e.process.Wait(); err != nil {
		return fmt.Errorf("stop an edge: %w", err)
	}
	return nil
}

// visit has wrk follow links, and returns the CPU time of a redirect in µs: at first,
// while the edge fills its table of links, and once it has.
func (g *growth) visit(ctx context.Context, e *edgeProcess) (first, last float64, err error) {
	const visited = 200_000
	dir, err := os.MkdirTemp(g.dir, "wrk-")
	if err != nil {
		return 0, 0, fmt.Errorf("visit links: %w", err)
	}
	random := rand.New(rand.NewPCG(1, uint64(g.links)))
	var codes []byte
	for range visited {
		codes = corpus.AppendCode(codes, random.Uint64N(uint64(g.links)))
	}
	length := 5 * time.Second
	if g.o.Try {
		length = time.Second
	}
	for round := range 2 {
		if round > 0 {
			if err := g.awaitTable(ctx, e); err != nil {
				return 0, 0, err
			}
		}
		before, err := bench.CPUTime(e.process.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		r, err := wrk.Run(ctx, wrk.Config{
			Addr: e.addr, Dir: dir, Codes: codes, CodeLength: corpus.CodeLength, Head: "GET /", Tail: " HTTP/1.1\r\nHost: localhost\r\n\r\n",
			Connections: 64, Threads: 1, Duration: length,
		})
		if err != nil {
			return 0, 0, err
		}
		after, err := bench.CPUTime(e.process.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		if r.Requests == 0 || r.Failed+r.Broken > 0 {
			return 0, 0, fmt.Errorf("%d of %d redirects failed, and %d connections", r.Failed, r.Requests, r.Broken)
		}
		first, last = last, after.Since(before).Seconds()*1e6/float64(r.Requests)
	}
	return first, last, nil
}

// awaitTable waits until the edge's table has all links, or has been filled for five
// minutes: it may have no memory for all.
func (g *growth) awaitTable(ctx context.Context, e *edgeProcess) error {
	const longest = 5 * time.Minute
	for began := time.Now(); time.Since(began) < longest; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.adminAddr+"/metrics", http.NoBody)
		if err != nil {
			return err
		}
		res, err := g.client.Do(req)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if strings.Contains(string(text), "\nwaypost_replica_lookup_complete 1\n") {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	g.o.Logf("the table of links is not complete")
	return nil
}

// lists names the lists that the console and programs ask for. A query is of link n.
var lists = []struct {
	name  string
	query func(g *growth, n uint64) string
}{
	{"newest first", func(*growth, uint64) string { return "" }},
	{"by clicks", func(*growth, uint64) string { return "sort=-clicks" }},
	{"two words of titles", func(_ *growth, n uint64) string {
		title := strings.Fields(titleOf(n))
		return "search=" + title[0] + "+" + title[1]
	}},
	{"beginning of a code", func(_ *growth, n uint64) string { return "search=" + string(corpus.AppendCode(nil, n)[:5]) }},
	{"beginning of a host", func(g *growth, n uint64) string { return "search=" + url.QueryEscape(g.host(n)) }},
	{"beginning of a URL", func(g *growth, n uint64) string {
		target := string(g.targets.Append(nil, n))
		return "search=" + url.QueryEscape(target[:min(len(target), 40)])
	}},
}

// host returns the beginning of the host of a link's target.
func (g *growth) host(n uint64) string {
	u, err := url.Parse(string(g.targets.Append(nil, n)))
	if err != nil {
		return "example"
	}
	return u.Host[:max(3, len(u.Host)-2)]
}

// list asks for pages of a list of random links, and returns how long each took.
func (g *growth) list(ctx context.Context, query func(*growth, uint64) string) (times []time.Duration, err error) {
	random := rand.New(rand.NewPCG(2, uint64(g.links)))
	for range g.samples {
		where := g.s.State.API + "/api/v1/urls?limit=50&" + query(g, random.Uint64N(uint64(g.links)))
		began := time.Now()
		status, err := g.get(ctx, where, g.s.State.APIKey)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("the answer to %s is %d", where, status)
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
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

// sizeOf adds up the sizes of the files below a directory.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a compaction has taken it away
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("add up file sizes: %w", err)
	}
	return total, nil
}
