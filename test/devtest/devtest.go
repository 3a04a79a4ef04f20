// Package devtest runs the waypost program for tests: whole development systems
// that are started, killed and started again, and single commands. It is not for
// anything but tests.
package devtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"waypost/internal/admin"
	"waypost/internal/dev"
)

// State is dev.json.
type State = dev.State

// Limits of the waits of a test. A system must stop within 50 s.
const (
	startLimit = 3 * time.Minute
	stopLimit  = 50 * time.Second
	runLimit   = 10 * time.Minute // of one command
	patience   = time.Minute      // of a visitor
)

// Long reports whether tests run in their long form, as `make test-long` has it.
func Long() bool { return os.Getenv("TEST_LONG") != "" }

// Binary builds the program, with the race detector when the test has it and with the
// places at which tests kill it or slow it down (see package failpoint), and returns its
// path.
func Binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(compile)

// Race reports whether the test, and with it the program, has the race detector.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// moduleRoot returns the directory of go.mod above the package under test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("devtest: no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

func compile() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path, args := filepath.Join(root, "bin", "test", "waypost"), []string{"build", "-tags", "failpoints"}
	if Race() {
		path, args = path+"-race", append(args, "-race")
	}
	unlock, err := oneBuilds(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("build waypost: %w", err)
	}
	defer unlock()
	cmd := exec.CommandContext(context.Background(), "go", append(args, "-o", path, "./cmd/waypost")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build waypost: %w\n%s", err, out)
	}
	return path, nil
}

