package system_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/test/devtest"
)

// ownCopy returns a file of the real links that no other test imports: how far an import
// has come is kept next to its file.
func ownCopy(t *testing.T) (path string) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/links.csv")
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "links.csv")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// someLinks returns a file of the first of the real links.
func someLinks(t *testing.T, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "links.csv")
	f, err := os.Create(path)
	require.NoError(t, err)
	rows := csv.NewWriter(f)
	for _, target := range append([]string{"original_url"}, realLinks(t)[:n]...) {
		require.NoError(t, rows.Write([]string{target}))
	}
	rows.Flush()
	require.NoError(t, errors.Join(rows.Error(), f.Close()))
	return path
}

// realLinks are the targets of testdata/links.csv.
func realLinks(t *testing.T) []string {
	t.Helper()
	f, err := os.Open("../../testdata/links.csv")
	require.NoError(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	var targets []string
	for _, row := range rows[1:] {
		targets = append(targets, row[0])
	}
	require.Len(t, targets, 9147)
	return targets
}

// everyFifth returns a fifth of a list, and in make test-long all of it.
func everyFifth[T any](list []T) (fifth []T) {
	if devtest.Long() {
		return list
	}
	for i := 0; i < len(list); i += 5 {
		fifth = append(fifth, list[i])
	}
	return fifth
}

// escaped is the Location that a target without an international host must have:
// bytes outside ASCII, and spaces, percent-encoded, and nothing else changed.
func escaped(target string) string {
	var b strings.Builder
	for _, c := range []byte(target) {
		if c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// visitor asks edges over connections that it keeps, and follows nothing.
var visitor = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

func location(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	res, err := visitor.Do(req)
	if err != nil {
		return 0, "", err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err2 := res.Body.Close(); err == nil {
		err = err2
	}
	return res.StatusCode, res.Header.Get("Location"), err
}

// created is a link that the API has acknowledged.
type created struct {
	Code   string `json:"short_code"`
	Target string `json:"original_url"`
}

// listed reads all links that fit some filters through the API, page by page.
func listed(t *testing.T, state devtest.State, filters ...string) (all []created) {
	t.Helper()
	cursor := ""
	for {
		all = append(all, page(t, state, "?"+strings.Join(append(filters, "limit=1000", "cursor="+cursor), "&"), &cursor)...)
		if cursor == "" {
			return all
		}
	}
}

func page(t *testing.T, state devtest.State, query string, next *string) []created {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, state.API+"/api/v1/urls"+query, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+state.APIKey)
	res, err := visitor.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	var page struct {
		URLs       []created `json:"urls"`
		NextCursor string    `json:"next_cursor"`
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&page))
	require.NoError(t, res.Body.Close())
	*next = page.NextCursor
	return page.URLs
}

// requireRedirects follows every link on every edge, and waits for an edge that is a
// moment behind.
func requireRedirects(t *testing.T, state devtest.State, links []created) {
	t.Helper()
	for _, e := range state.Edges {
		var late []created
		for some := range slices.Chunk(links, 100) {
			late = append(late, elsewhere(t, http.MethodGet, strings.TrimPrefix(e.URL, "http://"), some)...)
		}
		for _, l := range late {
			status, got, err := 0, "", error(nil)
			require.Eventually(t, func() bool {
				status, got, err = location(t.Context(), e.URL+"/"+l.Code)
				return err == nil && status == http.StatusFound && got == escaped(l.Target)
			}, time.Minute, 10*time.Millisecond, "%s on %s is not redirected to %q", l.Code, e.Region, escaped(l.Target))
		}
	}
}

// elsewhere asks for many links with one write, as a client may, and returns those that
// lead elsewhere than they should, or nowhere.
func elsewhere(t *testing.T, method, addr string, links []created) (wrong []created) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, time.Minute)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	var requests bytes.Buffer
	for _, l := range links {
		fmt.Fprintf(&requests, "%s /%s HTTP/1.1\r\nHost: %s\r\n\r\n", method, l.Code, addr)
	}
	_, err = conn.Write(requests.Bytes())
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	for _, l := range links {
		res, err := http.ReadResponse(answers, &http.Request{Method: method})
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		if res.StatusCode != http.StatusFound || res.Header.Get("Location") != escaped(l.Target) {
			wrong = append(wrong, l)
		}
	}
	return wrong
}

