package system_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost"
	"waypost/client"
	"waypost/internal/admin"
	"waypost/test/devtest"
)

// solos counts the edges of a process of tests, which have names of their own.
var solos atomic.Int64

// soloEdge is an edge that a test has started next to a shared system.
type soloEdge struct {
	t      *testing.T
	name   string
	system *devtest.System
	api    *client.Client
	env    []string
	dir    string
	status admin.Status
	now    *devtest.Process
	links  map[string]answer // that a test has made
}

// metric returns the sum of the edge's samples that begin with prefix.
func (e *soloEdge) metric(prefix string) (sum float64) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, "http://"+e.status.AdminAddr+"/metrics", http.NoBody)
	require.NoError(e.t, err)
	res, err := visitor.Do(req)
	require.NoError(e.t, err)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			require.NoError(e.t, err)
			sum += value
		}
	}
	require.NoError(e.t, lines.Err())
	require.NoError(e.t, res.Body.Close())
	return sum
}

func startSolo(t *testing.T, extra ...string) *soloEdge {
	t.Helper()
	s := oneEdge.For(t)
	state := s.State()
	api, err := client.New(state.API, state.APIKey)
	require.NoError(t, err)
	t.Cleanup(api.Close)
	dir, name := t.TempDir(), "solo-"+strconv.FormatInt(solos.Add(1), 10)
	e := &soloEdge{
		t: t, name: name, system: s, api: api, dir: filepath.Join(dir, "edge"), links: make(map[string]answer),
		env: append([]string{
			"WAYPOST_EDGE_ADDR=127.0.0.1:0", "WAYPOST_EDGE_ADMIN_ADDR=127.0.0.1:0", "WAYPOST_EDGE_REGION=us-east-1",
			"WAYPOST_EDGE_NODE=" + name, "WAYPOST_EDGE_CONTROL_URLS=" + state.Fleet,
			"WAYPOST_EDGE_TOKEN_FILE=" + filepath.Join(s.DataDir(), "secrets", "edge-token"),
			"WAYPOST_EDGE_DATA_DIR=" + filepath.Join(dir, "edge"),
			"WAYPOST_EDGE_STRICT_HOSTS=false", // it is asked by its address
		}, extra...),
	}
	e.now = devtest.Spawn(t, e.env, "edge")
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
	return e
}

func (e *soloEdge) await(is func(admin.Status) bool) {
	e.t.Helper()
	e.status = devtest.AwaitStatus(e.t, e.dir, is)
}

// create makes links, and waits until the edge has them.
func (e *soloEdge) create(n int) (codes []string) {
	e.t.Helper()
	for i := range n {
		target := "https://example.com/" + strconv.Itoa(i)
		var l client.Link
		e.persist(func() (err error) {
			l, err = e.api.Links.Create(e.t.Context(), client.NewLink{OriginalURL: target})
			return err
		})
		codes = append(codes, l.ShortCode)
		e.links[l.ShortCode] = answer{http.StatusFound, target}
		eventually(e.t, time.Minute, "redirected", func() bool { return e.head(l.ShortCode) == http.StatusFound })
	}
	return codes
}

func (e *soloEdge) persist(try func() error) {
	e.t.Helper()
	persist(e.t, try)
}

// persist tries until the API has had the time for what is tried, on a machine that is
// busy, too.
func persist(t *testing.T, try func() error) {
	t.Helper()
	eventually(t, 2*time.Minute, "answered", func() bool {
		err := try()
		if _, passing := client.Passing(err); err != nil && passing {
			t.Logf("tried again: %v", err)
			return false
		}
		require.NoError(t, err)
		return true
	})
}

// remove deletes a link, and waits until the edge knows.
func (e *soloEdge) remove(code string) {
	e.t.Helper()
	e.persist(func() error {
		_, err := e.api.Links.Remove(e.t.Context(), code, client.Write{})
		if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusNotFound {
			return nil // by the time before, of which nothing was heard
		}
		return err
	})
	eventually(e.t, time.Minute, "deleted", func() bool { return e.head(code) == http.StatusGone })
	e.links[code] = answer{status: http.StatusGone}
}

func (e *soloEdge) head(code string) int {
	return visit{method: http.MethodHead}.to(e.t, "http://"+e.status.Addr, code)
}

