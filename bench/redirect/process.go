package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// serverProcess is a server that runs as a child.
type serverProcess struct {
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// startServer starts this program as a server and waits for its address.
func startServer(ctx context.Context, args ...string) (*serverProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{partServe}, args...)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	p := &serverProcess{cmd: cmd, in: in, out: bufio.NewReader(out)}
	p.addr, err = p.line()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), p.stop())
	}
	return p, nil
}

func (p *serverProcess) line() (string, error) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// cpu asks for the CPU time that the server has used.
func (p *serverProcess) cpu() (time.Duration, error) {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return 0, fmt.Errorf("asking a server for its CPU time: %w", err)
	}
	line, err := p.line()
	if err != nil {
		return 0, fmt.Errorf("reading a server's CPU time: %w", err)
	}
	us, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a server's CPU time: %w", err)
	}
	return time.Duration(us) * time.Microsecond, nil
}

// stop ends the server and waits for it.
func (p *serverProcess) stop() error {
	err := p.in.Close()
	if err := errors.Join(err, p.cmd.Wait()); err != nil {
		return fmt.Errorf("stopping a server: %w", err)
	}
	return nil
}

// runLoad runs one round of load and gives the number of requests answered.
func runLoad(ctx context.Context, c loadConfig) (int64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, c.args()...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("running the client: %w", err)
	}
	requests, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the client's count: %w", err)
	}
	if requests == 0 {
		return 0, errors.New("the client got no answer at all")
	}
	return requests, nil
}
