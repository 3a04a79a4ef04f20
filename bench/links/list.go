//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/bench"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver"
	"waypost/keyrange"
	"waypost/migrations"
)

const firstPage = "the newest 50"

// listCase is a kind of request.
type listCase struct {
	name, what string
	query      string
	deep       int // pages of 1,000 before it
	p50s, p99s []float64
	links      int // of the last page
}

func listCases() []*listCase {
	return []*listCase{
		{name: firstPage, what: "no filter."},
		{name: "deep", what: "the same, after a fifth of all links.", deep: 1},
		{name: "most clicked", query: "sort=-clicks", what: "a third of all links were followed."},
		{name: "most clicked, deep", query: "sort=-clicks", what: "after half of the links that were followed.", deep: 1},
		{name: "search, a seldom word", query: "q=seldom", what: "1 of 10,000 links has it."},
		{name: "search, a common word", query: "q=common", what: "every second link has it."},
		{name: "search, two words and a tag", query: "q=common+seldom&tag=all", what: "both words and the tag."},
		{name: "a rare tag", query: "tag=rare", what: "1 of 5,000 links has it."},
		{name: "a common tag, most clicked", query: "tag=all&sort=-clicks", what: "every second link has it."},
		{name: "disabled", query: "active=false", what: "1 of 200 links."},
		{name: "expired", query: "expired=true", what: "1 of 10,000 links: expired, and not yet cleaned up."},
		{name: "a day", query: "created_after=2029-06-10T00:00:00Z&created_before=2029-06-11T00:00:00Z&active=true&expired=false", what: "of creation, with two filters that nearly all links fit."},
		{name: "tags", query: "/tags", what: "all tags, with their counts."},
	}
}

// measureLists asks for pages of many links.
func (l *lab) measureLists(ctx context.Context) (_ bench.Section, err error) {
	api, stop, err := l.startAPI(ctx)
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cases := listCases()
	paths := make([]string, len(cases))
	for i, c := range cases {
		if paths[i], err = c.path(api, l.o.Listed); err != nil {
			return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for range l.o.Rounds {
		for i, c := range cases {
			times := make([]time.Duration, l.o.Requests)
			for j := range times {
				start := time.Now()
				page, err := ask(api, paths[i])
				if err != nil {
					return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
				}
				times[j], c.links = time.Since(start), len(page.URLs)+len(page.Tags)
			}
			c.p50s, c.p99s = append(c.p50s, quantile(times, 0.5)), append(c.p99s, quantile(times, 0.99))
		}
	}
	out := bench.Section{
		Title: fmt.Sprintf("Lists of %d links", l.o.Listed),
		Settings: []bench.Setting{
			{Name: "rounds", Value: fmt.Sprintf("%d of %d requests for each case, one after another, in turns", l.o.Rounds, l.o.Requests)},
			{Name: "requests", Value: "pages of 50, from the API's handler, JSON included, without a network"},
			{Name: "links", Value: "of one workspace; every second has a title and a tag"},
		},
	}
	for _, c := range cases {
		out.Cases = append(out.Cases, bench.Case{
			Name: c.name, What: fmt.Sprintf("%s %d on the page.", c.what, c.links), Base: firstPage, Requests: int64(l.o.Rounds * l.o.Requests),
			Measures: []bench.Measure{{Name: p50, Rounds: c.p50s}, {Name: p99, Rounds: c.p99s}},
		})
		l.o.Log("%-30s p50 %.2f ms, p99 %.2f ms, %d links", c.name, slices.Min(c.p50s), slices.Max(c.p99s), c.links)
	}
	return out, nil
}

type listPage struct {
	URLs       []json.RawMessage `json:"urls"`
	Tags       []json.RawMessage `json:"tags"`
	NextCursor string            `json:"next_cursor"`
}

func ask(api http.Handler, path string) (page listPage, err error) {
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	if w.Code != http.StatusOK {
		text, err := io.ReadAll(w.Body)
		return page, errors.Join(fmt.Errorf("an answer of %d: %s", w.Code, text), err)
	}
	return page, json.Unmarshal(w.Body.Bytes(), &page)
}

// path gives what a case asks for; a deep one goes there page by page.
func (c *listCase) path(api http.Handler, links int) (string, error) {
	if c.query == "/tags" {
		return "/api/v1/tags", nil
	}
	path := "/api/v1/urls?" + c.query
	if c.deep == 0 {
		return path, nil
	}
	at := path + "&limit=1000"
	for range max(links/5/1000, 1) {
		page, err := ask(api, at)
		if err != nil {
			return "", err
		}
		if page.NextCursor == "" {
			break
		}
		path = "/api/v1/urls?" + c.query + "&cursor=" + url.QueryEscape(page.NextCursor)
		at = path + "&limit=1000"
	}
	return path, nil
}

// startAPI gives the API's handler over a PostgreSQL of its own, with links in it.
func (l *lab) startAPI(ctx context.Context) (_ http.Handler, stop func() error, err error) {
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(l.dir, "list")})
	if err != nil {
		return nil, nil, err
	}
	closers := []func() error{func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return server.Stop(ctx)
	}}
	stop = func() (err error) {
		for _, c := range slices.Backward(closers) {
			err = errors.Join(err, c())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	if err := migrations.Up(ctx, server.URL()); err != nil {
		return nil, nil, err
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: server.URL()})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, func() error { db.Close(); return nil })
	cluster := postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"}
	if _, err := db.EnsureCluster(ctx, cluster); err != nil {
		return nil, nil, err
	}
	if err := l.fill(ctx, server.URL()); err != nil {
		return nil, nil, err
	}
	space, err := keyrange.NewSpace(cluster.CodeLength, cluster.PrefixLength)
	if err != nil {
		return nil, nil, err
	}
	minter := controlplane.NewMinter(controlplane.MinterConfig{Store: db, Coder: keyrange.NewCoder(space, cluster.Secret), Region: "eu", Node: "bench/1"})
	service := controlplane.New(controlplane.Config{Stores: db.Stores(), Minter: minter, Region: "eu"})
	closers = append(closers, func() error { return service.Close(context.WithoutCancel(ctx)) })
	actor := &controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	api := httpapi.New(httpapi.Config{Links: service.Links, Access: service.Access, Domains: service.Domains, Keys: service.KeyRanges, BaseURL: "http://example.com", Anonymous: actor, Logger: slog.New(slog.DiscardHandler)})
	return api, stop, nil
}

