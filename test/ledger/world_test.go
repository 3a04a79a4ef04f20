package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
	"waypost/internal/pgserver"
	"waypost/migrations"
	"waypost/rules"
	"waypost/test/devtest"
)

const (
	links       = 20
	clients     = 4               // of each edge
	longestLife = 4 * time.Second // of a process that does not reach its place
)

func codeOf(n int) string { return fmt.Sprintf("link-%02d", n) }

// world is one PostgreSQL, one control plane and two edges, each behind a proxy of its
// own.
type world struct {
	t        *testing.T
	base     string
	database string
	control  atomic.Pointer[url.URL]
	edges    []*slot
	visitors *visitors
	last     *devtest.Control // that runs until the end; nil: processes are killed still

	stopVisits, stopLives context.CancelFunc
	visits, lives         sync.WaitGroup

	progress atomic.Int64 // Unix ms of when somebody was last killed at a new place; 0: none is missing

	mu     sync.Mutex
	errors []error
	server *pgserver.Server
}

// patience multiplies the time that everybody lives while no one reaches a new place:
// on a slow machine, a life that is too short for a place is so every time.
func (w *world) patience() int {
	at := w.progress.Load()
	if at == 0 {
		return 1
	}
	return 1 + min(9, int(time.Since(time.UnixMilli(at))/(20*time.Second)))
}

// lifetime returns the time that a process lives without reaching its place.
func (w *world) lifetime(longest time.Duration) time.Duration {
	return time.Duration(w.patience())*longest + rand.N(time.Second)
}

// idle reports whether somebody was killed at each place of its own, while others were
// not: it then stays out of their way, since clicks come to their places only where
// others live.
func (w *world) idle(at *turns) bool { return w.progress.Load() != 0 && len(at.missing()) == 0 }

// turn returns the place at which somebody is killed next; one without a name to a
// process that is idle.
func (w *world) turn(at *turns) place {
	if w.idle(at) {
		return place{way: way{limits: shipping.limits, longest: 4 * longestLife, busy: 1}}
	}
	return at.next()
}

// killAt returns the setting by which a process ends at a place.
func (w *world) killAt(p place) string {
	if p.name == "" {
		return ""
	}
	return fmt.Sprintf(";%s=%d", p.name, p.passes/w.patience())
}

// slot is the place of an edge.
type slot struct {
	node  string
	dir   string
	proxy *proxy
	now   atomic.Pointer[life]
	count int
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, fmt.Errorf(format, args...))
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.errors) > 0
}

// startWorld makes links and lets both edges learn them. No one is killed yet.
func startWorld(t *testing.T) *world {
	t.Helper()
	devtest.Binary(t) // which takes a while
	w := &world{t: t, base: t.TempDir(), visitors: newVisitors()}
	require.NoError(t, w.startPostgres(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, w.server.Stop(ctx))
	})
	w.database = w.server.URL()
	require.NoError(t, migrations.Up(t.Context(), w.database))
	c := w.startControl("first", "")
	require.NotNil(t, c)
	hand := w.hand()
	for _, sql := range []string{
		`UPDATE workspace SET settings = '{"events": "all"}'`,
		fmt.Sprintf(`INSERT INTO link (workspace_id, domain_id, code, original_url)
			SELECT 1, 1, 'link-' || lpad(n::text, 2, '0'), 'https://example.com/' FROM generate_series(0, %d) n`, links-1),
	} {
		_, err := hand.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, hand.Close(t.Context()))
	w.giveRules(c)
	for _, node := range []string{"edge-a", "edge-b"} {
		s := &slot{node: node, dir: filepath.Join(w.base, node), proxy: startProxy(t, &w.control)}
		w.edges = append(w.edges, s)
		e := w.startEdge(s, shipping.limits)
		require.NotNil(t, e)
		require.Eventually(t, func() bool { return w.serves(e) }, 2*time.Minute, 20*time.Millisecond)
		require.NoError(t, e.Stop())
	}
	c.Kill()
	return w
}

// ruled reports whether a link has rules. The first of these leads visitors who ask for
// it, and the second divides the others. The targets say who led a visitor: RULE/VARIANT.
func ruled(n int) bool { return n%2 == 0 }

// answered returns who led a visitor to a target.
func answered(location string) string {
	if by := strings.TrimPrefix(location, "https://example.com/"); by != "" {
		return by
	}
	return "0/0"
}

