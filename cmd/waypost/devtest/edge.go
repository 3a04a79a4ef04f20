package devtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"waypost/cmd/waypost/internal/node"
)

// EdgeConfig says how an edge runs.
type EdgeConfig struct {
	Binary  string // default: Failing
	Control string // base URL of the control plane, as ControlConfig describes it
	DataDir string // of this edge alone
	Region  string
	Node    string
	Env     []string // further variables
}

// Edge is a `waypost edge` that was started as a process of its own.
type Edge struct {
	Node   string
	Addr   string // once Ready has said so
	cmd    *exec.Cmd
	status string
	out    *output
	exited chan struct{}
}

// StartEdge starts an edge, without waiting for it. It is killed when the test ends,
// should it still run then. Any goroutine may call it.
func StartEdge(t testing.TB, cfg EdgeConfig) (*Edge, error) {
	t.Helper()
	e := &Edge{Node: cfg.Node, status: filepath.Join(cfg.DataDir, "..", "status."+cfg.Node), out: &output{}, exited: make(chan struct{})}
	if err := os.Remove(e.status); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	binary := cfg.Binary
	if binary == "" {
		binary = Failing(t)
	}
	e.cmd = command(binary, append([]string{
		"WAYPOST_EDGE_CONTROL_URL=" + cfg.Control,
		"WAYPOST_EDGE_TOKEN=" + strings.Repeat("e", 32),
		"WAYPOST_EDGE_DATA_DIR=" + cfg.DataDir,
		"WAYPOST_EDGE_STATUS_FILE=" + e.status,
	}, cfg.Env...), "edge", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--region", cfg.Region, "--node", cfg.Node)
	e.cmd.Stdout, e.cmd.Stderr = e.out, e.out
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(e.exited)
		_ = e.cmd.Wait() // its outcome is in ProcessState
	}()
	t.Cleanup(e.Kill)
	return e, nil
}

// Ready waits until the edge answers, and gives false when it ended instead.
func (e *Edge) Ready() (bool, error) {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(startLimit)
	for {
		status, err := node.ReadStatus(e.status)
		if err == nil && status.PID == e.cmd.Process.Pid {
			e.Addr = status.Addr
			return true, nil
		}
		select {
		case <-poll.C:
		case <-e.exited:
			return false, nil
		case <-limit:
			return false, fmt.Errorf("edge %s is not ready after %s:\n%s", e.Node, startLimit, e.Output())
		}
	}
}

// Exited is closed when the process has ended.
func (e *Edge) Exited() <-chan struct{} { return e.exited }

// Killed reports whether the process was ended by SIGKILL. It waits for the end.
func (e *Edge) Killed() bool {
	<-e.exited
	status, ok := e.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Output is what the process wrote.
func (e *Edge) Output() string { return e.out.String() }

// Stop asks the process to stop, and waits until it has, in order and in time.
func (e *Edge) Stop() error {
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-e.exited:
	case <-time.After(stopLimit):
		return fmt.Errorf("edge %s does not stop within %s:\n%s", e.Node, stopLimit, e.Output())
	}
	if code := e.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("edge %s stopped with exit code %d:\n%s", e.Node, code, e.Output())
	}
	return nil
}

// Kill ends the process with SIGKILL and waits for that. One that has ended already is
// left alone.
func (e *Edge) Kill() {
	_ = e.cmd.Process.Kill() // it may be gone
	<-e.exited
}
