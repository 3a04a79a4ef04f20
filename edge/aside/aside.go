package aside

import (
	"os"
	"runtime"
	"sync"
)

// Thread gives the calling goroutine a thread of its own, which stands aside: where there is not enough for all, it
// gets a tenth of what others get. It gets no less than that, since the runtime itself waits for it now and then: for
// a lock that it holds, or to stop the world. There is no way back: the thread ends
// with the goroutine. A goroutine that waits often pays for that, since threads take turns more slowly than
// goroutines. Where the system does not let threads stand aside, nothing changes.
func Thread() {
	runtime.LockOSThread()
	lower()
}

// threads is how many goroutines stand aside at once: one that makes a table of a snapshot, one that fills the lookup
// table beside it, and one that gathers what the next is made of.
const threads = 3

var room struct {
	sync.Mutex
	users int
}

// MakeRoom lets the runtime run more goroutines at once than there are processors, as many more as stand aside, until
// what it gives is called, once: these take nobody's place then, since the system runs them last. It is not
// for always, as a redirect costs some percent more CPU time so. It does nothing when
// GOMAXPROCS says how many there are to be.
func MakeRoom() (giveBack func()) {
	if !lowers || os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	room.Lock()
	defer room.Unlock()
	if room.users++; room.users == 1 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
	}
	return func() {
		room.Lock()
		defer room.Unlock()
		if room.users--; room.users == 0 {
			runtime.SetDefaultGOMAXPROCS() // which follows the control group's limit again
		}
	}
}
