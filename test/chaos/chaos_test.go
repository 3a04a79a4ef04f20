package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// usualSeed is that of `make test`.
const usualSeed = 1

// settings reads the seed and the length of a run; 0 is the short form.
func settings(t *testing.T) (seed uint64, long time.Duration) {
	t.Helper()
	seed = usualSeed
	var err error
	if text := os.Getenv("WAYPOST_CHAOS_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "WAYPOST_CHAOS_SEED")
	}
	if text := os.Getenv("WAYPOST_CHAOS"); text != "" {
		long, err = time.ParseDuration(text)
		require.NoError(t, err, "WAYPOST_CHAOS")
	}
	return seed, long
}

// TestSystem_KeepsItsPromisesUnderFaults finds this defect: the table in memory does
// not get deletions, so the edge still leads visitors to deleted links.
//
// It finds this defect: an edge does not read the blocks that it has kept, so after a
// restart without its source it leads visitors to a blocked link.
//
// It finds this defect: the parts of a batch are added although the watermark has
// passed it, so a batch whose answer was lost counts twice.
func TestSystem_KeepsItsPromisesUnderFaults(t *testing.T) {
	seed, long := settings(t)
	devtest.Binary(t) // which takes a while
	began := time.Now()
	h, found := play(t, seed, plan(seed, long), long)
	report := fmt.Sprintf("Seed %d, %d faults in %s, %d requests, %d processors.\n\n%s\n%s\n%s", seed, len(h.Faults),
		time.Since(began).Round(time.Second), len(h.Operations), runtime.NumCPU(), legend, Table(h, found), summary(h))
	t.Logf("\n%s", report)
	if path := os.Getenv("WAYPOST_CHAOS_TABLE"); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(report), 0o600))
	}
	for _, v := range found[:min(len(found), 20)] {
		t.Error(v)
	}
}

// legend explains the table of docs/chaos.txt.
const legend = `Redirects are requests of visitors to edges, and writes are requests to the API, from the beginning of a fault until
every part is right again. A second fault may strike another part meanwhile. A request has failed when it got no answer
within its time, or 503. The verdict "holds" means that the promises of docs/reliability.md held. So redirects failed only
on an edge that a fault kept from its visitors, and at links with an exact click budget: they answer 503 while no control
plane grants clicks, and one visit in thirty is to such a link. A gap is the longest time without an answer.
`

// summary says what was compared.
func summary(h *History) string {
	var clicks int64
	for _, row := range h.Final.Rows {
		clicks += row.Clicks
	}
	return fmt.Sprintf("At the end PostgreSQL and %d edges agreed on %d links, at %s; %d clicks were counted.\n", len(h.Edges), len(h.Final.Rows),
		h.Final.Heads["postgresql"], clicks)
}

// play runs a schedule under traffic and judges what happened.
func play(t *testing.T, seed uint64, steps []*step, long time.Duration) (*History, []Violation) {
	t.Helper()
	t.Logf("seed %d, %d steps", seed, len(steps))
	recorder := NewRecorder(seed, nodes())
	s := newSystem(t, recorder)
	t.Cleanup(func() {
		if t.Failed() {
			s.keep(seed)
		}
	})
	most := int64(30)
	if long > 0 {
		most = 500
	}
	traffic := startTraffic(s, seed, most)
	defer traffic.end() // before a process is ended because the test has failed
	t.Logf("%7.1f s: traffic", recorder.Now().Seconds())
	for _, st := range steps {
		if long > 0 && recorder.Now() > long {
			break // faults take some time to heal, too
		}
		s.run(st)
	}
	traffic.end()
	t.Logf("%7.1f s: the end of the traffic", recorder.Now().Seconds())
	s.settle()
	h := recorder.History()
	return h, Judge(h)
}

// settle waits until every edge has what PostgreSQL has, and PostgreSQL all clicks, and
// records that. What does not come in time is left to the judge.
func (s *system) settle() {
	s.t.Helper()
	s.whole()
	heads, answers := make(map[string]string), make(map[string]map[string]string)
	within := time.Now().Add(waiting)
	again := func() bool { pause(50 * time.Millisecond); return time.Now().Before(within) }
	for equal := false; !equal && again(); {
		_, head, err := s.rows(s.t.Context())
		require.NoError(s.t, err)
		heads["postgresql"], equal = head, true
		for _, e := range s.edges {
			heads[e.node], err = s.head(s.t.Context(), e)
			equal = equal && err == nil && heads[e.node] == head
		}
	}
	rows, _, err := s.rows(s.t.Context())
	require.NoError(s.t, err)
	var mu sync.Mutex
	s.each(func(e *edge) {
		all := make(map[string]string)
		for code := range rows {
			saw, err := s.ask(context.Background(), e, code)
			if err != nil {
				saw = err.Error()
			}
			all[code] = saw
		}
		mu.Lock()
		defer mu.Unlock()
		answers[e.node] = all
	})
	counted := func() (missing bool) {
		rows, _, err := s.rows(s.t.Context())
		require.NoError(s.t, err)
		s.recorder.Change(func(h *History) { h.Final.Rows, h.Final.Heads, h.Final.Answers = rows, heads, answers })
		for _, v := range Judge(s.recorder.History()) {
			missing = missing || v.Invariant == "I5"
		}
		return missing
	}
	for within = time.Now().Add(waiting / 2); counted() && again(); {
	}
	// A click that is counted twice may be so at the last moment.
	for _, e := range s.edges {
		require.NoError(s.t, e.process.Load().Stop())
	}
	for node, output := range s.outputs() {
		s.look(node, output)
	}
	counted()
}

// keep leaves the history and the output of all processes, so that the cause can be
// found.
func (s *system) keep(seed uint64) {
	root, err := filepath.Abs(filepath.Join("..", "..", "bin", "test", fmt.Sprintf("chaos-%d", seed)))
	if err != nil {
		s.t.Log(err)
		return
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		s.t.Log(err)
		return
	}
	var text strings.Builder
	if err := s.recorder.History().Write(&text); err != nil {
		s.t.Log(err)
		return
	}
	files := s.outputs()
	files["history"] = text.String()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			s.t.Log(err)
		}
	}
	s.t.Logf("The history and the output of the processes are in %s. The same faults again: make chaos SEED=%d", root, seed)
}