// restart makes the edge restart, as an operator may, and waits until it serves again.
func (e *soloEdge) restart() {
	e.t.Helper()
	before := e.status
	r := devtest.Run(e.t, []string{"WAYPOST_EDGE_DATA_DIR=" + e.dir}, "edge", "restart", "--output", "json")
	require.Zero(e.t, r.Code, r.Stderr)
	require.Contains(e.t, r.Stdout, strconv.Itoa(before.PID))
	e.await(func(s admin.Status) bool { return s.Boot != before.Boot })
	require.Equal(e.t, before.PID, e.status.PID)
}

// answer is the expected answer to a code.
type answer struct {
	status   int
	location string // "": whatever it is
}

// stalledTooLong is for how long a connection may be without its first request before an
// edge that restarts ends it. A client on a machine that stands still finds it so.
const stalledTooLong = 150 * time.Millisecond

// crowd follows links from many connections, kept and fresh, as a client may that
// obeys HTTP, and counts what it saw.
type crowd struct {
	dial    func() (net.Conn, error)
	addr    string            // as the Host of its requests
	links   map[string]answer // of others it expects to be redirected
	clients int

	mu       sync.Mutex
	answered map[string]int64 // redirects
	failures []error
	slowest  []time.Duration // of every request

	total atomic.Int64
	stop  context.CancelFunc
	work  sync.WaitGroup
}

func startCrowd(t *testing.T, addr string, codes []string) *crowd {
	c := &crowd{addr: addr, clients: 12}
	return c.start(t, codes)
}

// crowd begins to follow links of the edge, and expects of each the answer that it must
// have.
func (e *soloEdge) crowd(codes []string) *crowd {
	c := &crowd{addr: e.status.Addr, links: maps.Clone(e.links), clients: 12}
	return c.start(e.t, codes)
}

func (c *crowd) start(t *testing.T, codes []string) *crowd {
	if c.dial == nil {
		c.dial = func() (net.Conn, error) { return net.DialTimeout("tcp", c.addr, time.Minute) }
	}
	ctx, stop := context.WithCancel(t.Context())
	c.answered, c.stop = make(map[string]int64), stop
	for n := range c.clients {
		c.work.Go(func() { c.visit(ctx, codes, n, n%3 == 0) })
	}
	t.Cleanup(func() { stop(); c.work.Wait() })
	return c
}

// idleTooLong is for how long a connection must have been without a request before an
// edge that restarts may end it with no word: for less than two seconds it asks no
// client to close. A client that finds it so asks on another one.
const idleTooLong = 1900 * time.Millisecond

func (c *crowd) visit(ctx context.Context, codes []string, n int, fresh bool) {
	var conn net.Conn
	var in *bufio.Reader
	var last time.Time // when the request before was sent, or the connection begun
	again := false     // the one before this ended with no word
	first := false     // it is the connection's first request
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for i := n; ctx.Err() == nil; i++ {
		<-pace.C
		code, began := codes[i%len(codes)], time.Now()
		var err error
		if conn == nil {
			last = began
			if conn, err = c.dial(); err != nil {
				if again || time.Since(began) < stalledTooLong {
					c.fail(fmt.Errorf("connect: %w", err))
				}
				again = true
				continue
			}
			in, first = bufio.NewReader(conn), true
		}
		var res *http.Response
		_, err = io.WriteString(conn, "GET /"+code+" HTTP/1.1\r\nHost: "+c.addr+"\r\n\r\n")
		stalled := first && time.Since(began) > stalledTooLong
		if err == nil {
			res, err = http.ReadResponse(in, nil)
		}
		if err == nil {
			err = c.judge(code, res)
		}
		switch {
		case err == nil:
			c.count(code, res.StatusCode, time.Since(began))
			last, again, first = began, false, false
		case res == nil && !again && (stalled || time.Since(last) > idleTooLong):
			again = true
		default:
			c.fail(err)
		}
		if err != nil || fresh || res.Close {
			_ = conn.Close()
			conn = nil
		}
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// judge reads an answer to its end, and says what is wrong with it.
func (c *crowd) judge(code string, res *http.Response) error {
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	want, known := c.links[code]
	if !known {
		want.status = http.StatusFound
	}
	location := res.Header.Get("Location")
	if res.StatusCode != want.status || want.location != "" && location != want.location {
		return fmt.Errorf("%s: status %d, to %q", code, res.StatusCode, location)
	}
	return nil
}

func (c *crowd) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, err)
}

func (c *crowd) count(code string, status int, took time.Duration) {
	c.total.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if status == http.StatusFound {
		c.answered[code]++
	}
	c.slowest = append(c.slowest, took)
}