// fill makes links by hand, as many as one transaction should hold at a time.
func (l *lab) fill(ctx context.Context, databaseURL string) (err error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	cfg.User = "postgres" // whom no row-level security binds
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	const by = 50_000
	for first := 1; first <= l.o.Listed; first += by {
		_, err := conn.Exec(ctx, `
			INSERT INTO link (workspace_id, domain_id, code, original_url, title, description, tags, active, expires_at, created_at)
			SELECT 1, 1, 'list-' || i, 'https://www.example.com/some/path/of/a/shop/' || i || '?utm_source=newsletter',
			       CASE WHEN i % 2 = 0 THEN 'common offer number ' || i || CASE WHEN i % 10000 = 0 THEN ' seldom' ELSE '' END ELSE '' END,
			       CASE WHEN i % 10 = 0 THEN 'for members of our newsletter who like it' ELSE '' END,
			       CASE WHEN i % 5000 = 0 THEN '{rare,all}'::text[] WHEN i % 2 = 0 THEN '{all}' ELSE '{}' END,
			       i % 200 <> 0, CASE WHEN i % 10000 = 0 THEN now() - interval '1 minute' WHEN i % 100 = 0 THEN timestamptz '2099-01-01' END,
			       timestamptz '2029-06-01' + i * interval '2 seconds'
			FROM generate_series($1::integer, $2::integer) i`, first, min(first+by-1, l.o.Listed))
		if err != nil {
			return fmt.Errorf("filling: %w", err)
		}
		if (first/by)%10 == 9 {
			l.o.Log("%d links are there", first+by-1)
		}
	}
	for _, sql := range []string{
		`INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) SELECT id, 1, 1 + id % 1000, now() FROM link WHERE id % 3 = 0`,
		`VACUUM ANALYZE link, link_click, link_tag`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("filling: %w", err)
		}
	}
	return nil
}
