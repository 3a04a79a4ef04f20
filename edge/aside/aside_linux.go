package aside

import "golang.org/x/sys/unix"

const lowers = true

// niceness is that of a third of the usual weight. With a tenth, or with longer slices than others have, a thread is put off for hundreds of
// milliseconds now and then, also while the runtime waits for it: to stop the world, or until it has swept a span of memory,
// for which the runtime's own sweeper spins.
const niceness = 5

// lower lowers the calling thread, which everybody may do, and takes nothing back that an
// operator has lowered further. That it was refused, as in a sandbox, is no reason to
// do less work.
func lower() {
	now, err := unix.SchedGetAttr(0, 0)
	if err != nil || now.Policy == unix.SCHED_IDLE {
		return
	}
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_BATCH, Nice: max(now.Nice, niceness)}, 0)
}