func (w *world) giveRules(c *devtest.Control) {
	w.t.Helper()
	cl, err := client.New(c.API, "")
	require.NoError(w.t, err)
	all := []rules.Rule{
		{When: []rules.Condition{{Query: &rules.Parameter{Key: "first"}}}, To: "https://example.com/1/0"},
		{Split: &rules.Split{By: rules.ByNone, Variants: []rules.Variant{
			{Weight: 2, To: "https://example.com/2/1"}, {Weight: 1, To: "https://example.com/2/2"},
		}}},
	}
	for n := range links {
		if ruled(n) {
			_, _, err := cl.Links.Change(w.t.Context(), codeOf(n), api.LinkChange{Rules: api.Set(all)}, client.Write{})
			require.NoError(w.t, err)
		}
	}
}

// serves asks an edge for what is none of the links that are counted.
func (w *world) serves(e *devtest.Edge) bool {
	var f devtest.Follower
	defer f.Close()
	code := codeOf(links - 1)
	status, _, err := f.Follow(e.Addr, code)
	if err == nil && status/100 == 3 {
		w.visitors.note(w.visitors.received, code)
		w.visitors.note(w.visitors.led, code+" "+answered(f.Location))
		return true
	}
	return false
}

// hand connects as an operator by hand would.
func (w *world) hand() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.database)
	require.NoError(w.t, err)
	_, err = conn.Exec(w.t.Context(), `SET ROLE waypost_operator`)
	require.NoError(w.t, err)
	return conn
}

func (w *world) startPostgres(ctx context.Context) error {
	s, err := pgserver.Start(ctx, pgserver.Config{
		Dir:      filepath.Join(w.base, "postgres"),
		Settings: map[string]string{"fsync": "off"}, // the power stays on
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = s
	return nil
}

// startControl starts a control plane and returns it once it answers; nil when it ended
// before.
func (w *world) startControl(name, failpoint string) *devtest.Control {
	c, err := devtest.StartControl(w.t, devtest.ControlConfig{
		Database: w.database, DataDir: filepath.Join(w.base, "control"), Region: "eu-west-1", Node: name, Env: []string{"FAILPOINT=" + failpoint},
	})
	ready := false
	if err == nil {
		ready, err = c.Ready()
	}
	if err != nil {
		w.fail("%w", err)
		return nil
	}
	if ready {
		u, err := url.Parse(c.API)
		if err != nil {
			w.fail("%w", err)
		}
		w.control.Store(u)
	}
	if !ready {
		w.lookAt(name, c.Output())
		return nil
	}
	return c
}

// startEdge starts an edge and returns it once it answers; nil when it ended before.
func (w *world) startEdge(s *slot, failpoint string) *devtest.Edge {
	s.count++
	e, err := devtest.StartEdge(w.t, devtest.EdgeConfig{
		Control: s.proxy.url, DataDir: s.dir, Region: "eu-west-1", Node: s.node,
		Env: []string{"FAILPOINT=" + failpoint, "FAILPOINT=bytes of the lookup table@16777216"},
	})
	ready := false
	if err == nil {
		ready, err = e.Ready()
	}
	switch {
	case err != nil:
		w.fail("%w", err)
	case !ready && !e.Killed():
		w.fail("%s ended by itself:\n%s", s.node, e.Output())
	case !ready:
		w.lookAt(s.node, e.Output())
	default:
		return e
	}
	return nil
}

// lookAt looks at what a process wrote before it ended.
func (w *world) lookAt(name, output string) {
	for _, bad := range []string{"DATA RACE", "panic:", "quarantine", "it is kept apart", "clicks were dropped"} {
		if strings.Contains(output, bad) {
			w.fail("%s wrote of %q:\n%s", name, bad, output)
		}
	}
}

// mischief reports the proxies did.
func (w *world) mischief() string {
	var lost, unanswered, doubled, late int64
	for _, s := range w.edges {
		lost += s.proxy.lost.Load()
		unanswered += s.proxy.unanswered.Load()
		doubled += s.proxy.doubled.Load()
		late += s.proxy.late.Load()
	}
	return fmt.Sprintf("batches: %d lost, %d without an answer, %d twice, %d late once more", lost, unanswered, doubled, late)
}

// pidFile returns the file in which a control plane finds what to kill at a place.
func (w *world) pidFile(n int) string {
	return filepath.Join(w.base, fmt.Sprintf("postgres-%d.pid", n))
}

// arm has PostgreSQL killed when a control plane reaches the place of that number.
func (w *world) arm(n int, s *pgserver.Server) error {
	fresh := w.pidFile(n) + ".new"
	if err := os.WriteFile(fresh, fmt.Appendf(nil, "%d", s.PID()), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, w.pidFile(n))
}
