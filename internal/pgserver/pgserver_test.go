package pgserver_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/internal/pgserver"
	"waypost/internal/pgserver/pgservertest"
)

// superviseEnv makes the test binary a supervisor that can be killed.
const superviseEnv = "PGSERVER_TEST_SUPERVISE"

var cluster = &pgservertest.Cluster{Prepare: func(ctx context.Context, url string) error {
	return execute(ctx, url, "CREATE TABLE kept (n int)")
}}

func TestMain(m *testing.M) {
	if dir := os.Getenv(superviseEnv); dir != "" {
		os.Exit(supervise(dir))
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: every test needs PostgreSQL")
		return
	}
	os.Exit(cluster.Main(m))
}

// supervise starts a server, says so, and holds it until its standard input ends.
func supervise(dir string) int {
	s, err := pgserver.Start(context.Background(), configOf(dir))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("pid", s.PID(), s.URL())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil {
		return 0
	}
	return 1
}

func TestDataSurvivesAStopAndAStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	require.NoError(t, execute(t.Context(), s.URL(), "CREATE TABLE kept AS SELECT 7 AS n"))
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Stop(t.Context()), "stopping twice is no error")
	require.NoError(t, s.Err())

	require.Equal(t, "7", query(t, start(t, dir).URL(), "SELECT n FROM kept"))
}

func TestTheRoleOwnsItsDatabaseAndIsNoSuperuser(t *testing.T) {
	t.Parallel()
	own := cluster.Server(t).URL()
	require.Equal(t, "waypost waypost false", query(t, own, `SELECT current_user || ' ' || pg_get_userbyid(datdba) || ' ' ||
		(SELECT rolsuper FROM pg_roles WHERE rolname = current_user) FROM pg_database WHERE datname = current_database()`))
	require.Equal(t, "UTF8 on", query(t, own, "SELECT current_setting('server_encoding') || ' ' || current_setting('data_checksums')"))
	require.Equal(t, "on on []", query(t, startAs(t, pgserver.Config{Dir: t.TempDir()}).URL(),
		"SELECT current_setting('fsync') || ' ' || current_setting('synchronous_commit') || ' [' || current_setting('listen_addresses') || ']'"))
}

func TestAKilledServerRecoversWhatWasCommitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	require.NoError(t, execute(t.Context(), s.URL(), "CREATE TABLE kept AS SELECT 7 AS n"))
	// A busy backend does not notice that its postmaster is gone, and would keep
	// the next one from starting.
	busy, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	var backend int
	require.NoError(t, busy.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	spinning := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.WithoutCancel(t.Context()), "SELECT count(*) FROM generate_series(1, 1000000000000)")
		spinning <- err
	}()
	require.Eventually(t, func() bool {
		return query(t, s.URL(), fmt.Sprintf("SELECT state FROM pg_stat_activity WHERE pid = %d", backend)) == "active"
	}, 60*time.Second, 10*time.Millisecond)

	require.NoError(t, unix.Kill(s.PID(), unix.SIGKILL))
	<-s.Done()
	require.ErrorContains(t, s.Err(), "killed")
	require.NoError(t, unix.Kill(backend, 0), "the backend must still run for this test to mean anything")

	require.Equal(t, "7", query(t, start(t, dir).URL(), "SELECT n FROM kept"))
	require.Error(t, <-spinning, "the orphaned backend was ended")
}

// A process that was killed may have the shared memory for some time after it has lost
// its name.
func TestAStartWaitsForTheSharedMemoryOfAKilledServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	lines, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	var key, id int
	_, err = fmt.Sscan(strings.Split(string(lines), "\n")[6], &key, &id)
	require.NoError(t, err)
	memory, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(s.PID(), unix.SIGKILL))
	<-s.Done()

	told, log := io.Pipe()
	cfg := configOf(dir)
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	detached := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(told)
		for lines.Scan() && !strings.Contains(lines.Text(), "shared memory") {
			continue
		}
		detached <- unix.SysvShmDetach(memory)
		_, _ = io.Copy(io.Discard, told)
	}()
	again := startAs(t, cfg)
	require.NoError(t, <-detached)
	require.NoError(t, log.Close())
	require.Equal(t, "1", query(t, again.URL(), "SELECT 1"))
}

func TestTheServerDiesWithItsSupervisorAndStartsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		supervisor, pid, _ := startSupervisor(t, dir)
		_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
		require.ErrorIs(t, err, pgserver.ErrInUse)

		end := pidfd(t, pid)
		require.NoError(t, supervisor.Process.Kill())
		require.Error(t, supervisor.Wait())
		awaitEnd(t, end)
	}
	s := start(t, dir)
	require.Equal(t, "1", query(t, s.URL(), "SELECT 1"))
}

func TestAnOrphanOfTheSameDirectoryIsStoppedFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	supervisor, orphan, at := startSupervisor(t, dir)
	end := pidfd(t, orphan)
	// It obeys the parent-death signal, and waits for a backend that does not end: an
	// orphan that lives on, until it is found.
	conn, err := pgx.Connect(t.Context(), at)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }() // it is gone
	var backend int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	require.NoError(t, unix.Kill(backend, unix.SIGSTOP))
	found := false
	defer func() {
		if !found {
			_ = unix.Kill(backend, unix.SIGCONT)
		}
	}()
	require.NoError(t, supervisor.Process.Kill())
	require.Error(t, supervisor.Wait())
	cfg := configOf(dir)
	cfg.Logger = slog.New(slog.NewTextHandler(written(func(line string) {
		if strings.Contains(line, "a killed PostgreSQL left behind") && strings.Contains(line, fmt.Sprint(orphan)) {
			found = true
			_ = unix.Kill(backend, unix.SIGCONT)
		}
	}), nil))

	s := startAs(t, cfg)
	require.True(t, found)
	awaitEnd(t, end)
	require.NotEqual(t, orphan, s.PID())
	require.Equal(t, "1", query(t, s.URL(), "SELECT 1"))
}