func TestLinks_AreImportedAndRedirectedByteForByte(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	r := devtest.Run(t, env, "import", ownCopy(t))
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout+r.Stderr, "9147 of 9147 rows created, 0 refused")

	links := listed(t, s.State())
	require.Len(t, links, 9147)
	targets := make(map[string]bool)
	for _, l := range links {
		targets[l.Target] = true
	}
	for _, target := range realLinks(t) {
		require.True(t, targets[target], "%s is kept byte for byte", target)
	}
	requireRedirects(t, s.State(), everyFifth(links))
	// the control plane answers the same
	for _, l := range links[:20] {
		status, got, err := location(t.Context(), s.State().API+"/"+l.Code)
		require.NoError(t, err)
		require.Equal(t, http.StatusFound, status)
		require.Equal(t, escaped(l.Target), got)
	}

	report := t.TempDir() + "/report.csv"
	r = devtest.Run(t, env, "import", "../../testdata/bad_targets.csv", "--report", report)
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stdout+r.Stderr, "5 of 140 rows created, 135 refused")
	f, err := os.Open(report)
	require.NoError(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Len(t, rows, 136)
	for _, row := range rows[1:] {
		require.NotEmpty(t, row[0], "the reason")
		require.NotEmpty(t, row[2], "the title, which a target may lack")
	}
	newest := func(n int) []created { return page(t, s.State(), fmt.Sprintf("?limit=%d", n), new(string)) }
	for _, l := range newest(5) {
		require.Equal(t, "https://example.com/", l.Target, "blanks at the ends are cut off")
	}

	// With --dedupe the same rows are imported once, however often.
	some := realLinks(t)[:1500]
	file := filepath.Join(t.TempDir(), "some.csv")
	require.NoError(t, os.WriteFile(file, []byte("original_url,tags\n\""+strings.Join(some, "\",once\n\"")+"\",once\n"), 0o600))
	r = devtest.Run(t, env, "import", file, "--dedupe")
	require.Zero(t, r.Code, r.Stderr)
	once := len(listed(t, s.State(), "tag=once"))
	require.Greater(t, once, 1000)
	require.LessOrEqual(t, once, 1500)
	before := newest(1)
	r = devtest.Run(t, env, "import", file, "--dedupe")
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, "0 of 1500 rows created, 1500 found, 0 refused")
	require.Equal(t, before, newest(1))
	s.Stop()
}

// load creates links one after another over several connections until its context
// ends, and keeps what was acknowledged.
type load struct {
	mu    sync.Mutex
	links []created
	count atomic.Int64
	wg    sync.WaitGroup
}

func (l *load) run(ctx context.Context, state devtest.State, round int) {
	for w := range 8 {
		l.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				target := fmt.Sprintf("https://example.com/r%d/w%d/ü %d", round, w, i)
				body, err := json.Marshal(map[string]string{"original_url": target})
				if err != nil {
					panic(err)
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, state.API+"/api/v1/urls", bytes.NewReader(body))
				if err != nil {
					panic(err)
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := visitor.Do(req)
				if err != nil {
					continue
				}
				var link created
				decodeErr := json.NewDecoder(bufio.NewReader(res.Body)).Decode(&link)
				closeErr := res.Body.Close()
				if res.StatusCode != http.StatusCreated || decodeErr != nil || closeErr != nil {
					continue
				}
				l.mu.Lock()
				l.links = append(l.links, created{Code: link.Code, Target: target})
				l.mu.Unlock()
				l.count.Add(1)
			}
		})
	}
}

