package aside

import (
	"os"
	"runtime"
	"sync"
	"time"
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

// linger is for how long room is kept that nobody needs any more: making it stops all goroutines for a moment.
const linger = 2 * time.Second

var room = struct {
	sync.Mutex
	linger time.Duration
	users  int // threads that stand aside
	before int // processors of the runtime without them
	added  int
	over   *time.Timer // takes them back; nil: nothing was added yet
}{linger: linger}

// MakeRoom lets the runtime run so many goroutines more at once than there are processors, for threads that stand aside, until
// what it gives is called, once, and for a while longer: these take nobody's place then, since the system runs them last. It is not
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
	if room.users += threads; room.users > room.added {
		room.added = room.users
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
