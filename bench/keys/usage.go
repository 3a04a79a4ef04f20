//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what this program and PostgreSQL have used up to some moment.
type usage struct {
	at          time.Time
	cpu         time.Duration
	allocations uint64
	postgres    map[int]time.Duration // by process
}

// use reads the usage. What a process of PostgreSQL that has ended used since it was
// last read is lost; those that serve connections do not end.
func (d *database) use() (usage, error) {
	u := usage{postgres: make(map[int]time.Duration)}
	pids, err := childrenOf(d.server.PID())
	if err != nil {
		return u, err
	}
	for _, pid := range append(pids, d.server.PID()) {
		// The clock of another process: clock_getcpuclockid(3).
		const scheduled = 2
		used, err := clock(int32(^pid)<<3 | scheduled)
		if errors.Is(err, unix.EINVAL) {
			continue // ended meanwhile
		}
		if err != nil {
			return u, err
		}
		u.postgres[pid] = used
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.allocations = memory.Mallocs
	u.cpu, err = clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	u.at = time.Now()
	return u, err
}

func clock(id int32) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, fmt.Errorf("reading CPU time: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// spent is what one thing cost in a round.
type spent struct {
	wall, cpu, postgres float64 // nanoseconds
	allocations         float64
}

// since divides what was used since an earlier moment by the number of things done.
func (u usage) since(before usage, things int64) spent {
	var postgres time.Duration
	for pid, used := range u.postgres {
		postgres += used - before.postgres[pid]
	}
	per := func(n float64) float64 { return n / float64(things) }
	return spent{
		wall:        per(float64(u.at.Sub(before.at))),
		cpu:         per(float64(u.cpu - before.cpu)),
		postgres:    per(float64(postgres)),
		allocations: per(float64(u.allocations - before.allocations)),
	}
}

// childrenOf gives the processes that a process has started.
func childrenOf(pid int) (pids []int, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("looking for the children of process %d: %w", pid, err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
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
	}
	return pids, nil
}
