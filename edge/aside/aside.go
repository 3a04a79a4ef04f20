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

// linger is for how long room is kept that nobody needs any more: making it stops all goroutines for a moment.
const linger = 2 * time.Second

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
	linger time.Duration
	users  int // threads that stand aside
	before int // processors of the runtime without them
	added  int
	over   *time.Timer // takes them back; nil: nothing was added yet
}{linger: linger}

// MakeRoom lets the runtime run more goroutines at once than there are processors, so many for threads that stand aside, and some
// for each processor, until what it gives is called, once, and for a while longer: nobody takes a redirect's place then, since the system
// has the threads take turns and runs those last that stand aside. It is not
// for always, as a redirect costs some percent more CPU time so. It does nothing when
// GOMAXPROCS says how many there are to be.
func MakeRoom(threads int) (giveBack func()) {
	if !lowers || os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	room.Lock()
	defer room.Unlock()
	if room.added == 0 {
		room.before = runtime.GOMAXPROCS(0)
	}
	room.users += threads
	if added := room.users + besides(room.before); added > room.added {
		room.added = added
		runtime.GOMAXPROCS(room.before + room.added)
	}
	return func() {
		room.Lock()
		defer room.Unlock()
		if room.users -= threads; room.users > 0 {
			return
		}
		if room.over == nil {
			room.over = time.AfterFunc(room.linger, takeBack)
		} else {
			room.over.Reset(room.linger)
		}
	}
}

// takeBack ends the room, unless somebody needs it again.
func takeBack() {
	room.Lock()
	defer room.Unlock()
	if room.users == 0 && room.added > 0 {
		room.added = 0
		runtime.SetDefaultGOMAXPROCS() // which follows the control group's limit again
	}
}
