//go:build linux

// Package devsystem runs a whole system for a benchmark, as `waypost dev` starts it: PostgreSQL,
// a control plane and edges of two regions, each a process of its own. It measures nothing
// but the memory of processes.
package devsystem

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// System is a development system that runs, and the command that it was started with.
type System struct {
	Binary, DataDir string
	State           State

	process *exec.Cmd
	ended   chan error
}

// State is what dev.json tells of it.
type State struct {
	API         string `json:"api"`
	APIKey      string `json:"api_key"`
	DatabaseURL string `json:"database_url"`
	Postgres    struct {
		PID int `json:"pid"`
	} `json:"postgres"`
	Control struct {
		PID      int    `json:"pid"`
		AdminURL string `json:"admin_url"`
	} `json:"control"`
	Edges []struct {
		PID      int    `json:"pid"`
		URL      string `json:"url"`
		AdminURL string `json:"admin_url"`
	} `json:"edges"`
}

const startTime = time.Minute

// Start builds the command and starts a system with it, in directories of dir, and waits until
// it is ready. Stop ends it.
func Start(ctx context.Context, dir, name string) (_ *System, err error) {
	s := &System{Binary: filepath.Join(dir, "waypost"), DataDir: filepath.Join(dir, name), ended: make(chan error, 1)}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.Binary, "waypost/cmd/waypost")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the command: %w\n%s", err, out)
	}
	s.process = exec.Command(s.Binary, "dev", "--data-dir", s.DataDir, "--control-addr", "127.0.0.1:0", "--edges", "us-east-1=127.0.0.1:0,eu-west-1=127.0.0.1:0")
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("starting the system: %w", err)
	}
	go func() { s.ended <- s.process.Wait() }()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(startTime); ; {
		text, err := os.ReadFile(filepath.Join(s.DataDir, "dev.json"))
		if err == nil && json.Unmarshal(text, &s.State) == nil && len(s.State.Edges) == 2 && s.State.Edges[0].AdminURL != "" && s.State.Edges[1].AdminURL != "" {
			return s, nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			said, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("the system has ended: %w\n%s", err, said)
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), s.Stop())
		case <-poll.C:
		}
		if time.Now().After(end) {
			return nil, errors.Join(errors.New("the system was not ready in time"), s.Stop())
		}
	}
}

// Stop ends the system in order.
func (s *System) Stop() error {
	if err := s.process.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the system: %w", err)
	}
	return <-s.ended
}

// position is where a node stands in the changelog.
func position(ctx context.Context, admin string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/readyz", http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking where a node stands: %w", err)
	}
	var detail struct{ Position string }
	err = json.NewDecoder(res.Body).Decode(&detail)
	return detail.Position, errors.Join(err, res.Body.Close())
}

// AwaitEdges waits until both edges are where the control plane is.
func (s *System) AwaitEdges(ctx context.Context) error {
	head, err := position(ctx, s.State.Control.AdminURL)
	if err != nil {
		return err
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for _, e := range s.State.Edges {
		for {
			at, err := position(ctx, e.AdminURL)
			if err != nil {
				return err
			}
			if at == head {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-poll.C:
			}
		}
	}
	return nil
}

// Peak is the most memory that a process has ever held, in MB.
func Peak(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "VmHWM:" {
			kb, err := strconv.ParseFloat(fields[1], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("the kernel does not tell a process's memory")
}

// Used is the user and system time that the processes of a system have used, and this
// program.
type Used struct{ Postgres, Control, Edges, Own time.Duration }

// Since is what has been used since an earlier reading.
func (u Used) Since(before Used) Used {
	return Used{u.Postgres - before.Postgres, u.Control - before.Control, u.Edges - before.Edges, u.Own - before.Own}
}

// Total is that of all processes.
func (u Used) Total() time.Duration { return u.Postgres + u.Control + u.Edges + u.Own }

// CPU reads what was used. What a process of PostgreSQL used that has ended since is lost;
// those that serve connections do not end meanwhile.
func (s *System) CPU() (u Used, err error) {
	if u.Own, err = OwnCPU(); err != nil {
		return u, err
	}
	if u.Control, err = cpuOf(s.State.Control.PID); err != nil {
		return u, err
	}
	for _, e := range s.State.Edges {
		one, err := cpuOf(e.PID)
		if err != nil {
			return u, err
		}
		u.Edges += one
	}
	pids := []int{s.State.Postgres.PID}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.State.Postgres.PID))
	if err != nil {
		return u, fmt.Errorf("looking for the processes of PostgreSQL: %w", err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return u, fmt.Errorf("looking for the processes of PostgreSQL: %w", err)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		one, err := cpuOf(pid)
		if err != nil {
			return u, err
		}
		u.Postgres += one
	}
	return u, nil
}

// cpuOf is what a process has used, 0 when it has ended.
func cpuOf(pid int) (time.Duration, error) {
	// The clock of another process: clock_getcpuclockid(3).
	const scheduled = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &ts); err != nil && !errors.Is(err, unix.EINVAL) {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// OwnCPU is what this program has used.
func OwnCPU() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("reading CPU time: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