// oneBuilds serializes the builds of concurrently tested packages with a file lock. Later
// builds find their packages in the build cache, instead of compiling the same at the
// same time.
func oneBuilds(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("wait for another build: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}

// Result holds the outcome of a command.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs one command with WAYPOST_* variables of env only.
func Run(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(Binary(t), env, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Start()
	if err == nil {
		late := time.AfterFunc(runLimit, func() { _ = cmd.Process.Kill() }) // which is an error below
		err = cmd.Wait()
		late.Stop()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		t.Fatalf("waypost %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// quickExit keeps the race detector from holding every end of a process up for a second,
// which it does for reports of other goroutines.
const quickExit = "GORACE=atexit_sleep_ms=10"

func command(binary string, env []string, args ...string) *exec.Cmd {
	// Not bound to the test's context: that ends before its cleanups.
	cmd := exec.CommandContext(context.Background(), binary, args...)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "WAYPOST_") && !strings.HasPrefix(entry, "GORACE=") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, quickExit)
	var points []string // several are one variable
	for _, entry := range env {
		if point, ok := strings.CutPrefix(entry, "FAILPOINT="); ok && point != "" {
			points = append(points, point)
		} else {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	if points != nil {
		cmd.Env = append(cmd.Env, "FAILPOINT="+strings.Join(points, ";"))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Config of a system. Zero fields mean the default.
type Config struct {
	DataDir string   // default: a directory of the test
	Anew    bool     // its database is made by the system itself, as it is for everyone else
	Edges   string   // default: two regions on free ports
	Args    []string // further flags of waypost dev
	Env     []string // WAYPOST_* variables, and FAILPOINT
}

// System is a `waypost dev` under test.
type System struct {
	t   testing.TB
	cfg Config
	*child
}

// Start runs a system and waits until it is ready. It is killed when the test
// ends, should it still run then.
func Start(t testing.TB, cfg Config) *System {
	t.Helper()
	Binary(t)
	if cfg.DataDir == "" {
		cfg.DataDir = filepath.Join(t.TempDir(), "data")
	}
	if _, err := os.Stat(cfg.DataDir); err != nil && !cfg.Anew {
		begun(t, cfg.DataDir)
	}
	if cfg.Edges == "" {
		cfg.Edges = "us-east-1=127.0.0.1:0,eu-west-1=127.0.0.1:0"
	}
	s := &System{t: t, cfg: cfg, child: &child{}}
	s.Again()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of waypost dev:\n%s", s.Output())
		}
		s.Kill()
	})
	return s
}

// Again starts the system in its directory once more, after Stop or Kill, and
// waits until it is ready.
func (s *System) Again() {
	s.t.Helper()
	for tries := 5; ; tries-- {
		s.startSystem()
		state := s.await("ready", func(state State) bool { return int(state.PID) == s.PID() })
		if state != nil {
			return
		}
		// The ports that it picks are free then, and another system may pick one as well before
		// it is used.
		if said := s.Output(); tries == 0 || !strings.Contains(said, "is in use by another program") && !strings.Contains(said,
			"address already in use") {
			s.t.Fatalf("waypost dev ended (%v) before it was ready:\n%s", s.cmd.ProcessState, s.Output())
		}
	}
}

func (s *System) startSystem() {
	s.t.Helper()
	args := append([]string{"dev", "--data-dir", s.cfg.DataDir, "--control-addr", "127.0.0.1:0", "--edges", s.cfg.Edges}, s.cfg.Args...)
	if err := s.run(s.t, command(Binary(s.t), s.cfg.Env, args...)); err != nil {
		s.t.Fatal(err)
	}
}

// DataDir returns the directory in which the system keeps everything.
func (s *System) DataDir() string { return s.cfg.DataDir }

// State reads dev.json.
func (s *System) State() State {
	s.t.Helper()
	state, err := dev.ReadState(s.cfg.DataDir)
	if err != nil {
		s.t.Fatalf("%v; the system wrote:\n%s", err, s.Output())
	}
	return state
}

// Await waits until dev.json is as a test wants it, and returns it.
func (s *System) Await(what string, is func(State) bool) State {
	s.t.Helper()
	state := s.await(what, is)
	if state == nil {
		s.t.Fatalf("waypost dev ended (%v) before it was %s:\n%s", s.cmd.ProcessState, what, s.Output())
	}
	return *state
}

// await returns nil when the system ends instead.
func (s *System) await(what string, is func(State) bool) *State {
	s.t.Helper()
	state, ok, err := await(dev.ReadState, s.cfg.DataDir, s.exited, is)
	if err != nil {
		s.t.Fatalf("waypost dev is not %s: %v\n%s", what, err, s.Output())
	}
	if !ok {
		return nil
	}
	return &state
}

// Stop asks the system to stop with SIGTERM, and fails the test unless it ends in
// order, in time, and with nothing left running.
func (s *System) Stop() {
	s.t.Helper()
	ends := s.watch()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(stopLimit):
		s.t.Fatalf("waypost dev does not stop within %s:\n%s", stopLimit, s.Output())
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Fatalf("waypost dev stopped with exit code %d:\n%s", code, s.Output())
	}
	ends.await(s.t, stopLimit)
	if _, err := os.Stat(dev.StateFile(s.cfg.DataDir)); !errors.Is(err, os.ErrNotExist) {
		s.t.Fatalf("dev.json outlives the system: %v", err)
	}
}

// RenewEdges sends the system SIGHUP, and waits until every edge serves again.
func (s *System) RenewEdges() {
	s.t.Helper()
	before := make(map[string]string)
	boots := func(is func(dir string, st admin.Status) bool) {
		s.t.Helper()
		for _, e := range s.State().Edges {
			dir := filepath.Join(s.cfg.DataDir, "edges", e.Region)
			AwaitStatus(s.t, dir, func(st admin.Status) bool { return is(dir, st) })
		}
	}
	boots(func(dir string, st admin.Status) bool { before[dir] = st.Boot; return true })
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	boots(func(dir string, st admin.Status) bool { return st.Boot != before[dir] })
}

// Kill sends SIGKILL to every process of dev.json, all at once, and waits for
// their ends. A system that has ended already is left alone.
func (s *System) Kill() {
	s.t.Helper()
	select {
	case <-s.exited:
		return
	default:
	}
	ends := s.watch()
	for _, e := range ends {
		if err := unix.PidfdSendSignal(e.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			s.t.Fatal(err)
		}
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	<-s.exited
	ends.await(s.t, stopLimit)
}

// watch refers to the processes of dev.json, if there is one.
func (s *System) watch() processes {
	s.t.Helper()
	state, err := dev.ReadState(s.cfg.DataDir)
	if err != nil {
		return nil
	}
	pids := []dev.PID{state.Postgres.PID, state.Control.PID}
	for _, e := range state.Edges {
		pids = append(pids, e.PID)
	}
	var all processes
	for _, pid := range pids {
		if pid > 0 {
			all = append(all, watch(s.t, int(pid))...)
		}
	}
	return all
}
