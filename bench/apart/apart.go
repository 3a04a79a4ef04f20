//go:build linux

package apart

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Halves are the processors that this process may use, in two parts.
type Halves struct {
	all, server, client unix.CPUSet
}

// Split halves them; the server has one more when they are odd in number.
func Split() (h Halves, err error) {
	if err := unix.SchedGetaffinity(0, &h.all); err != nil {
		return h, fmt.Errorf("asking for the processors: %w", err)
	}
	count := h.all.Count()
	if count < 2 {
		h.server, h.client = h.all, h.all
		return h, nil
	}
	given := 0
	for cpu := 0; given < count; cpu++ {
		switch {
		case !h.all.IsSet(cpu):
			continue
		case given < (count+1)/2:
			h.server.Set(cpu)
		default:
			h.client.Set(cpu)
		}
		given++
	}
	return h, nil
}

// Apart says whether the two have no processor in common.
func (h Halves) Apart() bool { return h.all.Count() > 1 }

// Keep moves all of this process to the client's half, with what it starts from now on, until giveBack is
// called. The Go runtime, which would run no more goroutines at once than that has processors, runs as many as before and some more, so that the
// system has a client that never sleeps take turns with whatever else this process does.
func (h Halves) Keep() (giveBack func() error, err error) {
	const more = 4
	if err := move(&h.client); err != nil {
		return nil, errors.Join(err, move(&h.all))
	}
	runtime.GOMAXPROCS(h.all.Count() + more)
	return func() error {
		err := move(&h.all)
		runtime.SetDefaultGOMAXPROCS()
		return err
	}, nil
}

// move moves the threads of this process. One that begins meanwhile has the processors of that which began it, so it looks
// until there is none that it does not know.
func move(to *unix.CPUSet) error {
	moved := map[int]bool{}
	for more := true; more; {
		more = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("looking for threads: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || moved[id] {
				continue
			}
			if err := unix.SchedSetaffinity(id, to); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("choosing processors: %w", err)
			}
			moved[id], more = true, true
		}
	}
	return nil
}

// Start calls start, which is to start the server, such that what it starts stays in the server's half.
func (h Halves) Start(start func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with it
		if err := unix.SchedSetaffinity(0, &h.server); err != nil {
			done <- fmt.Errorf("choosing processors: %w", err)
			return
		}
		done <- start()
	}()
	return <-done
}
