//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver"
	"waypost/migrations"
)

// section is one way in which clicks are spread over links.
type section struct {
	title string
	hot   bool // all on one link; otherwise each on another
}

func sections() []bench.Part[*lab] {
	of := func(name, title string, hot bool) bench.Part[*lab] {
		return bench.Part[*lab]{Name: name, Measure: func(ctx context.Context, l *lab) (bench.Section, error) { return l.compare(ctx, section{title, hot}) }}
	}
	return []bench.Part[*lab]{of("hot", "Clicks on one link", true), of("wide", "Clicks on different links", false)}
}

func names() []string { return bench.Names(sections()) }

// lab is where the sections of one run are measured.
type lab struct {
	o      options
	server *pgserver.Server
	db     *postgres.DB
	pool   *pgxpool.Pool // for what the product does not do
	boots  byte
}

const method = `PostgreSQL is one of its own, with fsync and all other settings of durability as in production, on the same machine as the program that
sends. A round sends batches as edges make them, decodes and checks them, and ends when the last is committed. Rounds of the cases take turns, so that each is compared
with its base of the same moment; a ratio is the median of those comparisons. What a round leaves to fold is folded before the next, and how fast that goes when nothing else
happens is measured then.
`

// measure makes the sections, and writes each down when it is complete.
func measure(ctx context.Context, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	dir, remove, err := o.TempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	l := &lab{o: o}
	defer func() { err = errors.Join(err, l.stop()) }()
	if err := l.start(ctx, filepath.Join(dir, "postgres")); err != nil {
		return err
	}
	l.o.Log("creating %d links", o.Links)
	if err := l.fill(ctx); err != nil {
		return fmt.Errorf("creating links: %w", err)
	}
	return bench.Run(ctx, &o.Options, bench.Study[*lab]{Title: "Clicks", Method: method, Sections: sections(), Goals: setGoals}, l)
}

func (l *lab) start(ctx context.Context, dir string) (err error) {
	settings := map[string]string{"shared_buffers": "1GB", "max_wal_size": "4GB"}
	if l.server, err = pgserver.Start(ctx, pgserver.Config{Dir: dir, Settings: settings}); err != nil {
		return err
	}
	if err := migrations.Up(ctx, l.server.URL()); err != nil {
		return err
	}
	if l.db, err = postgres.Open(ctx, postgres.Config{URL: l.server.URL()}); err != nil {
		return err
	}
	if _, err := l.db.EnsureCluster(ctx, postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"}); err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(l.server.URL())
	if err != nil {
		return fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	cfg.ConnConfig.User = "postgres" // who sees the links of everybody
	l.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	return err
}

func (l *lab) stop() error {
	if l.pool != nil {
		l.pool.Close()
	}
	if l.db != nil {
		l.db.Close()
	}
	if l.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return l.server.Stop(ctx)
}

// fill makes the links, with ids from 1 on in the order of their numbers, and plain counters.
func (l *lab) fill(ctx context.Context) error {
	const atOnce = 10_000
	for n := 0; n < l.o.Links; n += atOnce {
		var codes []string
		for i := n; i < min(n+atOnce, l.o.Links); i++ {
			codes = append(codes, string(corpus.AppendCode(nil, uint64(i))))
		}
		_, err := l.pool.Exec(ctx, `
			INSERT INTO link (workspace_id, domain_id, code, original_url)
			SELECT 1, 1, code, 'https://example.com/' || code FROM unnest($1::text[]) WITH ORDINALITY c (code, n) ORDER BY n`, codes)
		if err != nil {
			return err
		}
	}
	for _, sql := range []string{
		`CREATE TABLE bench_counter (link_id bigint PRIMARY KEY, clicks bigint NOT NULL, last_accessed_at timestamptz NOT NULL) WITH (fillfactor = 80)`,
		`INSERT INTO bench_counter SELECT id, 0, now() FROM link ORDER BY id`,
		`VACUUM ANALYZE`,
	} {
		if _, err := l.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// setGoals holds the figures against what the project has set itself: 200,000 clicks a
// second as rollups, 40,000 with every single one.
func setGoals(s *bench.Section) {
	for name, most := range map[string]float64{asRollups: 5, withEvents: 25} {
		if m := s.Find(name, microseconds); m != nil {
			s.Goals = append(s.Goals, bench.Goal{What: "µs for a click " + name, Most: most, Figure: m.Summary.Median})
		}
	}
	slices.SortFunc(s.Goals, func(a, b bench.Goal) int { return int(a.Most - b.Most) })
}
