package devtest

import (
	"syscall"
	"testing"
	"time"

	"waypost/internal/admin"
)

// Process is one command under test that runs until it is told to stop, such as an
// edge next to a system.
type Process struct {
	t testing.TB
	child
}

// Spawn starts a command with the WAYPOST_* variables of env only. It is killed when the
// test ends, should it still run then. It does not die with the test's process, and the
// caller has to end the processes that it has started itself.
func Spawn(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t}
	cmd := command(Binary(t), env, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := p.run(t, cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of %v:\n%s", args, p.Output())
		}
		p.Kill()
	})
	return p
}

// ExitCode waits for the end of the process, and returns its exit code.
func (p *Process) ExitCode() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(stopLimit):
		p.t.Fatalf("process %d does not end within %s:\n%s", p.PID(), stopLimit, p.Output())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// AwaitStatus waits until the status in a data directory is as a test wants it.
func AwaitStatus(t testing.TB, dataDir string, is func(admin.Status) bool) admin.Status {
	t.Helper()
	status, _, err := await(admin.ReadStatus, dataDir, nil, is)
	if err != nil {
		t.Fatal(err)
	}
	return status
}
