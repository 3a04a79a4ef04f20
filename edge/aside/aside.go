package aside

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// Thread gives the calling goroutine a thread of its own, which stands aside: where there is not enough for all, it
// gets a third of what others get. It gets no less than that, since the runtime itself waits for it now and then: for
// a lock that it holds, or to stop the world. There is no way back: the thread ends
// with the goroutine. A goroutine that waits often pays for that, since threads take turns more slowly than
// goroutines. Where the system does not let threads stand aside, nothing changes.
func Thread() {
	runtime.LockOSThread()
	lower()
}

const (
	// linger is for how long room is kept that nobody needs any more: making it stops all goroutines for a moment.
	linger = 2 * time.Second

	// lingerBriefly is the same for what comes again and again, and would otherwise have room for ever.
	lingerBriefly = 15 * time.Millisecond

	// few is up to how many processors short work needs room. Where there are more, others take what waits for the one that it has.
	few = 2
)

// beside is how many goroutines more, for each processor, are run while there is work that stands aside. What brings that work
// and takes it away, and the collector, do not stand aside: the runtime would give each of them a processor
// for up to 10 ms while redirects wait, where the system has them take turns.
const beside = 6

// mostBeside bounds that on large machines, which have room without it, and where the collector would take its part of it.
const mostBeside = 8

// besides is how many goroutines more that is. Where a quota leaves less than the processors that there are, more threads would
// only spend it sooner, and the system then stops them all.
func besides(processors int) int {
	if processors < runtime.NumCPU() {
		return 0
	}
	return min(beside*processors, mostBeside)
}

var room = struct {
	sync.Mutex
	linger, briefly time.Duration
	users           int // that have not given it back
	threads         int // of theirs, that stand aside
	before          int // processors of the runtime without them
	added           int
	until           time.Time   // when it may be taken back, if nobody uses it
	over            *time.Timer // takes it back; nil: nothing was added yet
}{linger: linger, briefly: lingerBriefly}

// MakeRoom lets the runtime run more goroutines at once than there are processors, so many for threads that stand aside, and some
// for each processor, until what it gives is called, once, and for a while longer: nobody takes a redirect's place then, since the system
// has the threads take turns and runs those last that stand aside. It is not
// for always, as a redirect costs some percent more CPU time so. It does nothing when
// GOMAXPROCS says how many there are to be.
func MakeRoom(threads int) (giveBack func()) {
	if !mayMake() {
		return func() {}
	}
	room.Lock()
	defer room.Unlock()
	return makeRoom(threads, room.linger)
}

// Briefly is MakeRoom for work of some milliseconds that waits for a disk, comes again and again, and does not stand aside. Without
// it the one processor of a small machine is gone meanwhile, also while the disk is waited for: the runtime takes it back from who
// waits only after milliseconds. Room is kept for some milliseconds more, for what follows at once. Where there are more than a few processors it does nothing.
func Briefly() (giveBack func()) {
	if !mayMake() {
		return func() {}
	}
	room.Lock()
	defer room.Unlock()
	if room.added == 0 && runtime.GOMAXPROCS(0) > few {
		return func() {}
	}
	return makeRoom(0, room.briefly)
}

func mayMake() bool { return lowers && os.Getenv("GOMAXPROCS") == "" }

// makeRoom makes what is needed beyond what there is, and keeps it for so long when it was given back. The lock is held.
func makeRoom(threads int, keep time.Duration) (giveBack func()) {
	if room.added == 0 {
		room.before = runtime.GOMAXPROCS(0)
	}
	room.users++
	room.threads += threads
	if added := room.threads + besides(room.before); added > room.added {
		room.added = added
		runtime.GOMAXPROCS(room.before + room.added)
	}
	return func() {
		room.Lock()
		defer room.Unlock()
		room.threads -= threads
		if until := time.Now().Add(keep); until.After(room.until) {
			room.until = until
		}
		if room.users--; room.users > 0 {
			return
		}
		wait := time.Until(room.until)
		if room.over == nil {
			room.over = time.AfterFunc(wait, takeBack)
		} else {
			room.over.Reset(wait)
		}
	}
}

// takeBack ends the room, unless somebody needs it again.
func takeBack() {
	room.Lock()
	defer room.Unlock()
	if room.users == 0 && room.added > 0 && !time.Now().Before(room.until) {
		room.added = 0
		runtime.SetDefaultGOMAXPROCS() // which follows the control group's limit again
	}
}
