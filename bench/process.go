//go:build linux

package bench

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

// CPU is the user and system time that processes have used, by process.
type CPU map[int]time.Duration

// CPUTime reads the time of processes; those that have ended are left out.
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

// Since adds up the time that was used since an earlier moment. Processes that have
// ended meanwhile are lost; those that serve connections do not end.
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
		kb, err := kilobytes(pid, "smaps_rollup", "Pss:")
		if err != nil {
			return 0, err
		}
		total += kb << 10
	}
	return total, nil
}

// PeakMemory returns the most bytes that a process has ever held.
func PeakMemory(pid int) (int64, error) {
	kb, err := kilobytes(pid, "status", "VmHWM:")
	return kb << 10, err
}

// kilobytes reads a line like "Pss:   12 kB" from a file of a process in /proc.
func kilobytes(pid int, file, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, name)
}

// Processors assigns the measured server one processor, and its clients all others, so
// that neither waits for the other. On a machine with one processor both share it.
type Processors struct{ all, server, clients unix.CPUSet }

// Split chooses the processors, and moves this process to those of the clients, with
// all that it starts from now on, until restore is called.
func Split() (p *Processors, restore func() error, err error) {
	p = &Processors{}
	if err := unix.SchedGetaffinity(0, &p.all); err != nil {
		return nil, nil, fmt.Errorf("read the processors: %w", err)
	}
	last := 0
	for cpu := range 64 * len(p.all) {
		if p.all.IsSet(cpu) {
			last = cpu
		}
	}
	p.server.Set(last)
	p.clients = p.all
	if p.Apart() {
		p.clients.Clear(last)
	}
	// A client that never sleeps holds one of the Go runtime's processors, so that there
	// are some more than the system has.
	const more = 4
	if err := move(&p.clients); err != nil {
		return nil, nil, errors.Join(err, move(&p.all))
	}
	runtime.GOMAXPROCS(p.all.Count() + more)
	return p, func() error {
		runtime.SetDefaultGOMAXPROCS()
		return move(&p.all)
	}, nil
}

// Apart reports whether server and clients have no processor in common.
func (p *Processors) Apart() bool { return p.all.Count() > 1 }

// Start calls start, so that the process that it starts has the server's processor.
func (p *Processors) Start(start func() error) error { return onProcessors(&p.server, start) }

// OnAll calls start, so that the processes that it starts have all processors.
func (p *Processors) OnAll(start func() error) error { return onProcessors(&p.all, start) }

func onProcessors(set *unix.CPUSet, start func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.SchedSetaffinity(0, set); err != nil {
			done <- fmt.Errorf("choose processors: %w", err)
			return
		}
		done <- start()
	}()
	return <-done
}

// move moves the threads of this process. A thread that begins meanwhile has the
// processors of its parent, so move looks until it finds no new one.
func move(to *unix.CPUSet) error {
	moved := map[int]bool{}
	for more := true; more; {
		more = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("find threads: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || moved[id] {
				continue
			}
			if err := unix.SchedSetaffinity(id, to); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("choose processors: %w", err)
			}
			moved[id], more = true, true
		}
	}
	return nil
}
