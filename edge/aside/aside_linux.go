package aside

import "golang.org/x/sys/unix"

const lowers = true

const (
	// niceness is that of a tenth of the usual weight.
	niceness = 10
	// slice is how long such work may run at a time, in nanoseconds. Since Linux 6.12 a thread that wakes up is run
	// at once in the place of one whose slice is longer than its own; those of all others are 3 ms.
	slice = 20e6
)

// lower lowers the calling thread, which everybody may do, and takes nothing back that an
// operator has lowered further. That it was refused, as in a sandbox, is no reason to
// do less work.
func lower() {
	now, err := unix.SchedGetAttr(0, 0)
	if err != nil || now.Policy == unix.SCHED_IDLE {
		return
	}
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_BATCH, Nice: max(now.Nice, niceness), Runtime: slice}, 0)
}
