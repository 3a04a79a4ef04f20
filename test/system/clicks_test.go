package system_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/client"
	"waypost/test/devtest"
)

// visit is a request of testdata/clicks.tsv.
type visit struct{ method, path, referrer, agent string }

func recordedVisits(t *testing.T) []visit {
	t.Helper()
	f, err := os.Open("../../testdata/clicks.tsv")
	require.NoError(t, err)
	lines := csv.NewReader(f)
	lines.Comma, lines.LazyQuotes, lines.FieldsPerRecord = '\t', true, 4
	rows, err := lines.ReadAll()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	visits := make([]visit, 0, len(rows))
	for _, row := range rows[1:] {
		visits = append(visits, visit{method: row[0], path: row[1], referrer: row[2], agent: row[3]})
	}
	require.Len(t, visits, 1500)
	return visits
}

// to sends the visit to a link and returns the status of the answer.
func (v visit) to(t *testing.T, edge, code string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), v.method, edge+"/"+code, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("User-Agent", v.agent)
	if v.referrer != "" {
		req.Header.Set("Referer", v.referrer)
	}
	res, err := visitor.Do(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	return res.StatusCode
}

// clickedSystem is a development system with links that are on every edge, none
// of which has been clicked.
type clickedSystem struct {
	*devtest.System
	t      *testing.T
	codes  []string // of the links that visits are spread over
	marker string   // a link for settled
}

func startClicked(t *testing.T) *clickedSystem {
	t.Helper()
	const links = 500
	s := &clickedSystem{System: devtest.Start(t, devtest.Config{}), t: t}
	r := devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, "import", someLinks(t, links))
	require.Zero(t, r.Code, r.Stderr)
	all := s.links()
	require.Len(t, all, links)
	slices.SortFunc(all, func(a, b client.Link) int { return strings.Compare(a.OriginalURL, b.OriginalURL) })
	var targets []created
	for _, l := range all {
		s.codes, targets = append(s.codes, l.ShortCode), append(targets, created{Code: l.ShortCode, Target: l.OriginalURL})
	}
	for _, e := range s.State().Edges {
		eventually(t, time.Minute, "redirected on "+e.Region, func() bool {
			return len(elsewhere(t, http.MethodHead, strings.TrimPrefix(e.URL, "http://"), targets)) == 0
		})
	}
	s.marker, s.codes = s.codes[0], s.codes[1:]
	return s
}

// of returns the link that a visit goes to: that of its path, so that links are as
// unequally popular as real pages.
func (s *clickedSystem) of(v visit) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v.path)) // never fails
	return s.codes[h.Sum32()%uint32(len(s.codes))]
}

// replay sends visits to the edges in turn, and adds the GETs that were redirected
// to those of each link.
func (s *clickedSystem) replay(visits []visit, redirected map[string]int64) {
	s.t.Helper()
	edges := s.State().Edges
	for i, v := range visits {
		code := s.of(v)
		status := v.to(s.t, edges[i%len(edges)].URL, code)
		require.Equal(s.t, http.StatusFound, status, "%s of %s", v.method, code)
		if v.method == http.MethodGet {
			redirected[code]++
		}
	}
}

func (s *clickedSystem) api() *client.Client {
	s.t.Helper()
	state := s.State()
	api, err := client.New(state.API, state.APIKey)
	require.NoError(s.t, err)
	s.t.Cleanup(api.Close)
	return api
}

