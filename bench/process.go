//go:build linux

package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the user and system time that processes have used, by process.
type CPU map[int]time.Duration

// CPUTime reads the time of processes, except processes that have ended.
func CPUTime(pids ...int) (CPU, error) {
	c := make(CPU, len(pids))
	for _, pid := range pids {
		// The clock of another process: clock_getcpuclockid(3).
		const scheduled = 2
		var ts unix.Timespec
		err := unix.ClockGettime(int32(^pid)<<3|scheduled, &ts)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return nil, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		if err == nil {
			c[pid] = time.Duration(ts.Nano())
		}
	}
	return c, nil
}

// Since adds up the time that was used since an earlier moment. It misses processes that
// have ended; processes that serve connections do not end.
func (c CPU) Since(before CPU) (total time.Duration) {
	for pid, used := range c {
		total += used - before[pid]
	}
	return total
}

// Children returns the processes that a process has started.
func Children(pid int) (pids []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return nil, fmt.Errorf("find the children of process %d: %w", pid, err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("find the children of process %d: %w", pid, err)
		}
		pids = append(pids, child)
	}
	return pids, nil
}

// Memory returns the bytes of memory that processes hold. Pages that they share count
// once: the kernel's proportional set size.
func Memory(pids ...int) (total int64, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, fmt.Errorf("read the memory of a process: %w", err)
		}
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		var kb int64
		if _, err := fmt.Sscan(rest, &kb); err != nil {
			return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
		}
		total += kb << 10
	}
	return total, nil
}

// DiskBytes adds up the sizes of the files below a directory.
func DiskBytes(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a compaction has removed it
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("add up file sizes: %w", err)
	}
	return total, nil
}

// Processors are lists for taskset: the measured server has one processor, and its
// clients have all others, so that neither waits for the other. On a machine with one
// processor both share it.
type Processors struct {
	All, Server string
	Apart       bool // server and clients have no processor in common
}

// Split starts this program again on the processors of the clients, with all that it
// starts from then on, and returns the processors there.
func Split() (Processors, error) {
	const mark = "WAYPOST_BENCH_PROCESSORS"
	if list := strings.Split(os.Getenv(mark), " "); len(list) == 3 {
		return Processors{All: list[0], Server: list[1], Apart: list[1] != list[2]}, nil
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return Processors{}, fmt.Errorf("read the processors: %w", err)
	}
	var all []string
	for cpu := range 64 * len(set) {
		if set.IsSet(cpu) {
			all = append(all, strconv.Itoa(cpu))
		}
	}
	last := len(all) - 1
	server, clients := all[last], strings.Join(all[:max(1, last)], ",")
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return Processors{}, fmt.Errorf("choose processors: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return Processors{}, fmt.Errorf("find this program: %w", err)
	}
	// A client that never sleeps holds one of the Go runtime's processors, so that there
	// are some more than the system has.
	env := append(os.Environ(), mark+"="+strings.Join([]string{strings.Join(all, ","), server, clients}, " "),
		"GOMAXPROCS="+strconv.Itoa(len(all)+4))
	err = syscall.Exec(taskset, append([]string{"taskset", "-c", clients, self}, os.Args[1:]...), env)
	return Processors{}, fmt.Errorf("choose processors: %w", err)
}

// Command returns a command that will have the processors of a list; "" stands for those
// of this process.
func Command(processors, name string, args ...string) *exec.Cmd {
	if processors != "" {
		name, args = "taskset", append([]string{"-c", processors, name}, args...)
	}
	cmd := exec.Command(name, args...)
	if processors != "" { // this process has more of the Go runtime's processors than the system
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOMAXPROCS=") })
	}
	return cmd
}
