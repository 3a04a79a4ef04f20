//go:build linux

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"waypost/internal/dev"
)

// System is a whole system as `waypost dev` starts it: PostgreSQL, a control plane and
// edges of two regions, each a process.
type System struct {
	Binary, DataDir string
	State           dev.State

	process *exec.Cmd
}

// BuildWaypost builds the command in a directory.
func BuildWaypost(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "waypost")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "waypost/cmd/waypost")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return binary, nil
}

// StartSystem starts a system in a directory, on a list of processors or with "" on those
// of this process, and waits until it is ready. Stop ends it.
func StartSystem(ctx context.Context, processors, binary, dir string) (_ *System, err error) {
	s := &System{Binary: binary, DataDir: filepath.Join(dir, "system")}
	s.process = Command(processors, binary, "dev", "--data-dir", s.DataDir, "--control-addr", "127.0.0.1:0",
		"--edges", "us-east-1=127.0.0.1:0,eu-west-1=127.0.0.1:0")
	log, err := os.Create(filepath.Join(dir, "system.log"))
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("start the system: %w", err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		s.State, err = dev.ReadState(s.DataDir)
		if err == nil && len(s.State.Edges) == 2 && s.State.Edges[0].AdminURL != "" && s.State.Edges[1].AdminURL != "" {
			return s, nil
		}
	}
	text, _ := os.ReadFile(log.Name()) // without it the error stands alone
	return nil, errors.Join(fmt.Errorf("the system is not ready: %.5000s", text), ctx.Err(), s.Stop())
}

// Stop ends the system in order.
func (s *System) Stop() error {
	if err := s.process.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the system: %w", err)
	}
	return s.process.Wait()
}

// CPU reads the time of the control plane, the edges, this process, and PostgreSQL's
// processes.
func (s *System) CPU() (product, postgres CPU, err error) {
	product, err1 := CPUTime(os.Getpid(), int(s.State.Control.PID), int(s.State.Edges[0].PID), int(s.State.Edges[1].PID))
	postgres, err2 := PostgresCPU(int(s.State.Postgres.PID))
	return product, postgres, errors.Join(err1, err2)
}

// PostgresCPU reads the time of a PostgreSQL and its processes.
func PostgresCPU(pid int) (CPU, error) {
	pids, err := Children(pid)
	if err != nil {
		return nil, err
	}
	return CPUTime(append(pids, pid)...)
}

// AwaitEdges waits until both edges have the position of the control plane.
func (s *System) AwaitEdges(ctx context.Context) error {
	head, err := position(ctx, s.State.Control.AdminURL)
	if err != nil {
		return err
	}
	for _, e := range s.State.Edges {
		for at := ""; at != head; time.Sleep(5 * time.Millisecond) {
			if at, err = position(ctx, e.AdminURL); err != nil {
				return err
			}
		}
	}
	return nil
}

// position asks a node for its position in the changelog.
func position(ctx context.Context, admin string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/readyz", http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask a node for its position: %w", err)
	}
	var detail struct{ Position string }
	err = json.NewDecoder(res.Body).Decode(&detail)
	return detail.Position, errors.Join(err, res.Body.Close())
}
