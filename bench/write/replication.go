//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waypost"
	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/controlplane"
	"waypost/edge/replica"
	"waypost/replication"
)

func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// serve serves a source over HTTP until stop is called.
func serve(ctx context.Context, s replication.Source) (url string, stop func(), err error) {
	server, err := replication.NewServer(replication.ServerConfig{Source: s, Logger: errorsOnly()})
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+replication.PathStream, server.Stream)
	mux.HandleFunc("GET "+replication.PathSnapshot, server.Snapshot)
	web := httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	return web.URL, func() {
		cancel()
		<-ran //nolint:errcheck // it was cancelled
		web.CloseClientConnections()
		web.Close()
	}, nil
}

// follower is a replica that follows a source.
type follower struct {
	*replica.DB
	dir    string
	cancel context.CancelFunc
	ended  chan error
}

// follow makes an empty replica and lets it follow.
func (l *lab) follow(ctx context.Context, url string) (*follower, error) {
	dir, err := os.MkdirTemp(l.dir, "replica-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	db, err := replica.Open(replica.Config{Dir: filepath.Join(dir, "replica"), Logger: errorsOnly()})
	if err != nil {
		return nil, err
	}
	f := &follower{DB: db, dir: dir, ended: make(chan error, 1)}
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		f.ended <- replication.Follow(ctx, replication.FollowConfig{URL: url, Sink: db, Logger: errorsOnly(), BackoffMin: time.Millisecond})
	}()
	return f, nil
}

// await waits until the replica has reached a position.
func (f *follower) await(ctx context.Context, p waypost.Position) error {
	for at := f.Position(); at.Epoch != p.Epoch || at.Seq < p.Seq; at = f.Position() {
		select {
		case err := <-f.ended:
			f.ended <- err
			return fmt.Errorf("follow: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Microsecond):
		}
	}
	return nil
}

// leave ends following; the replica stays open.
func (f *follower) leave() {
	f.cancel()
	f.ended <- <-f.ended
}

func (f *follower) remove() error {
	f.leave()
	return errors.Join(f.Close(), os.RemoveAll(f.dir))
}

// snapshot measures how fast an empty replica becomes one that serves.
func (l *lab) snapshot(ctx context.Context) (_ bench.Section, err error) {
	links := sized(l, 1_000_000, 2000)
	d, err := l.startDatabase(ctx, "snapshot")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := l.fill(ctx, d, links); err != nil {
		return bench.Section{}, err
	}
	head, err := d.Head(ctx)
	if err != nil {
		return bench.Section{}, err
	}
	const copied, fromPostgres, fromReplica = "COPY in key order", "from PostgreSQL", "from a replica"
	var figuresOf [3]figures
	timed := func(f *figures, do func() error) error { return d.timed(f, links, do) }
	rounds := min(l.o.Rounds, 3)
	for range rounds {
		err := timed(&figuresOf[0], func() error {
			return d.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
				_, err := c.Conn().PgConn().CopyTo(ctx, io.Discard, `COPY (SELECT code, original_url, stamp FROM link ORDER BY domain_id, code) TO STDOUT (FORMAT binary)`)
				return err
			})
		})
		if err != nil {
			return bench.Section{}, err
		}
		if err := l.snapshotRound(ctx, d, head, timed, &figuresOf[1], &figuresOf[2]); err != nil {
			return bench.Section{}, err
		}
	}
	s := bench.Section{
		Title: fmt.Sprintf("Snapshots of %d links", links),
		Notes: []string{fmt.Sprintf("%d rounds; PostgreSQL, both replicas and the serving side share the machine, with HTTP between them", rounds)},
	}
	for i, c := range []bench.Case{
		{Name: copied, What: "code, target and stamp of every link, thrown away."},
		{Name: fromPostgres, What: "from an empty directory to a replica that serves and has checked the digest."},
		{Name: fromReplica, What: "the same, from another replica on this machine."},
	} {
		c.Base, c.Measures = copied, figuresOf[i].measures("link")
		s.Cases = append(s.Cases, c)
	}
	s.AddGoal(fromPostgres, "µs per link", 1e6/400_000)
	s.AddGoal(fromReplica, "µs per link", 1e6/900_000)
	return s, nil
}

// snapshotRound makes a replica from PostgreSQL, and another one from that.
func (l *lab) snapshotRound(
	ctx context.Context, d *database, head replication.Head, timed func(*figures, func() error) error, first, second *figures,
) (err error) {
	var source replication.Source = d
	for _, f := range []*figures{first, second} {
		url, stop, err1 := serve(ctx, source)
		if err1 != nil {
			return err1
		}
		defer stop()
		var made *follower
		err1 = timed(f, func() (err error) {
			if made, err = l.follow(ctx, url); err != nil {
				return err
			}
			return made.await(ctx, head.Position)
		})
		if made != nil {
			defer func() { err = errors.Join(err, made.remove()) }()
			made.leave()
		}
		if err1 != nil {
			return err1
		}
		source = made.DB
	}
	return nil
}

