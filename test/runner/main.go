// Command runner runs a test binary for `go test -json -exec` and ends it when it hangs.
//
// A binary hangs when it writes nothing for the time in TEST_SILENCE (default 2m), in
// which the seconds that the whole machine stands still do not count. It is asked for the
// stacks of all its goroutines with SIGQUIT, the tests that hung are reported as failed,
// and tests that had not begun run in a new process.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	defaultSilence = 2 * time.Minute
	// dumpLimit bounds the time in which the process writes its stacks.
	dumpLimit = 10 * time.Second
	// mark precedes each line about a test, as in -test.v=test2json.
	mark = "\x16"
)

func main() {
	silence := defaultSilence
	if text := os.Getenv("TEST_SILENCE"); text != "" {
		var err error
		if silence, err = time.ParseDuration(text); err != nil {
			fmt.Fprintln(os.Stderr, "TEST_SILENCE:", err)
			os.Exit(2)
		}
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: runner BINARY [ARGUMENT ...]")
		os.Exit(2)
	}
	os.Exit(runAll(os.Args[1:], silence, os.Stdout))
}

// runAll runs the binary until all its tests have run, and returns the exit code.
func runAll(args []string, silence time.Duration, out io.Writer) int {
	code := 0
	var skip []string
	for {
		r := &run{out: out}
		exit, hung, err := r.run(append(slices.Clip(args), skipping(skip)...), silence)
		if err != nil {
			fmt.Fprintln(os.Stderr, "runner:", err)
			return 2
		}
		if !hung {
			return max(code, exit)
		}
		code = 1
		hanging := r.hanging()
		if len(hanging) == 0 {
			fmt.Fprintf(out, "\nThe test binary wrote nothing for %s while no test ran.\n", silence)
			return code
		}
		for _, name := range hanging {
			fmt.Fprintf(out, "\n%s=== NAME  %s\nhangs: nothing was written for %s\n%s--- FAIL: %s (%.2fs)\n", mark, name, silence, mark, name, silence.Seconds())
		}
		skip = append(append(skip, r.ended...), hanging...)
	}
}

func skipping(tests []string) []string {
	if len(tests) == 0 {
		return nil
	}
	quoted := make([]string, len(tests))
	for i, name := range tests {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return []string{"-test.skip=^(" + strings.Join(quoted, "|") + ")$"}
}

// run is one process of the test binary.
type run struct {
	out io.Writer

	mu      sync.Mutex
	silent  time.Duration // grows by a second at each tick without output
	line    []byte        // the line that is not complete yet
	running []string      // top-level tests that have begun and neither paused nor ended
	ended   []string
}

func (r *run) run(args []string, silence time.Duration) (exit int, hung bool, err error) {
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it ends below
	cmd.Stdout, cmd.Stderr = r, r
	cmd.WaitDelay = dumpLimit // processes that the test left may hold its output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	// The death signal comes when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	kill := make(<-chan time.Time)
	for {
		select {
		case err := <-ended:
			return code(cmd, err), hung, nil
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have ended
		case <-tick.C: // ticks of a machine that stood still come as one
			if !hung && r.silentFor(time.Second) >= silence {
				hung = true
				_ = cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
				kill = time.After(dumpLimit)
			}
		case <-kill:
			_ = cmd.Process.Kill() // it may have ended
		}
	}
}

func code(cmd *exec.Cmd, err error) int {
	if c := cmd.ProcessState.ExitCode(); c >= 0 && (err == nil || c > 0 || errors.Is(err, exec.ErrWaitDelay)) {
		return c
	}
	return 1
}

func (r *run) silentFor(more time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent += more
	return r.silent
}

func (r *run) hanging() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.running)
}

// Write passes the output on and notes which tests run.
func (r *run) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.silent = 0
	for rest := p; len(rest) > 0; {
		before, after, complete := bytes.Cut(rest, []byte("\n"))
		r.line = append(r.line, before...)
		if complete {
			r.printLine(string(r.line))
			r.line = r.line[:0]
		}
		rest = after
	}
	r.mu.Unlock()
	return r.out.Write(p)
}

var event = regexp.MustCompile(mark + `(=== RUN  |=== CONT |=== PAUSE|--- PASS:|--- FAIL:|--- SKIP:) +([^ /]+)(?: \(.*)?$`)

// printLine reads a line such as "=== RUN   TestX" of a top-level test.
func (r *run) printLine(line string) {
	m := event.FindStringSubmatch(line)
	if m == nil {
		return
	}
	name := m[2]
	r.running = slices.DeleteFunc(r.running, func(other string) bool { return other == name })
	switch m[1] {
	case "=== RUN  ", "=== CONT ":
		r.running = append(r.running, name)
	case "=== PAUSE":
	default:
		r.ended = append(r.ended, name)
	}
}
