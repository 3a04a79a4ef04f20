package devtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// process refers to a process that is no child of the test, and cannot be mistaken for
// another that gets the same id later.
type process struct{ pid, fd int }

type processes []process

// watch returns a reference to a process, empty if the process has ended already.
func watch(t testing.TB, pid int) processes {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return processes{{pid: pid, fd: fd}}
}

// await waits for the end of all of them, and lets go of them.
func (ps processes) await(t testing.TB, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for _, p := range ps {
		left := max(time.Until(deadline), 0)
		ended, err := waitReadable(p.fd, left)
		if err = errors.Join(err, unix.Close(p.fd)); err != nil {
			t.Fatal(err)
		}
		if !ended {
			t.Fatalf("process %d still runs after %s", p.pid, limit)
		}
	}
}

// waitReadable waits for a pidfd, which is readable once its process has ended.
func waitReadable(fd int, limit time.Duration) (bool, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n == 1, err
		}
	}
}

// KillProcess sends SIGKILL to one process, such as an edge of dev.json, and waits
// for its end.
func KillProcess(t testing.TB, pid int) { t.Helper(); endProcess(t, pid, unix.SIGKILL) }

// StopProcess is KillProcess with SIGTERM.
func StopProcess(t testing.TB, pid int) { t.Helper(); endProcess(t, pid, unix.SIGTERM) }

func endProcess(t testing.TB, pid int, sig unix.Signal) {
	t.Helper()
	if pid <= 0 {
		t.Fatalf("there is no process %d to kill", pid)
	}
	ps := watch(t, pid)
	for _, p := range ps {
		if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
	ps.await(t, stopLimit)
}

// output collects the output of a process and its children in a file, so that the test
// neither loses output nor waits for more after the process has ended.
type output struct{ file *os.File }

func newOutput(t testing.TB) *output {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "output"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &output{f}
}

func (o *output) String() string {
	if o == nil { // nothing was started
		return ""
	}
	text, err := os.ReadFile(o.file.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