// lag measures the time from a commit to the moment at which an edge has the link.
func (l *lab) lag(ctx context.Context) (_ bench.Section, err error) {
	creates, rate := sized(l, 300, 10), sized(l, 2000, 100)
	d, err := l.startDatabase(ctx, "lag")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	url, stop, err := serve(ctx, d)
	if err != nil {
		return bench.Section{}, err
	}
	defer stop()
	f, err := l.follow(ctx, url)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, f.remove()) }()
	links := d.links()
	defer func() { err = errors.Join(err, links.Close(context.WithoutCancel(ctx))) }()
	var next atomic.Uint64
	create := func() (string, error) {
		target := string(l.targets.Append(nil, next.Add(1)))
		link, _, err := links.Create(ctx, controlplane.Actor{Workspace: waypost.DefaultWorkspace}, controlplane.NewLink{OriginalURL: target})
		return string(link.Code), err
	}
	const idle, loaded = "nothing else happens", "next to other creates"
	s := bench.Section{
		Title: "From a commit to an edge",
		Notes: []string{
			"time from the return of Links.Create, after the commit, until the replica finds the link, looked for every 50 µs",
			fmt.Sprintf("%d rounds of %d links, one every 10 ms", min(l.o.Rounds, 3), creates),
		},
	}
	for _, name := range []string{idle, loaded} {
		unload := func() {}
		if name == loaded {
			unload = load(rate, func() { _, _ = create() }) // a failure would show in the rate
		}
		before, start := next.Load(), time.Now()
		var p50, p99 []float64
		for range min(l.o.Rounds, 3) {
			times, err := lags(ctx, f, creates, create)
			if err != nil {
				unload()
				return bench.Section{}, err
			}
			p50, p99 = append(p50, millis(times, 0.5)), append(p99, millis(times, 0.99))
		}
		did := float64(next.Load()-before) / time.Since(start).Seconds()
		unload()
		s.Cases = append(s.Cases, bench.Case{Name: name, Base: idle, Measures: []bench.Measure{
			{Name: "p50 ms", Rounds: p50},
			{Name: "p99 ms", Compared: true, Rounds: p99},
			{Name: "creates per second", Rounds: []float64{float64(int(did))}},
		}})
		s.AddGoal(name, "p50 ms", 10)
		s.AddGoal(name, "p99 ms", 50)
	}
	return s, nil
}

// lags creates links and looks for each.
func lags(ctx context.Context, f *follower, creates int, create func() (string, error)) (times []time.Duration, err error) {
	for range creates {
		code, err := create()
		if err != nil {
			return nil, err
		}
		start := time.Now()
		for {
			_, _, found, err := f.Link(waypost.DefaultDomain, []byte(code), nil)
			if found && err == nil {
				break
			}
			if time.Since(start) > time.Minute {
				return nil, fmt.Errorf("a link is not there after a minute: %w", errors.Join(err, ctx.Err()))
			}
			time.Sleep(50 * time.Microsecond)
		}
		times = append(times, time.Since(start))
		time.Sleep(10 * time.Millisecond)
	}
	return times, nil
}

// load calls do at a steady rate, with up to 64 calls at a time, until stop is called.
func load(rate int, do func()) (stop func()) {
	const callers, step = 64, 5 * time.Millisecond
	pace, done := make(chan struct{}, rate), make(chan struct{})
	var working sync.WaitGroup
	for range callers {
		working.Go(func() {
			for range pace {
				do()
			}
		})
	}
	working.Go(func() {
		defer close(pace)
		tick := time.NewTicker(step)
		defer tick.Stop()
		for start, asked := time.Now(), 0; ; {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for due := int(time.Since(start).Seconds() * float64(rate)); asked < due; asked++ {
				select {
				case pace <- struct{}{}:
				default: // the callers are behind
				}
			}
		}
	})
	return func() {
		close(done)
		working.Wait()
	}
}

// fill makes links in PostgreSQL, through the product's triggers.
func (l *lab) fill(ctx context.Context, d *database, links int) error {
	const each = 10_000
	l.o.Logf("making %d links", links)
	for n := 0; n < links; n += each {
		var codes, targets []string
		for i := n; i < min(n+each, links); i++ {
			codes = append(codes, string(corpus.AppendCode(nil, uint64(i))))
			targets = append(targets, string(l.targets.Append(nil, uint64(i))))
		}
		_, err := d.pool.Exec(ctx, `
			INSERT INTO link (workspace_id, domain_id, code, original_url)
			SELECT 1, 1, c, t FROM unnest($1::text[], $2::text[]) u (c, t)`, codes, targets)
		if err != nil {
			return fmt.Errorf("fill PostgreSQL: %w", err)
		}
	}
	for _, sql := range []string{`VACUUM ANALYZE link`, `CHECKPOINT`} {
		if _, err := d.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("fill PostgreSQL: %w", err)
		}
	}
	return nil
}
