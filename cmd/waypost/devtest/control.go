package devtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"waypost/cmd/waypost/internal/node"
)

// ClusterSecret is the secret of every cluster that ControlConfig describes.
var ClusterSecret = [32]byte{31: 7}

// ControlConfig says how a control plane runs. It lets everybody in.
type ControlConfig struct {
	Binary   string // default: Failing
	Database string // its URL
	DataDir  string // of this control plane alone
	Region   string
	Node     string
	Env      []string // further WAYPOST_* variables
}

// Control is a `waypost control` that was started as a process of its own.
type Control struct {
	Node       string
	API, Admin string // base URLs, once Ready has said so
	cmd        *exec.Cmd
	status     string
	out        *output
	exited     chan struct{}
	asked      atomic.Bool // to stop
}

// StartControl starts a control plane, without waiting for it. It is killed when
// the test ends, should it still run then. Any goroutine may call it.
func StartControl(t testing.TB, cfg ControlConfig) (*Control, error) {
	t.Helper()
	c := &Control{Node: cfg.Node, status: filepath.Join(cfg.DataDir, "..", "status."+cfg.Node), out: &output{}, exited: make(chan struct{})}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(c.status); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	binary := cfg.Binary
	if binary == "" {
		binary = Failing(t)
	}
	c.cmd = command(binary, append([]string{
		"WAYPOST_CONTROL_DATABASE_URL=" + cfg.Database,
		"WAYPOST_CONTROL_CLUSTER_SECRET=" + fmt.Sprintf("%x", ClusterSecret),
		"WAYPOST_CONTROL_EDGE_TOKEN=" + strings.Repeat("e", 32),
		"WAYPOST_CONTROL_BASE_URL=https://go.example.com",
		"WAYPOST_CONTROL_ANONYMOUS_WORKSPACE=true",
		"WAYPOST_CONTROL_STATUS_FILE=" + c.status,
		"WAYPOST_CONTROL_DATA_DIR=" + cfg.DataDir,
	}, cfg.Env...), "control", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--region", cfg.Region, "--node", cfg.Node)
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // its outcome is in ProcessState
	}()
	t.Cleanup(c.Kill)
	return c, nil
}

// Ready waits until the control plane answers, and gives false when it ended instead.
func (c *Control) Ready() (bool, error) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(startLimit)
	for {
		status, err := node.ReadStatus(c.status)
		if err == nil && status.PID == c.cmd.Process.Pid {
			c.API, c.Admin = "http://"+status.Addr, "http://"+status.AdminAddr
			return true, nil
		}
		select {
		case <-poll.C:
		case <-c.exited:
			return false, nil
		case <-limit:
			return false, fmt.Errorf("control plane %s is not ready after %s:\n%s", c.Node, startLimit, c.Output())
		}
	}
}

// Exited is closed when the process has ended.
func (c *Control) Exited() <-chan struct{} { return c.exited }

// Killed reports whether the process was ended by SIGKILL. It waits for the end.
func (c *Control) Killed() bool {
	<-c.exited
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Succeeded reports whether the process ended with exit code 0. It waits for the end.
func (c *Control) Succeeded() bool {
	<-c.exited
	return c.cmd.ProcessState.ExitCode() == 0
}

// Output is what the process wrote.
func (c *Control) Output() string { return c.out.String() }

// Terminate asks the process to stop, once: asked again it would end at once.
func (c *Control) Terminate() error {
	if c.asked.Swap(true) {
		return nil
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stop asks the process to stop, and waits until it has, in order and in time.
func (c *Control) Stop() error {
	if err := c.Terminate(); err != nil {
		return err
	}
	select {
	case <-c.exited:
	case <-time.After(stopLimit):
		return fmt.Errorf("control plane %s does not stop within %s:\n%s", c.Node, stopLimit, c.Output())
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("control plane %s stopped with exit code %d:\n%s", c.Node, code, c.Output())
	}
	return nil
}

// Kill ends the process with SIGKILL and waits for that. One that has ended
// already is left alone.
func (c *Control) Kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	<-c.exited
}
