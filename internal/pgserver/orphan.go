package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clearOrphans ends the processes that a killed predecessor left in the cluster and
// removes its lock files. The caller holds the directory's lock, so no other process
// supervises them; their remains would keep PostgreSQL from starting, or would seem to if
// a process id was reused.
func clearOrphans(ctx context.Context, data, sockets string, log *slog.Logger) error {
	// A postmaster first gets the signal for a clean end, and ends its backends. A
	// backend without a postmaster obeys only the later signals.
	for _, step := range []struct {
		signal unix.Signal
		within time.Duration
	}{
		{unix.SIGINT, 8 * time.Second},
		{unix.SIGQUIT, 3 * time.Second},
		{unix.SIGKILL, 5 * time.Second},
	} {
		pids, err := orphans(data)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return clearLocks(ctx, data, sockets, log)
		}
		log.Warn("stopping what a killed PostgreSQL left behind", "pids", pids, "signal", step.signal.String())
		for _, pid := range pids {
			if err := unix.Kill(pid, step.signal); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("stop orphaned PostgreSQL process %d: %w", pid, err)
			}
		}
		if err := awaitNone(ctx, data, step.within); err != nil {
			return err
		}
	}
	pids, err := orphans(data)
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("processes %v still use %s and do not end: stop them", pids, data)
	}
	if err != nil {
		return err
	}
	return clearLocks(ctx, data, sockets, log)
}

// clearLocks waits for the shared memory of a PostgreSQL without processes, and removes
// its lock files.
func clearLocks(ctx context.Context, data, sockets string, log *slog.Logger) error {
	if err := awaitMemory(ctx, data, log); err != nil {
		return err
	}
	return removeStale(data, sockets)
}

// awaitNone returns when no orphan is left, or when the time is over.
func awaitNone(ctx context.Context, data string, within time.Duration) error {
	return await(ctx, "orphaned PostgreSQL processes", within, func() (bool, error) {
		pids, err := orphans(data)
		return len(pids) == 0, err
	})
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
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return "", false
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return "", false
	}
	fields := strings.Fields(lines[6])
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

// orphans returns the processes of a PostgreSQL that works in data: each of them
// has it as its current directory. The postmaster, which is the oldest, is first.
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
	slices.Sort(pids)
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
