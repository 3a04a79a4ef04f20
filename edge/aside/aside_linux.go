package aside

import "golang.org/x/sys/unix"

const lowers = true

const (
	// behind is the niceness of work that must keep up: a tenth of the usual weight.
	behind = 10
	// slice is how long such work may run at a time, in nanoseconds. Since Linux 6.12 a thread that wakes up is run
	// at once in the place of one whose slice is longer than its own; those of all others are 3 ms.
	slice = 20e6
)

// lower lowers the calling thread, which everybody may do, and takes nothing back that an
// operator has lowered further. That it was refused, as in a sandbox, is no reason to
// do less work.
func lower(l Level) {
	now, err := unix.SchedGetAttr(0, 0)
	if err != nil || now.Policy == unix.SCHED_IDLE {
		return
	}
	next := unix.SchedAttr{Policy: unix.SCHED_BATCH, Nice: max(now.Nice, behind), Runtime: slice}
	if l == Idle {
		next = unix.SchedAttr{Policy: unix.SCHED_IDLE, Nice: now.Nice, Runtime: slice}
	}
	_ = unix.SchedSetAttr(0, &next, 0)
}
