//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// callNames are the system calls that are counted by name. To count every one would take perf many seconds to begin and
// to end.
var callNames = []string{
	"recvfrom", "read", "readv", "recvmsg", "sendto", "write", "writev", "sendmsg",
	"epoll_pwait", "epoll_wait", "epoll_ctl", "futex", "nanosleep", "clock_nanosleep", "sched_yield", "tgkill", "rt_sigreturn", "getpid",
	"accept4", "close", "setsockopt", "shutdown", "openat", "pread64", "pwrite64", "fsync", "fdatasync", "mmap", "munmap", "madvise",
}

const (
	allCalls   = "raw_syscalls:sys_enter"
	namedCalls = "syscalls:sys_enter_"
)

// traceDirs are where the kernel shows which calls can be counted.
var traceDirs = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// callEvents gives those events of perf that there are on this machine.
func callEvents() (events []string, err error) {
	for _, dir := range traceDirs {
		for _, name := range callNames {
			if _, err := os.Stat(filepath.Join(dir, "events/syscalls/sys_enter_"+name)); err == nil {
				events = append(events, namedCalls+name)
			}
		}
		if events != nil {
			return append(events, allCalls), nil
		}
	}
	return nil, errors.New("the kernel shows no tracepoints of system calls: is tracefs mounted, and may this user read it?")
}

// calls are numbers of system calls by name, with the ones that were not counted by name as otherCalls.
type calls map[string]int64

const otherCalls = "others"

// errCannotCount says that this machine does not let system calls be counted.
var errCannotCount = errors.New("system calls cannot be counted")

// countCalls counts the system calls of a process while something is done. perf reads counters of the
// kernel, which costs the process next to nothing: strace would stop it at each call, and what it finds ready after that is not
// what it would have found. The error is errCannotCount when there is no perf, or it may not count; then nothing is done.
func countCalls(ctx context.Context, pid int, do func() error) (_ calls, err error) {
	if _, err := exec.LookPath("perf"); err != nil {
		return nil, fmt.Errorf("%w: deploy/install-missing.sh perf installs what is missing: %w", errCannotCount, err)
	}
	events, err := callEvents()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotCount, err)
	}
	// perf counts for as long as its command runs. This one answers once it does, until its input ends.
	cmd := exec.CommandContext(ctx, "perf", "stat", "-x,", "-e", strings.Join(events, ","), "-p", strconv.Itoa(pid), "--", "cat")
	var report bytes.Buffer
	cmd.Stderr = &report
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting perf: %w", err)
	}
	_, err = io.WriteString(in, "begun\n")
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errCannotCount, err), in.Close(), cmd.Wait(), errors.New(report.String()))
	}
	if err := errors.Join(do(), in.Close(), cmd.Wait()); err != nil {
		return nil, fmt.Errorf("counting system calls: %w", err)
	}
	return parseCalls(report.Bytes())
}

// parseCalls reads what perf stat -x, writes: a count, a unit, an event, and more.
func parseCalls(report []byte) (calls, error) {
	counted, total := calls{}, int64(-1)
	for lines := bufio.NewScanner(bytes.NewReader(report)); lines.Scan(); {
		fields := strings.Split(lines.Text(), ",")
		if len(fields) < 3 {
			continue
		}
		event, named := strings.CutPrefix(fields[2], namedCalls)
		if !named && event != allCalls {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("perf counted %s of %s", fields[0], event)
		}
		if named {
			counted[event] = n
		} else {
			total = n
		}
	}
	if total < 0 {
		return nil, fmt.Errorf("perf counted nothing: %.300s", report)
	}
	others := total
	for _, n := range counted {
		others -= n
	}
	counted[otherCalls] = max(0, others) // the counters are not read all at once
	return counted, nil
}