// written is told of what is logged.
type written func(line string)

func (f written) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}

func TestADirectoryIsFreeWhenItsServerHasEndedAlsoWhileAnotherChildBegins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	// What a child has that is not another program yet: the same open files.
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	shared := -1
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == filepath.Join(dir, "supervisor.lock") {
			fd, err := strconv.Atoi(e.Name())
			require.NoError(t, err)
			shared, err = unix.Dup(fd)
			require.NoError(t, err)
		}
	}
	require.Positive(t, shared)
	defer func() { require.NoError(t, unix.Close(shared)) }()
	require.NoError(t, s.Stop(t.Context()))
	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT 1"))
}

func TestALockFileOfAnotherProcessIdDoesNotBlockTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	other := cluster.Server(t)
	require.NoError(t, unix.Kill(s.PID(), unix.SIGKILL))
	<-s.Done()
	// As if the process id had gone to another program of the same user.
	name := filepath.Join(dir, "data", "postmaster.pid")
	lock, err := os.ReadFile(name)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(lock), "\n")
	require.NoError(t, os.WriteFile(name, fmt.Appendf(nil, "%d\n%s", other.PID(), rest), 0o600))

	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT 1"))
	require.Equal(t, "1", query(t, other.URL(), "SELECT 1"), "the other server is left alone")
}

func TestAPathTooLongForASocketIsShortened(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 20), strings.Repeat("path", 20))
	s := start(t, dir)
	require.Equal(t, "1", query(t, s.URL(), "SELECT 1"))
	address, err := url.Parse(s.URL())
	require.NoError(t, err)
	sockets := address.Query().Get("host")
	require.NotContains(t, sockets, "long")
	require.DirExists(t, sockets)
	require.NoError(t, s.Stop(t.Context()))
	require.NoDirExists(t, sockets)

	require.NoError(t, os.Mkdir(sockets, 0o755), "as if another user had been there first")
	t.Cleanup(func() { require.NoError(t, os.Remove(sockets)) })
	_, err = pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.ErrorContains(t, err, "not a directory that only user")
}

func TestAHalfMadeClusterIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))
	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT 1"))
	require.NoDirExists(t, filepath.Join(dir, "data.new"))
}

func TestAClusterOfAnotherVersionIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("9\n"), 0o600))
	_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.ErrorContains(t, err, "was made by PostgreSQL 9")
	require.ErrorContains(t, err, "install postgresql-9")

	require.NoError(t, os.Remove(filepath.Join(data, "PG_VERSION")))
	_, err = pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.ErrorContains(t, err, "holds no database cluster")
	require.DirExists(t, data)
}

func TestTwoServersRunSideBySide(t *testing.T) {
	t.Parallel()
	one, two := start(t, t.TempDir()), start(t, t.TempDir())
	require.NoError(t, execute(t.Context(), one.URL(), "CREATE TABLE only_one (n int)"))
	require.Equal(t, "true", query(t, two.URL(), "SELECT (to_regclass('only_one') IS NULL)::text"))
}

// Tests and benchmarks run on the PostgreSQL that operators have.
func TestStart_SetsOnlyWhatKeepsServersApart(t *testing.T) {
	t.Parallel()
	require.Equal(t, "cluster_name fsync listen_addresses max_connections port",
		query(t, start(t, t.TempDir()).URL(), `SELECT string_agg(name, ' ' ORDER BY name) FROM pg_settings
			WHERE source = 'command line' AND name NOT IN ('config_file', 'unix_socket_directories', 'data_directory', 'hba_file', 'ident_file')`))
}

func TestEachTestDatabaseIsACopyOfTheTemplate(t *testing.T) {
	t.Parallel()
	one, two := cluster.Database(t), cluster.Database(t)
	require.NoError(t, execute(t.Context(), one, "INSERT INTO kept VALUES (1)"))
	require.Equal(t, "1", query(t, one, "SELECT count(*)::text FROM kept"))
	require.Equal(t, "0", query(t, two, "SELECT count(*)::text FROM kept"))
}

func TestAStartThatIsGivenUpLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pgserver.Start(ctx, pgserver.Config{Dir: dir})
	require.Error(t, err)
	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT 1"))
}

// configOf is of a server whose machine does not lose its power.
func configOf(dir string) pgserver.Config {
	return pgserver.Config{Dir: dir, Settings: map[string]string{"fsync": "off"}}
}

func start(t *testing.T, dir string) *pgserver.Server {
	t.Helper()
	return startAs(t, configOf(dir))
}

func startAs(t *testing.T, cfg pgserver.Config) *pgserver.Server {
	t.Helper()
	s, err := pgserver.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Stop(ctx))
	})
	return s
}

// startSupervisor runs a server in a process of its own and returns that process, and
// the server's id and URL.
func startSupervisor(t *testing.T, dir string) (supervisor *exec.Cmd, pid int, at string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), superviseEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscanf(line, "pid %d %s", &pid, &at)
	require.NoError(t, err, line)
	return cmd, pid, at
}

// pidfd refers to a process, so that its end can be waited for.
func pidfd(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}

func awaitEnd(t *testing.T, fd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 60_000)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "the process still runs after a minute")
		return
	}
}

func execute(ctx context.Context, at, sql string) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if err2 := conn.Close(ctx); err == nil {
		err = err2
	}
	return err
}

func query(t *testing.T, at, sql string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT ("+sql+")::text").Scan(&text))
	return text
}
