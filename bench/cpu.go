//go:build linux

package bench

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the time that processors have spent on this process and on each process of a
// PostgreSQL.
type CPU struct {
	Self     time.Duration
	Postgres map[int]time.Duration // by process
}

// CPUTime reads it. What a process of PostgreSQL that has ended used since it was last read
// is lost; those that serve connections do not end.
func CPUTime(postgres int) (c CPU, err error) {
	c.Postgres = make(map[int]time.Duration)
	pids, err := childrenOf(postgres)
	if err != nil {
		return c, err
	}
	for _, pid := range append(pids, postgres) {
		// The clock of another process: clock_getcpuclockid(3).
		const scheduled = 2
		used, err := clock(int32(^pid)<<3 | scheduled)
		if errors.Is(err, unix.EINVAL) {
			continue // ended meanwhile
		}
		if err != nil {
			return c, err
		}
		c.Postgres[pid] = used
	}
	c.Self, err = clock(unix.CLOCK_PROCESS_CPUTIME_ID)
	return c, err
}

// Since gives what was spent since an earlier moment.
func (c CPU) Since(before CPU) (self, postgres time.Duration) {
	for pid, used := range c.Postgres {
		postgres += used - before.Postgres[pid]
	}
	return c.Self - before.Self, postgres
}

func clock(id int32) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, fmt.Errorf("reading CPU time: %w", err)
	}
	return time.Duration(ts.Nano()), nil
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
