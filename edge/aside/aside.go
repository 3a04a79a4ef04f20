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

// room is how much there is. Its lock is never held while the runtime changes the number, which waits for the end of a collection that is under
// way: some ten milliseconds on an edge.
var room = struct {
	sync.Mutex
	linger, briefly time.Duration
	users           int         // that have not given it back
	threads         int         // of theirs, that stand aside
	until           time.Time   // when it may be taken back, if nobody uses it
	over            *time.Timer // takes it back; nil: nothing was added yet
	coming          bool        // it is about to be made

	own   int // processors of the runtime without room; only good while some is added
	added int // is changed by whoever holds changing
}{linger: linger, briefly: lingerBriefly}

// changing is held while the runtime changes the number.
var changing sync.Mutex

// MakeRoom lets the runtime run more goroutines at once than there are processors, so many for threads that stand aside, and some
// for each processor, until what it gives is called, once, and for a while longer: nobody takes a redirect's place then, since the system
// has the threads take turns and runs those last that stand aside. It is not
// for always, as a redirect costs some percent more CPU time so. It waits for a collection that is under way. It does nothing when
// GOMAXPROCS says how many there are to be.
func MakeRoom(threads int) (giveBack func()) {
	if !mayMake() {
		return func() {}
	}
	giveBack, _ = use(threads, &room.linger)
	change()
	return giveBack
}

// Briefly is MakeRoom for work of some milliseconds that waits for a disk, comes again and again, and does not stand aside. Without
// it the one processor of a small machine is gone meanwhile, also while the disk is waited for: the runtime takes it back from who
// waits only after milliseconds. Room is kept for some milliseconds more, for what follows at once. It comes when it can be made, and the caller
// does not wait for that. On machines with more than a few processors, and where a quota leaves fewer than there are, nothing happens.
func Briefly() (giveBack func()) {
	if runtime.NumCPU() > few || !mayMake() {
		return func() {}
	}
	giveBack, missing := use(0, &room.briefly)
	if missing {
		go change()
		runtime.Gosched() // or it would come when the work is done
	}
	return giveBack
}

func mayMake() bool { return lowers && os.Getenv("GOMAXPROCS") == "" }

// Processors is how many goroutines the runtime runs at once when there is no room beside.
func Processors() int {
	room.Lock()
	defer room.Unlock()
	if room.added > 0 {
		return room.own
	}
	return runtime.GOMAXPROCS(0)
}

// use notes a user, and tells whether there is no room and nobody is about to make it.
func use(threads int, keep *time.Duration) (giveBack func(), missing bool) {
	room.Lock()
	defer room.Unlock()
	room.users++
	room.threads += threads
	missing = room.added == 0 && !room.coming
	room.coming = room.coming || missing
	return func() {
		room.Lock()
		defer room.Unlock()
		room.threads -= threads
		if until := time.Now().Add(*keep); until.After(room.until) {
			room.until = until
		}
		if room.users--; room.users > 0 {
			return
		}
		wait := time.Until(room.until)
		if room.over == nil {
			room.over = time.AfterFunc(wait, change)
		} else {
			room.over.Reset(wait)
		}
	}, missing
}

// change has the runtime run as many goroutines at once as it should now.
func change() {
	changing.Lock()
	defer changing.Unlock()
	for {
		switch total, ends := plan(); {
		case total > 0:
			runtime.GOMAXPROCS(total)
		case ends:
			runtime.SetDefaultGOMAXPROCS() // which follows the control group's limit again
			room.Lock()
			room.added = 0
			room.Unlock()
		default:
			return
		}
	}
}

// plan gives how many goroutines there should be, if they are to be more, and whether the room ends. There is never less of it until it ends.
func plan() (total int, ends bool) {
	room.Lock()
	defer room.Unlock()
	room.coming = false
	if room.users == 0 && !time.Now().Before(room.until) {
		return 0, room.added > 0
	}
	if room.added == 0 {
		room.own = runtime.GOMAXPROCS(0)
	}
	if added := room.threads + besides(room.own); added > room.added {
		room.added = added
		return room.own + added, false
	}
	return 0, false
}