// more waits until a number of further requests has been answered.
func (c *crowd) more(t *testing.T, n int64) {
	t.Helper()
	want := c.total.Load() + n
	eventually(t, time.Minute, "answered", func() bool { return c.total.Load() >= want })
}

// end stops the crowd and fails the test if anything went wrong.
func (c *crowd) end(t *testing.T) {
	t.Helper()
	c.stop()
	c.work.Wait()
	require.Empty(t, c.failures, "of %d requests", c.total.Load())
	slices.Sort(c.slowest)
	p99 := c.slowest[len(c.slowest)*99/100]
	t.Logf("%d requests, p50 %s, p99 %s, slowest %s", len(c.slowest), c.slowest[len(c.slowest)/2], p99, c.slowest[len(c.slowest)-1])
	require.Less(t, p99, 20*time.Second) // all are held up while the machine stands still
}

// requireCounted waits until PostgreSQL has counted what the crowd saw, and no more.
func (e *soloEdge) requireCounted(answered map[string]int64) {
	e.t.Helper()
	counts := func() (wrong string) {
		for code, want := range answered {
			var l client.Link
			e.persist(func() (err error) {
				l, err = e.api.Links.Find(e.t.Context(), "", code)
				return err
			})
			if l.ClickCount != want {
				wrong = fmt.Sprintf("%s: counted %d, answered %d", code, l.ClickCount, want)
			}
		}
		return wrong
	}
	eventually(e.t, time.Minute, "counted", func() bool { return counts() == "" })
	// Nothing is left that could still be counted. An edge that is held up as it stops
	// leaves that to its next start.
	devtest.StopProcess(e.t, e.status.PID)
	for end := time.Now().Add(time.Minute); ; {
		left := e.unshipped()
		if len(left) == 0 {
			break
		}
		require.True(e.t, time.Now().Before(end), "%v are left", left)
		e.now = devtest.Spawn(e.t, e.env, "edge")
		e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
		devtest.StopProcess(e.t, e.status.PID)
	}
	require.Empty(e.t, counts())
}

// unshipped returns the files of clicks that are not known to be counted.
func (e *soloEdge) unshipped() []string {
	e.t.Helper()
	files, err := filepath.Glob(filepath.Join(e.dir, "clicks", "*.*"))
	require.NoError(e.t, err)
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, ".shipped") })
}

func TestEdge_RestartsUnderLoadLoseNoRequestAndNoClick(t *testing.T) {
	t.Parallel()
	e := startSolo(t)
	codes := e.create(20)
	c := e.crowd(codes)
	c.more(t, 300)
	for range 2 {
		e.restart()
		c.more(t, 300)
	}
	// The third is asked for by a signal, as of a supervisor.
	before := e.status
	require.NoError(t, unix.Kill(before.PID, unix.SIGHUP))
	e.await(func(s admin.Status) bool { return s.Boot != before.Boot })
	c.more(t, 300)

	// The last program follows, and what is deleted stays so.
	e.remove(e.create(1)[0])
	c.end(t)
	e.requireCounted(c.answered)
}

// TestEdge_RestartsThatReadLinksFromDiskLoseNothing is with an edge whose memory does not
// hold all links.
func TestEdge_RestartsThatReadLinksFromDiskLoseNothing(t *testing.T) {
	t.Parallel()
	e := startSolo(t, "FAILPOINT=bytes of the lookup table@1048576")
	e.fill(2 << 20)
	codes := e.create(10)
	e.remove(e.create(1)[0])
	e.links["never-made"] = answer{status: http.StatusNotFound}
	c := e.crowd(append(slices.Collect(maps.Keys(e.links)), codes...))
	c.more(t, 300)
	for range 2 {
		e.restart()
		c.more(t, 300)
	}
	c.end(t)
	e.create(1) // it follows
	e.requireCounted(c.answered)
}

// requireGoMemory shows that GOMEMLIMIT, in bytes, is what an edge under load goes by:
// the Go runtime, which may use a little more for a moment, and the lookup table, which
// gets another quarter of that.
func (e *soloEdge) requireGoMemory(limit float64) {
	e.t.Helper()
	require.Equal(e.t, limit, e.metric("go_gc_gomemlimit_bytes "))
	require.Equal(e.t, limit/4, e.metric("waypost_replica_lookup_budget_bytes "))
	eventually(e.t, time.Minute, "beyond it, if nothing were collected", func() bool { return e.metric("go_memstats_alloc_bytes_total ") > 1.5*limit })
	used := e.metric("go_memstats_sys_bytes ") - e.metric("go_memstats_heap_released_bytes ")
	e.t.Logf("Go uses %.1f MiB", used/(1<<20))
	require.Less(e.t, used, limit*9/8)
}