func TestLinks_SurviveKillsOfEverythingUnderLoad(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	l := &load{}
	rounds := 2
	if devtest.Long() {
		rounds = 50
	}
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		before := l.count.Load()
		l.run(ctx, s.State(), round)
		eventually(t, 2*time.Minute, "well under way", func() bool { return l.count.Load() >= before+150 })
		s.Kill()
		cancel()
		l.wg.Wait()
		s.Again()
	}
	seen := make(map[string]bool)
	for _, link := range l.links {
		require.False(t, seen[link.Code], "code %s was given twice", link.Code)
		seen[link.Code] = true
	}
	everything := listed(t, s.State())
	require.Subset(t, everything, l.links)
	for _, link := range everything { // also what was committed but cut off before its answer
		require.True(t, strings.HasPrefix(link.Target, "https://example.com/r"))
	}
	requireRedirects(t, s.State(), everything)
	s.Stop()
}

func TestEdges_ServeAndRestartWhileTheControlPlaneHangs(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	r := devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, "import", someLinks(t, 2000))
	require.Zero(t, r.Code, r.Stderr)
	state := s.State()
	links := listed(t, state)
	require.Len(t, links, 2000)
	requireRedirects(t, state, links)
	for _, e := range state.Edges {
		eventually(t, time.Minute, "with all links on "+e.Region, func() bool {
			at := position(t, e.AdminURL)
			return at != "" && at == position(t, state.Control.AdminURL)
		})
	}

	// Stopped, not ended: connections to them hang, which is worse.
	for _, pid := range []int{int(state.Control.PID), int(state.Postgres.PID)} {
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		defer func() { _ = unix.Kill(pid, unix.SIGCONT) }()
	}
	for i, e := range state.Edges {
		var failed atomic.Int64
		var next atomic.Int64
		var wg sync.WaitGroup
		ctx, enough := context.WithCancel(t.Context())
		defer enough()
		for range 8 {
			wg.Go(func() {
				pace := time.NewTicker(5 * time.Millisecond)
				defer pace.Stop()
				for n := next.Add(1) - 1; int(n) < len(links) || ctx.Err() == nil; n = next.Add(1) - 1 {
					<-pace.C
					link := links[int(n)%len(links)]
					status, got, err := location(t.Context(), e.URL+"/"+link.Code)
					if err != nil || status != http.StatusFound || got != escaped(link.Target) {
						failed.Add(1)
					}
				}
			})
		}
		if i == 0 { // meanwhile the other edge is killed, and serves again at once
			other := state.Edges[1]
			devtest.KillProcess(t, int(other.PID))
			back := s.Await("back with its second edge", func(st devtest.State) bool { return st.Edges[1].PID != 0 && st.Edges[1].PID != other.PID })
			status, got, err := location(t.Context(), back.Edges[1].URL+"/"+links[0].Code)
			require.NoError(t, err, "the first request after its start")
			require.Equal(t, http.StatusFound, status)
			require.Equal(t, escaped(links[0].Target), got)
		}
		enough()
		wg.Wait()
		require.Zero(t, failed.Load(), "redirects of %s that failed", e.Region)
	}
	for _, pid := range []int{int(state.Postgres.PID), int(state.Control.PID)} {
		require.NoError(t, unix.Kill(pid, unix.SIGCONT))
	}
	r = devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, "links", "create", "https://example.com/after", "--code", "afterwards")
	require.Zero(t, r.Code, r.Stderr)
	requireRedirects(t, s.State(), []created{{Code: "afterwards", Target: "https://example.com/after"}})
	s.Stop()
}

// position returns the position of a node, by its /readyz; "" when it does not say.
func position(t *testing.T, admin string) string {
	t.Helper()
	res, err := visitor.Get(admin + "/readyz")
	if err != nil {
		return ""
	}
	var detail struct{ Position string }
	if err := errors.Join(json.NewDecoder(res.Body).Decode(&detail), res.Body.Close()); err != nil {
		return ""
	}
	return detail.Position
}
