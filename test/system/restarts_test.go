package system_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost"
	"waypost/client"
	"waypost/edge/blocks"
	"waypost/edge/budgets"
	"waypost/edge/clicks"
	"waypost/edge/handover"
	"waypost/edge/replica"
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
	now    *devtest.Process  // nil when another process than the test started it
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
			"WAYPOST_EDGE_NODE=" + name, "WAYPOST_EDGE_CONTROL_URLS=" + state.API,
			"WAYPOST_EDGE_TOKEN_FILE=" + filepath.Join(s.DataDir(), "secrets", "edge-token"),
			"WAYPOST_EDGE_DATA_DIR=" + filepath.Join(dir, "edge"), "WAYPOST_EDGE_STATUS_FILE=" + filepath.Join(dir, "status"),
			"WAYPOST_EDGE_STRICT_HOSTS=false", // it is asked by its address
		}, extra...),
	}
	e.now = devtest.Spawn(t, e.env, "edge")
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
	t.Cleanup(func() { // the process that serves last is no child of the test
		_ = unix.Kill(e.status.PID, unix.SIGKILL)
	})
	return e
}

func (e *soloEdge) await(is func(admin.Status) bool) {
	e.t.Helper()
	e.status = devtest.AwaitStatus(e.t, filepath.Join(filepath.Dir(e.dir), "status"), is)
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

// takeOver lets another process take the place of the one that serves, as an operator
// may, and waits for the end of that.
func (e *soloEdge) takeOver() {
	e.t.Helper()
	before, old := e.status.PID, e.now
	e.now = devtest.Spawn(e.t, e.env, "edge", "--takeover")
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
	require.NotEqual(e.t, before, e.status.PID)
	require.Zero(e.t, old.ExitCode(), old.Output())
}

// awaitTidy waits until nothing is left of what a predecessor answered from.
func (e *soloEdge) awaitTidy() {
	e.t.Helper()
	eventually(e.t, time.Minute, "tidy", func() bool {
		_, err := os.Stat(filepath.Join(e.dir, "frozen"))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// answer is the expected answer to a code.
type answer struct {
	status   int
	location string // "": whatever it is
}

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
	c := &crowd{addr: addr, clients: 24}
	return c.start(t, codes)
}

// crowd begins to follow links of the edge, and expects of each the answer that it must
// have.
func (e *soloEdge) crowd(codes []string) *crowd {
	c := &crowd{addr: e.status.Addr, links: maps.Clone(e.links), clients: 24}
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
// edge that is being replaced may end it with no word: for less than a second it asks no
// client to close. A client that finds it so asks on another one.
const idleTooLong = 900 * time.Millisecond

func (c *crowd) visit(ctx context.Context, codes []string, n int, fresh bool) {
	var conn net.Conn
	var in *bufio.Reader
	var last time.Time // when the request before was sent, or the connection begun
	again := false     // the one before this ended with no word
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for i := n; ctx.Err() == nil; i++ {
		<-pace.C
		code, began := codes[i%len(codes)], time.Now()
		var err error
		if conn == nil {
			last = began
			if conn, err = c.dial(); err != nil {
				c.fail(fmt.Errorf("connect: %w", err))
				continue
			}
			in = bufio.NewReader(conn)
		}
		var res *http.Response
		_, err = io.WriteString(conn, "GET /"+code+" HTTP/1.1\r\nHost: "+c.addr+"\r\n\r\n")
		if err == nil {
			res, err = http.ReadResponse(in, nil)
		}
		if err == nil {
			err = c.judge(code, res)
		}
		switch {
		case err == nil:
			c.count(code, res.StatusCode, time.Since(began))
			last, again = began, false
		case res == nil && !again && time.Since(last) > idleTooLong:
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

// serviceManager listens where a service manager does, and keeps what it is told.
type serviceManager struct {
	mu   sync.Mutex
	said []string
}

func startManager(t *testing.T) (m *serviceManager, variable string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	m = &serviceManager{}
	var work sync.WaitGroup
	work.Go(func() {
		text, rights := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
		for {
			n, oob, _, _, err := c.ReadMsgUnix(text, rights)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, strings.TrimSpace(string(text[:n])))
			m.mu.Unlock()
			if controls, err := unix.ParseSocketControlMessage(rights[:oob]); err == nil && len(controls) == 1 {
				fds, _ := unix.ParseUnixRights(&controls[0])
				_ = unix.Close(fds[0]) // everything before was read
			}
		}
	})
	t.Cleanup(func() { _ = c.Close(); work.Wait() })
	return m, "NOTIFY_SOCKET=" + path
}

// mainProcesses are those that the manager was told of, in order.
func (m *serviceManager) mainProcesses() (pids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.said {
		if pid, ok := strings.CutPrefix(text, "MAINPID="); ok {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestThreeRestartsUnderLoadLoseNoRequestAndNoClick(t *testing.T) {
	t.Parallel()
	manager, socket := startManager(t)
	e := startSolo(t, socket)
	var served []string
	codes := e.create(20)
	c := e.crowd(codes)
	c.more(t, 500)
	for range 2 {
		e.takeOver()
		served = append(served, strconv.Itoa(e.status.PID))
		c.more(t, 500)
	}
	// The third is asked for, and made by the edge itself.
	before := e.status.PID
	r := devtest.Run(t, e.env[6:7], "edge", "restart", "--output", "json")
	require.Zero(t, r.Code, r.Stderr)
	e.await(func(s admin.Status) bool { return s.PID != before })
	require.Contains(t, r.Stdout, strconv.Itoa(e.status.PID))
	require.Zero(t, e.now.ExitCode())
	e.now = nil
	served = append(served, strconv.Itoa(e.status.PID))
	eventually(t, time.Minute, "told to the manager", func() bool { return slices.Equal(served, manager.mainProcesses()) })
	c.more(t, 500)

	// The last process follows, and what is deleted stays so.
	e.remove(e.create(1)[0])
	c.end(t)
	e.awaitTidy()
	e.requireCounted(c.answered)
}

// TestARestartUnderLoadOfAnEdgeThatReadsLinksFromDiskLosesNothing is with edges whose
// memory does not hold all links: a copy of the replica answers while the successor has
// the replica itself.
func TestARestartUnderLoadOfAnEdgeThatReadsLinksFromDiskLosesNothing(t *testing.T) {
	t.Parallel()
	const room = "FAILPOINT=bytes of the lookup table@"
	e := startSolo(t, room+"1048576")
	e.fill(2 << 20)
	codes := e.create(10)
	e.remove(e.create(1)[0])
	e.links["never-made"] = answer{status: http.StatusNotFound}
	c := e.crowd(append(slices.Collect(maps.Keys(e.links)), codes...))
	c.more(t, 500)
	e.env = append(e.env, room+"-1") // those that come have no table at all
	for range 2 {
		old := e.now
		e.takeOver()
		require.Contains(t, old.Output(), `"msg":"a copy of the replica answers during the takeover","reason":"detach the replica: the lookup table does not hold all links"`)
		c.more(t, 500)
		e.awaitTidy()
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

// TestARestartUnderLoadLosesNoRequestOnAnyListener is with edges whose operator has said
// how much memory Go may use, and that nothing but that has garbage collected.
func TestARestartUnderLoadLosesNoRequestOnAnyListener(t *testing.T) {
	t.Parallel()
	const memory = 32 << 20
	certificate := filepath.Join(t.TempDir(), "own")
	newCertificates(t, certificate)
	e := startSolo(t, "WAYPOST_EDGE_LISTEN=[::1]:0", "WAYPOST_TLS_ADDR=127.0.0.1:0",
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
		e.takeOver()
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

// successorStep names how far the process below comes before it is killed.
const successorStep = "TEST_SUCCESSOR_STEP"

// refusedSuccessor is its exit code when the edge does not give way.
const refusedSuccessor = 3

// TestHelperSuccessor is no test: it is a process that takes over, and never becomes
// ready.
func TestHelperSuccessor(t *testing.T) {
	step, dir, ok := strings.Cut(os.Getenv(successorStep), ":")
	if !ok {
		t.Skip("runs only as a process of another test")
	}
	dir, name, _ := strings.Cut(dir, ":")
	formats := fmt.Sprintf("replica %d, clicks %s, budgets %d, blocks %d", replica.Format, clicks.Format(), budgets.Format, blocks.Format)
	if step == "of other formats" {
		formats = "replica 99"
	}
	s, err := handover.Claim(t.Context(), handover.ClaimConfig{Dir: dir, Version: "test", Formats: formats})
	if err != nil {
		fmt.Println(err)
		os.Exit(refusedSuccessor)
	}
	if step == "opened" {
		if _, err := replica.Open(replica.Config{Dir: filepath.Join(dir, "replica")}); err != nil {
			fmt.Println(err)
			os.Exit(4)
		}
		lock := s.Take("click journal")
		if _, err := clicks.Open(clicks.Config{Dir: filepath.Join(dir, "clicks"), Node: name, Shared: lock}); err != nil {
			fmt.Println(err)
			os.Exit(5)
		}
	}
	fmt.Println("there")
	select {}
}

// successor is the process above.
func (e *soloEdge) successor(t *testing.T, step string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // which is waited for its words
	t.Cleanup(cancel)
	helper := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelperSuccessor$")
	helper.Env = append(os.Environ(), successorStep+"="+step+":"+e.dir+":"+e.name)
	return helper
}

func requireKilled(t *testing.T, err error) {
	t.Helper()
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
}

func TestAnEdgeWhoseSuccessorDiesGoesOnAsIfNothingHadHappened(t *testing.T) {
	t.Parallel()
	e := startSolo(t, "WAYPOST_EDGE_TAKEOVER_TIMEOUT=1m")
	codes := e.create(5)
	c := e.crowd(codes)
	for _, step := range []string{"claimed", "opened"} {
		t.Run(step, func(t *testing.T) {
			helper := e.successor(t, step)
			out, err := helper.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, helper.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "there\n", line)
			c.more(t, 300) // a copy answers
			require.NoError(t, helper.Process.Kill())
			requireKilled(t, helper.Wait())
			require.Len(t, e.create(1), 1) // it takes changes again
			c.more(t, 300)
		})
	}
	t.Run("of other formats", func(t *testing.T) {
		out, err := e.successor(t, "of other formats").Output()
		require.Error(t, err)
		require.Contains(t, string(out), "does not give way: it keeps its data as")
		require.Contains(t, string(out), `that program as "replica 99": stop the one, and start the other`)
	})
	e.takeOver()
	c.more(t, 300)
	c.end(t)
	e.requireCounted(c.answered)
}

func TestASuccessorGoesOnWhenItsPredecessorIsKilled(t *testing.T) {
	t.Parallel()
	e := startSolo(t)
	codes := e.create(3)
	old := e.now
	e.now = devtest.Spawn(t, e.env, "edge", "--takeover")
	eventually(t, time.Minute, "taking over", func() bool { return strings.Contains(e.now.Output(), "taking over") })
	devtest.KillProcess(t, old.PID())
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
	for _, code := range codes {
		require.Equal(t, http.StatusFound, e.head(code))
	}
	e.create(1)
	e.awaitTidy()
}

func TestASuccessorFollowsTheStreamThoughItsPredecessorHangs(t *testing.T) {
	t.Parallel()
	e := startSolo(t, "FAILPOINT=a stop takes at most@2m")
	codes := e.create(1)
	conn, err := net.Dial("tcp", e.status.Addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /"+codes[0]) // which keeps it from ending at once
	require.NoError(t, err)
	old := e.now
	// The new one waits for the old one for little more than this.
	e.now = devtest.Spawn(t, append(slices.Clone(e.env), "FAILPOINT=a stop takes at most@1s"), "edge", "--takeover")
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
	require.NoError(t, unix.Kill(old.PID(), unix.SIGSTOP))
	visitor.CloseIdleConnections() // whom the old one had hang with it
	e.create(1)                    // it reaches this edge with the stream
	require.NoError(t, unix.Kill(old.PID(), unix.SIGCONT))
	require.NoError(t, conn.Close())
	require.Zero(t, old.ExitCode(), old.Output())
	eventually(t, time.Minute, "complete", func() bool { return strings.Contains(e.now.Output(), "the takeover is complete") })
}

func TestDevRenewsItsEdgesWithoutLosingARequest(t *testing.T) {
	t.Parallel()
	s := startClicked(t)
	var addrs []string
	before := s.State()
	for _, e := range before.Edges {
		addrs = append(addrs, strings.TrimPrefix(e.URL, "http://"))
	}
	crowds := []*crowd{startCrowd(t, addrs[0], s.codes[:50]), startCrowd(t, addrs[1], s.codes[:50])}
	r := devtest.Run(t, []string{"WAYPOST_EDGE_DATA_DIR=" + filepath.Join(s.DataDir(), "edges", before.Edges[0].Region)}, "edge", "restart")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "it is kept by another process, such as `waypost dev`: send that one SIGHUP")
	s.Renew()
	s.Await("renewed", func(st devtest.State) bool {
		return st.Edges[0].PID != before.Edges[0].PID && st.Edges[1].PID != before.Edges[1].PID
	})
	want := make(map[string]int64)
	for _, c := range crowds {
		c.more(t, 500)
		c.end(t)
		for code, n := range c.answered {
			want[code] += n
		}
	}
	for i, e := range s.State().Edges {
		require.Equal(t, before.Edges[i].URL, e.URL)
		require.Equal(t, before.Edges[i].Node, e.Node)
	}
	// The edges that were replaced count last, when they have ended.
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

// redirects asks for a link where perhaps no process answers. That is no click.
func redirects(addr, code string) bool {
	res, err := visitor.Head("http://" + addr + "/" + code)
	return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusFound
}

// TestWhateverIsKilledInATakeoverTheEdgeServesOnAndCountsClicksOnce kills one of the two
// processes, at a random moment.
func TestWhateverIsKilledInATakeoverTheEdgeServesOnAndCountsClicksOnce(t *testing.T) {
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
		old := e.now
		next := devtest.Spawn(t, e.env, "edge", "--takeover")
		timer := time.NewTimer(time.Duration(40+rand.IntN(300)) * time.Millisecond)
		<-timer.C
		victim := []*devtest.Process{old, next}[round%2]
		devtest.KillProcess(t, victim.PID())
		survivor := []*devtest.Process{next, old}[round%2]
		var fresh client.Link
		e.persist(func() (err error) {
			fresh, err = e.api.Links.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/round/" + strconv.Itoa(round)})
			return err
		})
		eventually(t, time.Minute, "serving and following", func() bool {
			if survivor.Ended() { // it had given way already, perhaps before the other one could say so
				require.Zero(t, survivor.ExitCode(), "round %d: %s", round, survivor.Output())
				survivor = devtest.Spawn(t, e.env, "edge", "--takeover")
			}
			status, err := admin.ReadStatus(filepath.Join(filepath.Dir(e.dir), "status"))
			if err != nil || status.PID != survivor.PID() || !redirects(status.Addr, fresh.ShortCode) {
				return false
			}
			e.status = status
			addr.Store(&[]string{status.Addr})
			return !strings.Contains(survivor.Output(), "the successor serves") // or it will end
		})
		e.now = survivor
		more := c.total.Load() + 100
		eventually(t, time.Minute, "answered", func() bool { return c.total.Load() >= more })
	}
	cancel()
	wait()
	last := devtest.Spawn(t, e.env, "edge", "--takeover") // takes over what the killed ones left
	e.await(func(s admin.Status) bool { return s.PID == last.PID() })
	require.Zero(t, e.now.ExitCode())
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

func TestASecondEdgeIsToldHowToTakeOverAndOneThatFindsNobodyStarts(t *testing.T) {
	t.Parallel()
	e := startSolo(t, "WAYPOST_EDGE_TAKEOVER_TIMEOUT=1s")
	codes := e.create(1)
	t.Run("one that hangs is killed by the edge, which goes on", func(t *testing.T) {
		ended := make(chan error, 1)
		start := func() {
			hangs := e.successor(t, "hangs")
			require.NoError(t, hangs.Start())
			go func() { ended <- hangs.Wait() }()
		}
		start()
		eventually(t, time.Minute, "killed", func() bool {
			require.Equal(t, http.StatusFound, e.head(codes[0]))
			if len(ended) == 0 {
				return false
			}
			err := <-ended
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == refusedSuccessor {
				start() // the edge itself was not ready to give way in so short a time
				return false
			}
			requireKilled(t, err)
			return true
		})
		require.Len(t, e.create(1), 1) // it takes changes again
	})
	r := devtest.Run(t, append(slices.Clone(e.env), "WAYPOST_EDGE_ADDR="+e.status.Addr), "edge") // whose address is in use, too
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "is in use by process "+strconv.Itoa(e.status.PID)+": stop that, or choose another --data-dir")
	require.Contains(t, r.Stderr, "--takeover")
	devtest.KillProcess(t, e.now.PID())
	r = devtest.Run(t, e.env[6:7], "edge", "restart")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "no edge runs in this directory")
	e.now = devtest.Spawn(t, e.env, "edge", "--takeover")
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
}