// fill makes links with targets of that many bytes together.
func (e *soloEdge) fill(bytes int) {
	e.t.Helper()
	const atOnce = 128
	long := client.NewLink{OriginalURL: "https://example.com/" + strings.Repeat("x", waypost.MaxURLLength-20)}
	for range bytes / waypost.MaxURLLength / atOnce {
		e.persist(func() error {
			made, err := e.api.Links.CreateBulk(e.t.Context(), slices.Repeat([]client.NewLink{long}, atOnce))
			for _, o := range made {
				require.Equal(e.t, http.StatusCreated, o.Status)
			}
			return err
		})
	}
}

// TestEdge_RestartsUnderLoadLoseNoRequestOnAnyListener is with edges whose operator has
// said how much memory Go may use, and that nothing but that has garbage collected.
func TestEdge_RestartsUnderLoadLoseNoRequestOnAnyListener(t *testing.T) {
	t.Parallel()
	const memory = 32 << 20
	certificate := filepath.Join(t.TempDir(), "own")
	newCertificates(t, certificate)
	e := startSolo(t, "WAYPOST_EDGE_ADDR=127.0.0.1:0,[::1]:0", "WAYPOST_TLS_ADDR=127.0.0.1:0",
		"WAYPOST_TLS_CERT_FILE="+certificate+".pem", "WAYPOST_TLS_KEY_FILE="+certificate+"-key.pem",
		"GOGC=off", "GOMEMLIMIT="+strconv.Itoa(memory))
	roots := x509.NewCertPool()
	text, err := os.ReadFile(certificate + "-ca.pem")
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(text))
	codes := e.create(10)

	before := e.status
	require.Len(t, before.Listen, 1)
	require.Len(t, before.TLS, 1)
	dialer := &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, NetDialer: &net.Dialer{Timeout: time.Minute}}
	crowds := []*crowd{
		{addr: before.Addr},
		{addr: before.Listen[0]},
		{addr: before.TLS[0], dial: func() (net.Conn, error) { return dialer.DialContext(t.Context(), "tcp", before.TLS[0]) }},
	}
	for _, c := range crowds {
		c.links, c.clients = e.links, 9
		c.start(t, codes)
	}
	more := func() {
		for _, c := range crowds {
			c.more(t, 200)
		}
	}
	more()
	for range 2 {
		e.restart()
		require.Equal(t, before.Addr, e.status.Addr)
		require.Equal(t, before.Listen, e.status.Listen)
		require.Equal(t, before.TLS, e.status.TLS)
		more()
	}
	e.requireGoMemory(memory)
	answered := make(map[string]int64)
	for _, c := range crowds {
		c.end(t)
		for code, n := range c.answered {
			answered[code] += n
		}
	}
	e.requireCounted(answered)
}

func TestEdge_RefusesARestartThatCouldNotSucceed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "edge.yaml")
	configure := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	configure("edge:\n  contact: abuse@example.com\n")
	e := startSolo(t, "WAYPOST_CONFIG="+file)
	c := e.crowd(e.create(5))
	refused := func(reason string) {
		t.Helper()
		r := devtest.Run(t, []string{"WAYPOST_EDGE_DATA_DIR=" + e.dir}, "edge", "restart")
		require.Equal(t, 1, r.Code, r.Stdout)
		require.Contains(t, r.Stderr, "the edge continues as before")
		require.Contains(t, r.Stderr, reason)
		c.more(t, 100)
	}
	configure("edge:\n  contract: abuse@example.com\n")
	refused("contract")
	configure("tls:\n  addr: [127.0.0.1:0]\n  cert_file: /nonexistent\n  key_file: /nonexistent\n")
	refused("/nonexistent")
	configure("edge:\n  contact: takedown@example.com\n")
	formats, err := os.ReadFile(filepath.Join(e.dir, "formats"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(e.dir, "formats"), []byte("replica 99\n"), 0o600))
	refused(`has the formats "replica 99", and this program writes`)
	require.NoError(t, os.WriteFile(filepath.Join(e.dir, "formats"), formats, 0o600))

	before := e.status.Boot
	status, err := admin.ReadStatus(e.dir)
	require.NoError(t, err)
	require.Equal(t, before, status.Boot, "nothing has stopped")
	e.restart()
	require.NotEqual(t, before, e.status.Boot)
	c.more(t, 100)
	c.end(t)
	e.requireCounted(c.answered)
}

