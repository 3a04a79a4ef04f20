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

// child is a node that was started as a process of its own.
type child struct {
	name   string // what it is, and which
	cmd    *exec.Cmd
	status string // the file that it writes once it is ready
	out    *output
	exited chan struct{}
	asked  atomic.Bool // to stop
}

func (c *child) describe(kind, node, dataDir string) {
	c.name, c.status = kind+" "+node, filepath.Join(dataDir, "..", "status."+node)
	c.exited = make(chan struct{})
}

// start runs the binary, by default the one that has failpoints. It is killed when the
// test ends.
func (c *child) start(t testing.TB, binary string, env []string, args ...string) error {
	if err := os.Remove(c.status); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if binary == "" {
		binary = Failing(t)
	}
	c.cmd = command(binary, env, args...)
	c.out = newOutput(t)
	c.cmd.Stdout, c.cmd.Stderr = c.out.file, c.out.file
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // its outcome is in ProcessState
	}()
	t.Cleanup(c.Kill)
	return nil
}

// ready waits until the process answers, and returns false when it ended instead.
func (c *child) ready() (s admin.Status, ok bool, err error) {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(startLimit)
	for {
		status, err := admin.ReadStatus(c.status)
		if err == nil && status.PID == c.cmd.Process.Pid {
			return status, true, nil
		}
		select {
		case <-poll.C:
		case <-c.exited:
			return s, false, nil
		case <-limit:
			return s, false, fmt.Errorf("%s is not ready after %s:\n%s", c.name, startLimit, c.Output())
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

// Output returns what the process wrote.
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
