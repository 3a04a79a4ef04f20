//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpu is the user and system time that the target's processes have used, ended
// threads included. It is what /proc tells in hundredths of a second, unrounded.
func (t *target) cpu() (total time.Duration, err error) {
	for _, pid := range t.pids {
		// The clock of another process: clock_getcpuclockid(3).
		const scheduled = 2
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &ts); err != nil {
			return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
		}
		total += time.Duration(ts.Nano())
	}
	return total, nil
}

// memory is what the target's processes hold in memory, in bytes. Pages that they share
// count once: the kernel's proportional set size.
func (t *target) memory() (total int64, err error) {
	for _, pid := range t.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, fmt.Errorf("reading the memory of a process: %w", err)
		}
		kb, err := kilobytes(text, "Pss:")
		if err != nil {
			return 0, err
		}
		total += kb << 10
	}
	return total, nil
}

// kilobytes reads a line like "Pss:   12 kB".
func kilobytes(text []byte, name string) (int64, error) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s", name)
}

// steadyMemory is the memory once it has stopped growing, as it does when nothing
// is loaded in the background any more.
func (l *lab) steadyMemory(ctx context.Context, t *target) (int64, error) {
	const still = 4
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	before, same := int64(0), 0
	for end := time.Now().Add(time.Minute); ; {
		now, err := t.memory()
		if err != nil {
			return 0, err
		}
		if d := now - before; d < 1<<20+now/500 && d > -(1<<20+now/500) {
			same++
		} else {
			same = 0
		}
		before = now
		if same >= still || time.Now().After(end) {
			return now, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// childrenOf gives the processes that a process has started.
func childrenOf(pid int) (pids []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, fmt.Errorf("looking for the children of process %d: %w", pid, err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("looking for the children of process %d: %w", pid, err)
		}
		pids = append(pids, child)
	}
	return pids, nil
}