func TestDev_RestartsItsEdgesWithoutLosingARequest(t *testing.T) {
	t.Parallel()
	s := startClicked(t)
	var addrs []string
	before := s.State()
	for _, e := range before.Edges {
		addrs = append(addrs, strings.TrimPrefix(e.URL, "http://"))
	}
	crowds := []*crowd{startCrowd(t, addrs[0], s.codes[:50]), startCrowd(t, addrs[1], s.codes[:50])}
	r := devtest.Run(t, []string{"WAYPOST_EDGE_DATA_DIR=" + filepath.Join(s.DataDir(), "edges", before.Edges[0].Region)}, "edge", "restart")
	require.Zero(t, r.Code, r.Stderr)
	s.RenewEdges()
	want := make(map[string]int64)
	for _, c := range crowds {
		c.more(t, 300)
		c.end(t)
		for code, n := range c.answered {
			want[code] += n
		}
	}
	for i, e := range s.State().Edges {
		require.Equal(t, before.Edges[i].URL, e.URL)
		require.Equal(t, before.Edges[i].Node, e.Node)
	}
	var counted map[string]int64
	eventually(t, time.Minute, "counted", func() bool {
		counted = make(map[string]int64)
		for _, l := range s.links() {
			if l.ClickCount > 0 {
				counted[l.ShortCode] = l.ClickCount
			}
		}
		return sum(counted) >= sum(want)
	})
	require.Equal(t, want, counted)
	s.Stop()
}

// TestEdge_KilledWhileItRestartsCountsClicksOnce kills the process at a random moment of
// a restart, and starts it again.
func TestEdge_KilledWhileItRestartsCountsClicksOnce(t *testing.T) {
	t.Parallel()
	e := startSolo(t)
	codes := e.create(10)
	c := &tally{received: make(map[string]int64), cut: make(map[string]int64)}
	var addr atomic.Pointer[[]string]
	addr.Store(&[]string{e.status.Addr})
	ctx, cancel := context.WithCancel(t.Context())
	wait := c.click(ctx, t, codes, func() []string { return *addr.Load() })
	defer func() { cancel(); wait() }()
	for round := range 6 {
		require.NoError(t, unix.Kill(e.status.PID, unix.SIGHUP))
		timer := time.NewTimer(time.Duration(rand.IntN(3000)) * time.Millisecond)
		<-timer.C
		devtest.KillProcess(t, e.status.PID)
		addr.Store(new([]string)) // no click is answered meanwhile
		e.begin()
		var fresh client.Link
		e.persist(func() (err error) {
			fresh, err = e.api.Links.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/round/" + strconv.Itoa(round)})
			return err
		})
		eventually(t, time.Minute, "serving and following", func() bool { return redirects(e.status.Addr, fresh.ShortCode) })
		addr.Store(&[]string{e.status.Addr})
		more := c.total.Load() + 100
		eventually(t, time.Minute, "answered", func() bool { return c.total.Load() >= more })
	}
	cancel()
	wait()
	eventually(t, time.Minute, "counted", func() bool {
		for _, code := range codes {
			var l client.Link
			e.persist(func() (err error) {
				l, err = e.api.Links.Find(t.Context(), "", code)
				return err
			})
			require.LessOrEqual(t, l.ClickCount, c.received[code]+c.cut[code], "clicks of %s are counted twice", code)
			if l.ClickCount < c.received[code] {
				return false
			}
		}
		return true
	})
	require.Less(t, sum(c.cut), sum(c.received)/5, "few enough that the bounds tell something")
}

func TestEdge_RestartNeedsAnEdgeThatRuns(t *testing.T) {
	t.Parallel()
	e := startSolo(t)
	r := devtest.Run(t, append(slices.Clone(e.env), "WAYPOST_EDGE_ADDR="+e.status.Addr), "edge") // whose address is in use, too
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "is in use by process "+strconv.Itoa(e.status.PID)+": stop that, or choose another --data-dir")
	devtest.KillProcess(t, e.now.PID())
	r = devtest.Run(t, []string{"WAYPOST_EDGE_DATA_DIR=" + e.dir}, "edge", "restart")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "no process runs in the data directory")
}

// redirects asks for a link where perhaps no process answers. That is no click.
func redirects(addr, code string) bool {
	res, err := visitor.Head("http://" + addr + "/" + code)
	return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusFound
}
