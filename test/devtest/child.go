package devtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"waypost/internal/admin"
)

// child is a process that a test started.
type child struct {
	name    string // role and number
	cmd     *exec.Cmd
	dataDir string // which gets its status once it is ready; "": none
	out     *output
	exited  chan struct{}
	asked   atomic.Bool // to stop
}

func (c *child) describe(kind, node, dataDir string) {
	c.name, c.dataDir = kind+" "+node, dataDir
}

// start runs the program. It is killed when the test ends.
func (c *child) start(t testing.TB, env []string, args ...string) error {
	if err := os.Remove(filepath.Join(c.dataDir, admin.StatusFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := c.run(t, command(Binary(t), env, args...)); err != nil {
		return err
	}
	t.Cleanup(c.Kill)
	return nil
}

// run starts a command; the caller has to end it.
func (c *child) run(t testing.TB, cmd *exec.Cmd) error {
	t.Helper()
	exited := make(chan struct{})
	c.cmd, c.out, c.exited = cmd, newOutput(t), exited
	cmd.Stdout, cmd.Stderr = c.out.file, c.out.file
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(exited)
		_ = cmd.Wait() // its outcome is in ProcessState
	}()
	return nil
}

// ready waits until the process answers, and returns false when it ended instead.
func (c *child) ready() (s admin.Status, ok bool, err error) {
	s, ok, err = await(admin.ReadStatus, c.dataDir, c.exited, func(s admin.Status) bool { return s.PID == c.PID() })
	if err != nil {
		err = fmt.Errorf("%s is not ready: %w\n%s", c.name, err, c.Output())
	}
	return s, ok, err
}

// await reads a file until it is as a test wants it, and returns false when the process
// that writes it ended instead.
func await[T any](read func(string) (T, error), path string, exited <-chan struct{}, is func(T) bool) (now T, ok bool, err error) {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(startLimit)
	for {
		now, err = read(path)
		if err == nil && is(now) {
			return now, true, nil
		}
		select {
		case <-poll.C:
		case <-exited:
			return now, false, nil
		case <-limit:
			return now, false, errors.Join(fmt.Errorf("%s is not as it should be after %s: %+v", path, startLimit, now), err)
		}
	}
}

// PID returns the process's id.
func (c *child) PID() int { return c.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (c *child) Exited() <-chan struct{} { return c.exited }

// Killed reports whether the process was ended by SIGKILL. It waits for the end.
func (c *child) Killed() bool {
	if !c.ended() {
		return false
	}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Succeeded reports whether the process ended with exit code 0. It waits for the end.
func (c *child) Succeeded() bool {
	return c.ended() && c.cmd.ProcessState.ExitCode() == 0
}

// ended waits for the end, and reports whether it came in time.
func (c *child) ended() bool {
	select {
	case <-c.exited:
		return true
	case <-time.After(startLimit):
		return false
	}
}

// Output returns the output of the process since its last start.
func (c *child) Output() string { return c.out.String() }

// Terminate asks the process to stop, once: asked again it would end at once.
func (c *child) Terminate() error {
	if c.asked.Swap(true) {
		return nil
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stop asks the process to stop, and waits until it has, in order and in time.
func (c *child) Stop() error {
	if err := c.Terminate(); err != nil {
		return err
	}
	select {
	case <-c.exited:
	case <-time.After(stopLimit):
		return fmt.Errorf("%s does not stop within %s:\n%s", c.name, stopLimit, c.Output())
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s stopped with exit code %d:\n%s", c.name, code, c.Output())
	}
	return nil
}

// Kill ends the process with SIGKILL and waits for that. One that has ended already is
// left alone.
func (c *child) Kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	<-c.exited
}