// links lists all links through the API, page by page.
func (s *clickedSystem) links() []client.Link {
	s.t.Helper()
	api := s.api()
	var all []client.Link
	for cursor := ""; ; {
		page, err := api.Links.List(s.t.Context(), 200, cursor)
		require.NoError(s.t, err)
		all = append(all, page.Links...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// settled waits until every click up to now is counted, and returns the counts of
// all links but the marker that are not zero. An edge ships its clicks in order,
// those of its earlier lives first, but one that is recorded while the shards are
// collected may come a batch later. So when the second one on the marker, made last of
// all, is counted, all before it are, and nothing more can come.
func (s *clickedSystem) settled() map[string]int64 {
	s.t.Helper()
	api := s.api()
	counted := func() int64 {
		l, err := api.Links.Find(s.t.Context(), "", s.marker)
		if err != nil {
			return -1 // the control plane may be on its way back
		}
		return l.ClickCount
	}
	var want int64
	eventually(s.t, time.Minute, "answered by the API", func() bool { want = counted(); return want >= 0 })
	for range 2 {
		for _, e := range s.State().Edges {
			require.Equal(s.t, http.StatusFound, visit{method: http.MethodGet}.to(s.t, e.URL, s.marker))
			want++
		}
		eventually(s.t, time.Minute, "counted", func() bool { return counted() == want })
	}
	counts := make(map[string]int64)
	for _, l := range s.links() {
		if l.ClickCount != 0 && l.ShortCode != s.marker {
			counts[l.ShortCode] = l.ClickCount
		}
	}
	return counts
}

// requireCounts waits until every click is counted, and compares link by link.
func (s *clickedSystem) requireCounts(want map[string]int64) {
	s.t.Helper()
	got := s.settled()
	for _, code := range s.codes {
		require.Equal(s.t, want[code], got[code], "clicks of %s", code)
	}
	require.Equal(s.t, sum(want), sum(got))
}

func sum(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// eventually asks every 30 ms until it holds.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(30 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(within); !holds(); <-poll.C {
		require.True(t, time.Now().Before(end), "not %s within %s", what, within)
	}
}

func TestClicks_AreCountedOnce(t *testing.T) {
	t.Parallel()
	s := startClicked(t)
	redirected := make(map[string]int64)
	t.Run("of real traffic, every GET and no HEAD", func(t *testing.T) { s.on(t).requireRealTraffic(redirected) })
	t.Run("while control plane and PostgreSQL are down", func(t *testing.T) { s.on(t).requireOutageSurvived(redirected) })
	s.Stop()
}

// on returns the system for a subtest.
func (s *clickedSystem) on(t *testing.T) *clickedSystem {
	own := *s
	own.t = t
	return &own
}

// requireRealTraffic replays traffic and compares the counts, which redirected keeps.
func (s *clickedSystem) requireRealTraffic(redirected map[string]int64) {
	t := s.t
	t.Helper()
	s.replay(recordedVisits(t), redirected)
	require.EqualValues(t, 1492, sum(redirected), "GETs of the traffic")
	s.requireCounts(redirected)

	// The system is idle now.
	api, code := s.api(), s.codes[0]
	before := time.Now()
	require.Equal(t, http.StatusFound, visit{method: http.MethodGet}.to(t, s.State().Edges[0].URL, code))
	eventually(t, time.Minute, "visible", func() bool {
		l, err := api.Links.Find(t.Context(), "", code)
		require.NoError(t, err)
		return l.ClickCount == redirected[code]+1
	})
	redirected[code]++
	stats := s.show("/api/v1/urls/" + code + "/stats")
	require.EqualValues(t, redirected[code], stats["clicks"])
	require.EqualValues(t, redirected[code], s.show("/stats/" + code)["click_count"])
	last, err := time.Parse(time.RFC3339Nano, stats["last_accessed_at"].(string))
	require.NoError(t, err)
	require.WithinRange(t, last, before.Truncate(time.Millisecond), time.Now())
}

// show gets an answer of the API.
func (s *clickedSystem) show(path string) map[string]any {
	s.t.Helper()
	state := s.State()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, state.API+path, http.NoBody)
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+state.APIKey)
	res, err := visitor.Do(req)
	require.NoError(s.t, err)
	var answer map[string]any
	require.NoError(s.t, errors.Join(json.NewDecoder(res.Body).Decode(&answer), res.Body.Close()))
	require.Equal(s.t, http.StatusOK, res.StatusCode, "%v", answer)
	return answer
}

// tally counts what clients know of each link: answers that came whole, and requests of
// which they cannot know whether they were answered.
type tally struct {
	mu            sync.Mutex
	received, cut map[string]int64
	total         atomic.Int64 // received, over all links
}

func (c *tally) add(to map[string]int64, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to[code]++
}

