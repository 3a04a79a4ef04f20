package devtest

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"waypost/internal/admin"
)

// Process is one command under test that runs until it is told to stop, such as an
// edge next to a system.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	out    *output
	exited chan struct{}
}

// Spawn starts a command with WAYPOST_* variables of env only. It is killed when the
// test ends, should it still run then. It does not die with the test's process, and
// what it has started itself is for the caller to end.
func Spawn(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: command(Binary(t), env, args...), out: newOutput(t), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out.file, p.out.file // a successor has the same
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its outcome is in ProcessState
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of %v:\n%s", args, p.out.String())
		}
		_ = p.cmd.Process.Kill() // most have ended
		<-p.exited
	})
	return p
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output returns what it wrote.
func (p *Process) Output() string { return p.out.String() }

// Exited returns the exit code of the process, and waits for it.
func (p *Process) Exited() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(stopLimit):
		p.t.Fatalf("process %d does not end within %s:\n%s", p.PID(), stopLimit, p.out.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// AwaitStatus waits until a status file is as a test wants it.
func AwaitStatus(t testing.TB, file string, is func(admin.Status) bool) admin.Status {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(startLimit); ; <-poll.C {
		status, err := admin.ReadStatus(file)
		if err == nil && is(status) {
			return status
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not as it should be after %s: %+v, %v", file, startLimit, status, err)
		}
	}
}
