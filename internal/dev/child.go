package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"waypost/internal/admin"
	"waypost/internal/config"
)

// child is a waypost command that runs as a process of its own.
type child struct {
	cmd    *exec.Cmd
	status admin.Status
	done   chan struct{}
	exit   error // written before done is closed
}

func (c *child) PID() int              { return c.cmd.Process.Pid }
func (c *child) Done() <-chan struct{} { return c.done }

func (c *child) Err() error {
	<-c.done
	return c.exit
}

// Renew asks the child to restart.
func (c *child) Renew() error { return c.cmd.Process.Signal(syscall.SIGHUP) }

// Stop asks with SIGTERM; when ctx ends first, it kills, and that is an error.
func (c *child) Stop(ctx context.Context) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.done:
		return c.exit
	case <-ctx.Done():
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.done
	return fmt.Errorf("process %d did not stop in time and was killed", c.PID())
}

// startControl runs the control plane.
func (s *system) startControl(databaseURL string) func(context.Context) (process, error) {
	return func(ctx context.Context) (process, error) {
		settings := s.cfg.Settings
		c := &settings.Control
		c.Addr, c.FleetListen, c.AdminAddr = s.plan.control, s.plan.fleet, "127.0.0.1:0"
		c.Region, c.Regions = string(s.plan.edges[0].Region), s.plan.regions()
		c.BaseURL = s.plan.edgeURLs()[0]
		c.DatabaseURL, c.ClusterSecret, c.EdgeToken = config.Secret(databaseURL), s.secrets.cluster, s.secrets.edgeToken
		c.TrustedProxies = loopback
		c.AnonymousWorkspace = true
		c.StrictHosts = false // visitors ask an address of this machine
		c.DataDir = s.dir.Path("control")
		settings.Gossip = s.gossip(0)
		c.RateLimit = 0 // of one who measures on his own machine
		return s.startChild(ctx, "control", settings.Environ("control", "gossip", "cleanup", "log"), c.DataDir, "control")
	}
}

// startEdge runs an edge. Its directory, and so its identity, follows its region,
// whatever its address is this time.
func (s *system) startEdge(i int, e edge) func(context.Context) (process, error) {
	return func(ctx context.Context) (process, error) {
		settings := s.cfg.Settings
		c := &settings.Edge
		c.Addr, c.AdminAddr = []string{e.Addr}, "127.0.0.1:0"
		c.ProxyProtocol, c.DrainDelay = false, 0 // this process asks them itself, and stops them in order
		c.Region, c.Node = string(e.Region), ""
		c.ControlURLs = []string{s.plan.fleetURL()}
		c.Token = s.secrets.edgeToken
		c.DataDir = s.dir.Path("edges", string(e.Region))
		c.TrustedProxies = loopback
		c.StrictHosts = false
		settings.Gossip = s.gossip(1 + i)
		return s.startChild(ctx, "edge "+string(e.Region), settings.Environ("edge", "gossip", "log"), c.DataDir, "edge", "--region", c.Region)
	}
}

// gossip is the part of one process, which joins through all others.
func (s *system) gossip(i int) config.Gossip {
	return config.Gossip{
		Addr: s.plan.gossip[i], Key: s.secrets.gossipKey,
		Seeds: slices.Concat(s.plan.gossip[:i], s.plan.gossip[i+1:]),
	}
}

var loopback = []string{"127.0.0.0/8", "::1/128"}

// startChild runs the program with settings in its environment, where other users
// cannot see them, and returns once it has told its addresses.
func (s *system) startChild(ctx context.Context, name string, settings []string, dataDir string, args ...string) (process, error) {
	if err := os.Remove(filepath.Join(dataDir, admin.StatusFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("status of %s: %w", name, err)
	}
	out := s.out.named(name)
	c := &child{done: make(chan struct{})}
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), s.cfg.Executable, args...)
	c.cmd.Env = append(config.WithoutSettings(s.cfg.Environ), settings...)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.WaitDelay = outputTime
	// A process group of its own keeps Ctrl-C at the terminal from it, so that the
	// system stops in order; and it is killed when this process is.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go c.supervise(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := c.awaitStatus(ctx, dataDir); err != nil {
		if errors.Is(err, errEnded) {
			return nil, fmt.Errorf("%s ended while starting (%w): %s", name, c.Err(), strings.TrimPrefix(out.lastLine(), "waypost: "))
		}
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopEdges)
		defer cancel()
		return nil, errors.Join(err, c.Stop(limit))
	}
	return c, nil
}

// supervise starts the child and waits for it on one locked thread, because the
// kernel sends the parent-death signal when the thread that forked ends.
func (c *child) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	if c.exit = c.cmd.Wait(); errors.Is(c.exit, exec.ErrWaitDelay) {
		c.exit = nil // it ended in order; another process holds its output, or reading took too long
	}
	close(c.done)
}

// outputTime bounds the reading of a process's output after its end. It is added to the
// time that a process takes to stop.
const outputTime = 3 * time.Second

var errEnded = errors.New("the process has ended")

// awaitStatus waits until the child has told its addresses.
func (c *child) awaitStatus(ctx context.Context, dataDir string) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		status, err := admin.ReadStatus(dataDir)
		if err == nil {
			c.status = status
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return errEnded
		case <-poll.C:
		}
	}
}