// click follows links from several clients, each on one of the edges, until ctx
// ends; wait waits for that. Edges returns the addresses, none while there is no use
// in asking.
func (c *tally) click(ctx context.Context, t *testing.T, codes []string, edges func() []string) (wait func()) {
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			var f devtest.Follower
			defer f.Close()
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for i := n; ctx.Err() == nil; i++ {
				<-pace.C
				addrs := edges()
				if len(addrs) == 0 {
					continue
				}
				code, addr := codes[i*i%len(codes)], addrs[n%len(addrs)]
				status, sent, err := f.Follow(addr, code)
				switch {
				case err == nil && status/100 == 3:
					c.add(c.received, code)
					c.total.Add(1)
				case err == nil:
					t.Errorf("%s on %s was answered %d", code, addr, status)
				case sent:
					c.add(c.cut, code)
				}
			}
		})
	}
	return wg.Wait
}

func TestClicks_SurviveKillsOfEverything(t *testing.T) {
	if !devtest.Long() {
		t.Skip("test/chaos kills each of them in make test, and judges clicks")
	}
	t.Parallel()
	s := startClicked(t)
	c := &tally{received: make(map[string]int64), cut: make(map[string]int64)}
	var edges atomic.Pointer[[]string]
	publish := func() {
		var addrs []string
		for _, e := range s.State().Edges {
			addrs = append(addrs, strings.TrimPrefix(e.URL, "http://"))
		}
		edges.Store(&addrs)
	}
	publish()
	ctx, cancel := context.WithCancel(t.Context())
	wait := c.click(ctx, t, s.codes, func() []string { return *edges.Load() })
	defer func() { cancel(); wait() }()
	underWay := func() {
		t.Helper()
		more := c.total.Load() + 300
		eventually(t, time.Minute, "under way", func() bool { return c.total.Load() >= more })
	}

	kill := func(what string, pid func(devtest.State) int) {
		t.Helper()
		underWay()
		old := pid(s.State())
		devtest.KillProcess(t, old)
		underWay() // on what is left
		s.Await("back with another "+what, func(st devtest.State) bool { return pid(st) > 0 && pid(st) != old })
	}
	for round := range 10 {
		for i := range 2 {
			kill("edge", func(st devtest.State) int { return int(st.Edges[i].PID) })
		}
		kill("control plane", func(st devtest.State) int { return int(st.Control.PID) })
		kill("PostgreSQL", func(st devtest.State) int { return int(st.Postgres.PID) })
		if round == 0 {
			underWay()
			edges.Store(new([]string)) // the next addresses are others
			s.Kill()
			s.Again()
			publish()
		}
	}
	underWay()
	cancel()
	wait()

	counts := s.settled()
	for _, code := range s.codes {
		require.GreaterOrEqual(t, counts[code], c.received[code], "clicks of %s are lost", code)
		require.LessOrEqual(t, counts[code], c.received[code]+c.cut[code], "clicks of %s are counted twice", code)
	}
	require.Less(t, sum(c.cut), sum(c.received)/20, "requests cut off are so few that the bounds tell something")
	s.Stop()
}

// requireOutageSurvived makes clicks while there is neither control plane nor PostgreSQL,
// and finds all of them counted afterwards.
func (s *clickedSystem) requireOutageSurvived(redirected map[string]int64) {
	t := s.t
	t.Helper()
	visits := recordedVisits(t)
	s.replay(visits[:300], redirected)

	// First they hang, in the middle of whatever they do, and then they are killed.
	down := s.State()
	for _, pid := range []int{int(down.Control.PID), int(down.Postgres.PID)} {
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		defer func() { _ = unix.Kill(pid, unix.SIGCONT) }() // should the test fail before
	}
	s.replay(visits[300:700], redirected)
	devtest.KillProcess(t, int(down.Edges[1].PID))
	s.Await("back with its second edge", func(st devtest.State) bool { return st.Edges[1].PID != 0 && st.Edges[1].PID != down.Edges[1].PID })
	s.replay(visits[700:1100], redirected)
	devtest.KillProcess(t, int(down.Control.PID))
	devtest.KillProcess(t, int(down.Postgres.PID))
	s.replay(visits[1100:], redirected)

	s.Await("back with control plane and PostgreSQL", func(st devtest.State) bool {
		return st.Control.PID != 0 && st.Control.PID != down.Control.PID && st.Postgres.PID != 0 && st.Postgres.PID != down.Postgres.PID
	})
	s.requireCounts(redirected)
}
