package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphansWithin limits the time that killed processes take to end.
const orphansWithin = 10 * time.Second

// clearOrphans kills the processes that a killed predecessor left in the cluster and
// removes its lock files. The caller holds the directory's lock, so no other process
// supervises them; their remains would keep PostgreSQL from starting, or would seem to if
// a process id was reused. PostgreSQL recovers at its start.
func clearOrphans(ctx context.Context, data, sockets string, log *slog.Logger) error {
	var left []int
	told := false
	err := await(ctx, "orphaned PostgreSQL processes", orphansWithin, func() (done bool, err error) {
		if left, err = orphans(data); err != nil || len(left) == 0 {
			return true, err
		}
		if !told {
			log.Warn("killing what a killed PostgreSQL left behind", "pids", left)
			told = true
		}
		for _, pid := range left {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, fmt.Errorf("stop orphaned PostgreSQL process %d: %w", pid, err)
			}
		}
		return false, nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("processes %v still use %s and do not end: stop them", left, data)
	}
	if err != nil {
		return err
	}
	if err := awaitMemory(ctx, data, log); err != nil {
		return err
	}
	return removeStale(data, sockets)
}

// await polls done until it returns true or an error, or the time is over.
func await(ctx context.Context, what string, within time.Duration, done func() (bool, error)) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(within)
	for {
		if is, err := done(); err != nil || is {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-limit:
			return nil
		case <-poll.C:
		}
	}
}

// memoryWithin limits the time that the kernel takes to unmap a killed process's memory.
const memoryWithin = 30 * time.Second

// awaitMemory returns when no process has the cluster's shared memory any longer: a
// process that ends is unmapped after it has lost its name in /proc, and on a busy
// machine much later. PostgreSQL does not start before. If the wait takes too long,
// PostgreSQL itself reports the error.
func awaitMemory(ctx context.Context, data string, log *slog.Logger) error {
	id, ok := sharedMemory(data)
	if !ok || attached(id) == 0 {
		return nil
	}
	log.Warn("waiting for the shared memory of a killed PostgreSQL", "id", id)
	return await(ctx, "the shared memory of a PostgreSQL that was killed", memoryWithin, func() (bool, error) {
		return attached(id) == 0, nil
	})
}

// sharedMemory returns the identifier of the shared memory of the PostgreSQL that ran
// last, which is the second number in the seventh line of postmaster.pid.
func sharedMemory(data string) (id string, ok bool) {
	fields := strings.Fields(lockLine(data, 7))
	if len(fields) != 2 {
		return "", false
	}
	return fields[1], true
}

// attached counts the processes that have a segment of shared memory; 0 if the segment is
// gone or the count cannot be read. See proc_sysvipc(5): the identifier is in the second
// column, the count in the seventh.
func attached(id string) int {
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[1] == id {
			n, _ := strconv.Atoi(fields[6])
			return n
		}
	}
	return 0
}

// orphans returns the processes of a PostgreSQL that works in data: each of them has it
// as its current directory.
func orphans(data string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for orphaned PostgreSQL processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// Unreadable: the process has ended, or belongs to another user, who cannot be in
		// data.
		cwd, err1 := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		exe, err2 := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err1 != nil || err2 != nil || cwd != data {
			continue
		}
		// The kernel marks a binary that a package upgrade has replaced.
		if filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == "postgres" {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// removeStale takes away the lock files of a PostgreSQL that is gone. It judges
// them by process id alone, and in a container the id is soon used again.
func removeStale(data, sockets string) error {
	socket := filepath.Join(sockets, ".s.PGSQL."+socketPort)
	for _, name := range []string{filepath.Join(data, "postmaster.pid"), socket + ".lock", socket} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale lock of PostgreSQL: %w", err)
		}
	}
	return nil
}
