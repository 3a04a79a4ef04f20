package budgets_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/internal/pgserver"
	"waypost/internal/pgserver/pgservertest"
	"waypost/test/devtest"
)

// restorable is a PostgreSQL of its own, whose files can be put back.
type restorable struct {
	t      *testing.T
	dir    string
	server *pgserver.Server
}

func newRestorable(t *testing.T) *restorable {
	p := &restorable{t: t, dir: filepath.Join(t.TempDir(), "postgres")}
	devtest.CopyDatabase(t, p.dir)
	p.start()
	t.Cleanup(p.stop)
	return p
}

func (p *restorable) start() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waiting)
	defer cancel()
	var err error
	p.server, err = pgserver.Start(ctx, pgserver.Config{Dir: p.dir, Settings: map[string]string{"fsync": "off"}})
	require.NoError(p.t, err)
}

func (p *restorable) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), waiting)
	defer cancel()
	require.NoError(p.t, p.server.Stop(ctx))
}

func (p *restorable) exec(statement string) int64 {
	p.t.Helper()
	return exec(p.t, p.server.URL(), statement)
}

// exec runs a statement in a database as a superuser, and returns the number in its first
// column; 0 without one.
func exec(t *testing.T, url, statement string) (n int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), strings.Replace(url, pgserver.Role+"@", "postgres@", 1))
	require.NoError(t, err)
	rows, err := conn.Query(t.Context(), statement)
	require.NoError(t, err)
	if rows.Next() {
		require.NoError(t, rows.Scan(&n))
	}
	rows.Close()
	require.NoError(t, rows.Err())
	require.NoError(t, conn.Close(t.Context()))
	return n
}

func (p *restorable) copyTo(dir string) {
	p.t.Helper()
	p.stop()
	devtest.CopyTree(p.t, p.dir, dir)
	p.start()
}

// visits follows a link at one edge, and returns how often that led to the target.
func (w *world) visits(s *slot, l *limited, n int) int64 {
	client, before := newClient(), l.got.Load()
	defer client.CloseIdleConnections()
	for range n {
		w.follow(w.t.Context(), client, s, l)
	}
	return l.got.Load() - before
}

// frozen reports whether the control plane shows a frozen budget.
func (w *world) frozen() bool {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.plane.Admin+"/metrics", http.NoBody)
	require.NoError(w.t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return strings.Contains(string(text), "\nwaypost_budgets_frozen 1\n")
}

// PostgreSQL goes back to a copy of its files that knows nothing of most grants, while
// one edge is cut off. No link was changed since the copy.
func TestBudgets_HoldAfterPostgreSQLIsRestored(t *testing.T) {
	for name, replaced := range map[string]bool{"every edge reports": false, "an edge returns with a new disk": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRestorable(t)
			w := start(t, pgservertest.Patient(p.server.URL()), 2)
			near, far := w.slots[0], w.slots[1]
			l := &limited{code: "tickets", limit: 60}
			w.links = append(w.links, l)
			var made api.Link
			w.call(http.MethodPost, "/api/v1/urls?wait=all", api.NewLink{
				OriginalURL: target, CustomCode: l.code, MaxClicks: l.limit, MaxClicksMode: "exact",
			}, &made)
			for _, s := range w.slots { // so that PostgreSQL knows them
				require.Eventually(t, func() bool { return w.visits(s, l, 1) == 1 }, waiting, 10*time.Millisecond)
			}

			backup := filepath.Join(t.TempDir(), "backup")
			p.copyTo(backup)
			for _, s := range w.slots {
				spent := int64(0)
				require.Eventually(t, func() bool { spent += w.visits(s, l, 5); return spent >= 15 }, waiting, 10*time.Millisecond)
			}
			far.cut.Store(true)
			far.proxy.CloseClientConnections()
			epoch := p.exec(`SELECT epoch FROM changelog_head`)
			p.stop()
			devtest.CopyTree(t, backup, p.dir)
			p.start()
			require.Eventually(t, func() bool { return p.exec(`SELECT epoch FROM changelog_head`) > epoch }, waiting, 20*time.Millisecond)
			p.exec(`UPDATE changelog_epoch SET opened_at = opened_at - interval '1 minute'`) // no other edge is expected
			require.Eventually(t, func() bool {
				return p.exec(`SELECT count(*) FROM budget_awaited`) == 1
			}, waiting, 20*time.Millisecond, "the edge that is near has reported")
			require.True(t, w.frozen())
			w.visits(near, l, 60)
			require.Zero(t, w.visits(near, l, 20), "it has spent what it held, and gets no more")
			require.LessOrEqual(t, l.got.Load(), l.limit)

			if replaced {
				far.edge.Kill()
				<-far.edge.Exited()
				require.NoError(t, os.RemoveAll(far.dir))
			}
			far.cut.Store(false)
			if replaced {
				w.startEdge(far)
			}
			require.Eventually(t, func() bool { return p.exec(`SELECT count(*) FROM budget_awaited`) == 0 }, waiting, 20*time.Millisecond)
			require.False(t, w.frozen())
			if replaced {
				require.Zero(t, w.visits(near, l, 20)+w.visits(far, l, 20), "what the old disk held may be spent")
				return
			}
			require.Eventually(t, func() bool {
				w.visits(near, l, 20)
				w.visits(far, l, 20)
				return l.got.Load() >= l.limit
			}, waiting, 100*time.Millisecond, "the rest can be had")
			require.Zero(t, w.visits(near, l, 20)+w.visits(far, l, 20))
			require.Equal(t, l.limit, l.got.Load())
			require.Equal(t, l.limit, w.budget(l).Granted)
		})
	}
}
