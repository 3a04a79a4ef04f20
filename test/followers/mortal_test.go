package followers_test

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"waypost"
	"waypost/edge/replica"
	"waypost/internal/failpoint"
	"waypost/replication/replicationtest"
)

// trap is a place at which something is to die.
type trap struct {
	place   string
	count   int // of the times that it is reached, counting from 1
	percent int // of what is not synced then that survives
	seed    uint64
}

// aWrite is the place before each write to a node's file system.
const aWrite = "a write"

// background is the place at which what runs next to a node's follower waits in lockstep
// until the test lets it go on. All other places of a replica but one are reached by its
// follower, or by what that waits for.
const background = "remove store: begun"

// mortal is a part that dies at places: a node, or the control plane.
type mortal struct {
	name     string
	inbound  []*replicationtest.Wire // that lead to it
	lockstep bool

	mu     sync.Mutex
	traps  []trap         // the first is the one that it reaches next
	hits   map[string]int // places reached since they were told
	deaths []string       // places
	life   *life
}

// life is from one start to the next.
type life struct {
	m       *mortal
	fs      *vfs.MemFS                 // nil: it has none
	db      atomic.Pointer[replica.DB] // nil: it is being opened, or has none
	dead    atomic.Bool
	sprung  chan struct{} // closed when it has died
	release chan struct{} // closed when what it does counts for nothing any more
	token   chan struct{} // lets one go on that waits in the background

	// Guarded by m.mu:
	over     bool
	waiting  int // in the background
	removing int // of stores

	// Of the moment of its death:
	place    string
	image    *vfs.MemFS
	survives waypost.Position
}

// begin begins a life that comes after what survived.
func (m *mortal) begin(fs *vfs.MemFS, survived waypost.Position) *life {
	l := &life{m: m, fs: fs, survives: survived, sprung: make(chan struct{}), release: make(chan struct{}), token: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hits == nil {
		m.hits = map[string]int{}
	}
	m.life = l
	return l
}

// arm sets traps in place of those that there are.
func (m *mortal) arm(traps ...trap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.traps = traps
}

// told returns the places that were reached, and where it died, since it was asked last.
func (m *mortal) told() (hits map[string]int, deaths []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hits, deaths = m.hits, m.deaths
	m.hits, m.deaths = map[string]int{}, nil
	return hits, deaths
}

// points are the places of this life.
func (l *life) points() *failpoint.Points {
	return &failpoint.Points{Reached: l.reached, Numbers: map[string]int64{"bytes of a snapshot that are made durable at once": 0}}
}

// reached is called at each place. A goroutine that reaches the place of the trap goes on
// no more, and neither does one that reaches any other place afterwards, until the life
// is over.
func (l *life) reached(place string) {
	m := l.m
	m.mu.Lock()
	if m.lockstep && place == background && !l.over {
		l.waiting++
		m.mu.Unlock()
		select {
		case <-l.token:
		case <-l.release:
		}
		m.mu.Lock()
		l.waiting--
	}
	if l.over {
		m.mu.Unlock()
		return
	}
	if !l.dead.Load() {
		if place != aWrite {
			m.hits[place]++
		}
		switch place {
		case background:
			l.removing++
		case "remove store: done":
			l.removing--
		}
		if len(m.traps) > 0 && m.traps[0].place == place {
			if m.traps[0].count--; m.traps[0].count <= 0 {
				l.die(m.traps[0])
				m.traps = m.traps[1:]
			}
		}
	}
	dead := l.dead.Load()
	m.mu.Unlock()
	if dead {
		<-l.release
	}
}

// die ends everything that others could see of it, and then takes what a crash leaves.
// m.mu is held.
func (l *life) die(t trap) {
	l.dead.Store(true)
	for _, w := range l.m.inbound {
		w.Break()
	}
	l.place = t.place
	l.m.deaths = append(l.m.deaths, t.place)
	if l.fs != nil {
		if db := l.db.Load(); db != nil {
			l.survives = db.Synced() // before the image
		}
		l.image = l.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: t.percent, RNG: random(t.seed, 0)})
	}
	close(l.sprung)
}

// finish lets everything go on, for nothing if it has died.
func (l *life) finish() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.release)
	}
}

// letGo lets what waits in the background go on, and says whether there is nothing left
// to do.
func (l *life) letGo() bool {
	l.m.mu.Lock()
	waiting, removing := l.waiting, l.removing
	l.m.mu.Unlock()
	if waiting > 0 {
		select {
		case l.token <- struct{}{}:
		case <-l.sprung:
		case <-time.After(time.Millisecond): // it reaches it in a moment
		}
		return false
	}
	return removing == 0
}

// String implements errorfs.Injector.
func (l *life) String() string { return l.m.name }

// MaybeError implements errorfs.Injector. It never injects an error.
func (l *life) MaybeError(op errorfs.Op) error {
	if !l.m.lockstep && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		l.reached(aWrite)
	}
	return nil
}
