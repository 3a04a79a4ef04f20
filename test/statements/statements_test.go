// Package statements_test looks at the plans of the statements that a control plane
// executes all the time, on PostgreSQL as an operator has it.
package statements_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/internal/pgserver"
	"waypost/test/devtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := devtest.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	patience = time.Minute
	phase    = 6 * time.Second

	// compiledAbove is PostgreSQL's default of jit_above_cost.
	compiledAbove = 100_000
	// pagesAtMost bounds the pages that an execution reads to find rows. The small database
	// has some 700.
	pagesAtMost = 300
)

// world is a PostgreSQL that logs plans, a control plane and an edge.
type world struct {
	t       *testing.T
	server  *pgserver.Server
	log     planLog
	dir     string
	control *devtest.Control
	edge    *devtest.Edge
	made    atomic.Int64
}

func start(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir()}
	dir := filepath.Join(w.dir, "postgres")
	devtest.CopyDatabase(t, dir)
	settings := map[string]string{"fsync": "off", "autovacuum": "off"}
	for name, value := range explained {
		settings[name] = value
	}
	var err error
	w.server, err = pgserver.Start(t.Context(), pgserver.Config{Dir: dir, Settings: settings})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, w.server.Stop(ctx))
	})
	w.log = planLog{dir: dir, seen: make(map[string]int64)}
	w.startControl()
	w.edge, err = devtest.StartEdge(t, devtest.EdgeConfig{
		Control: w.control.API, DataDir: filepath.Join(w.dir, "edge"), Region: "eu", Node: "edge",
	})
	require.NoError(t, err)
	ready, err := w.edge.Ready()
	require.NoError(t, err)
	require.True(t, ready, w.edge.Output())
	return w
}

func (w *world) startControl() {
	var err error
	w.control, err = devtest.StartControl(w.t, devtest.ControlConfig{
		Database: w.server.URL(), DataDir: filepath.Join(w.dir, "control"), Region: "eu", Node: "control",
	})
	require.NoError(w.t, err)
	ready, err := w.control.Ready()
	require.NoError(w.t, err)
	require.True(w.t, ready, w.control.Output())
}

// call sends a request to the control plane.
func (w *world) call(method, path string, body map[string]any, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.control.API+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	return err
}

// live makes, visits, changes and deletes links, again and again.
func (w *world) live() error {
	for _, fields := range []map[string]any{
		{}, {"max_clicks": 3}, {"title": "spring", "tags": []string{"sale"}},
	} {
		fields["original_url"] = fmt.Sprintf("https://example.com/%d", w.made.Add(1))
		var link struct {
			Code string `json:"short_code"`
		}
		if err := w.call(http.MethodPost, "/api/v1/urls?wait=all", fields, &link); err != nil {
			return err
		}
		for range 4 {
			req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.edge.Addr+"/"+link.Code, nil)
			if err != nil {
				return err
			}
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				return err
			}
			if err := res.Body.Close(); err != nil {
				return err
			}
		}
		at := "/api/v1/urls/" + link.Code
		if err := errors.Join(
			w.call(http.MethodGet, at, nil, nil),
			w.call(http.MethodPatch, at, map[string]any{"title": "autumn"}, nil),
			w.call(http.MethodDelete, at, nil, nil),
		); err != nil {
			return err
		}
	}
	return w.call(http.MethodGet, "/api/v1/urls?limit=10", nil, nil)
}

// judge lets the system live for a while, and looks at the plans of all statements that
// were executed more than once in a second.
func (w *world) judge(t *testing.T) {
	w.log.readNew(t)
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	began := time.Now()
	end := began.Add(phase)
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := w.live(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	took := time.Since(began) // longer than phase on a busy machine
	often := 0
	for text, all := range w.log.readNew(t) {
		if float64(len(all)) < took.Seconds() {
			continue
		}
		often++
		var worst execution
		for _, e := range all {
			require.Nil(t, e.JIT, "it was compiled: %s", text)
			if e.Plan.scanned() >= worst.Plan.scanned() {
				worst = e
			}
		}
		pages := worst.Plan.scanned()
		t.Logf("%5d executions, up to %5d pages, cost %9.0f: %.150q", len(all), pages, worst.Plan.Cost, text)
		plan, err := json.MarshalIndent(worst.Plan, "", " ")
		require.NoError(t, err)
		if pages > pagesAtMost || worst.Plan.Cost > compiledAbove {
			t.Errorf("an execution read %d pages, at a cost of %.0f:\n%s\n%s", pages, worst.Plan.Cost, text, plan)
		}
	}
	require.Greater(t, often, 30, "the statements of creates, edges and clicks")
}

// fill makes the links [from, to) as a script by hand does, and waits until the edge has
// them.
func (w *world) fill(t *testing.T, from, to int) {
	const each = 20_000
	for ; from < to; from += each {
		w.byHand(t, `
			INSERT INTO link (workspace_id, domain_id, code, custom, original_url, title, created_at)
			SELECT 1, 1, 'filled-' || n, true, 'https://example.com/filled/' || n, 'number ' || n, now() - n * interval '1 second'
			FROM generate_series($1::integer, $2) n`, from, min(from+each, to)-1)
	}
	require.NoError(t, w.call(http.MethodPost, "/api/v1/urls?wait=all", map[string]any{"original_url": "https://example.com/"}, nil))
}

// byHand executes a statement as an operator does, who is no control plane.
func (w *world) byHand(t *testing.T, sql string, args ...any) {
	hand, err := pgx.Connect(t.Context(), devtest.Superuser(w.server))
	require.NoError(t, err)
	defer func() { require.NoError(t, hand.Close(context.WithoutCancel(t.Context()))) }()
	_, err = hand.Exec(t.Context(), `SET auto_explain.log_min_duration = -1`)
	require.NoError(t, err)
	_, err = hand.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// TestStatements_OfEverySecondReadLittle looks at the plans of an empty database and of a
// small one with statistics. The long form begins with plans that connections made when
// the database was empty and keep while it grows without statistics.
func TestStatements_OfEverySecondReadLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL")
	}
	w := start(t)
	t.Run("on an empty database", w.judge)
	w.fill(t, 0, 20_000)
	if devtest.Long() {
		t.Run("on a database that has grown", w.judge)
	}
	w.byHand(t, `ANALYZE`) // all statements are planned again
	t.Run("on a small database with statistics", w.judge)
	if devtest.Long() {
		w.fill(t, 20_000, 1_000_000)
		t.Run("on a million links", w.judge)
		w.byHand(t, `ANALYZE`) // all statements are planned again
		t.Run("on a million links with statistics", w.judge)
	}
}
