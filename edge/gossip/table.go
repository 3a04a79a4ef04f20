package gossip

import (
	"cmp"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"waypost"
)

// State classifies a member.
type State string

// The states of members.
const (
	StateAlive State = "alive"
	StateDead  State = "dead" // does not answer
	StateLeft  State = "left" // said that it leaves
)

// Member is one boot of a node, as far as gossip knows.
type Member struct {
	Node    string
	Boot    waypost.BootID
	Region  waypost.Region
	Role    Role
	Addr    string // HOST:PORT of its service, or ""
	Version string
	Started time.Time // of this boot, by the member's clock
	Self    bool

	Position waypost.Position // by the member's last news; zero when it holds no replica

	State     State
	Since     time.Time // when the state began, by our clock
	LastHeard time.Time // when news of the member last came in
}

// table remembers the members except this node. memberlist calls it under a lock of
// memberlist, so it must never call memberlist.
type table struct {
	self   waypost.BootID
	node   string // our own
	max    int
	forget time.Duration
	now    func() time.Time

	mu      sync.Mutex
	members map[waypost.BootID]*entry
}

type entry struct {
	card
	gossipAddr string // where memberlist reaches it
	state      State
	since      time.Time
	heard      time.Time
}

// errFull says that the table has no room for a member.
var errFull = errors.New("there are too many members")

// admit returns errFull if the table has no room for a member.
func (t *table) admit(boot waypost.BootID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.members[boot] == nil && boot != t.self && len(t.members) >= t.max && t.oldestDead() == nil {
		return errFull
	}
	return nil
}

// joined notes a member that has come, or come back. It removes the remains of earlier
// boots of the same node, and reports whether anything changed.
func (t *table) joined(c card, gossipAddr string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	boot, now := c.news.boot, t.now()
	if boot == t.self {
		return false
	}
	for other, e := range t.members {
		switch {
		case e.node != c.node || other == boot:
		case e.state != StateAlive:
			delete(t.members, other)
		case e.gossipAddr == gossipAddr && e.started > c.started:
			return false // c is of an earlier boot; the news of its end still spreads
		case e.gossipAddr == gossipAddr && e.started < c.started:
			// That boot has lost its address to this one, so it has ended, even if no
			// member has noticed.
			delete(t.members, other)
		}
	}
	e := t.members[boot]
	if e == nil {
		if len(t.members) >= t.max {
			oldest := t.oldestDead()
			if oldest == nil {
				return false
			}
			delete(t.members, oldest.news.boot)
		}
		e = &entry{card: c}
		t.members[boot] = e
	}
	if c.news.counter < e.news.counter {
		c.news = e.news
	}
	e.card, e.gossipAddr, e.state, e.since, e.heard = c, gossipAddr, StateAlive, now, now
	return true
}

// gone notes that a member stopped answering, or has left. replaced reports that its node
// lives on under another boot, which may be our own.
func (t *table) gone(boot waypost.BootID) (e entry, replaced, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.members[boot]
	if found == nil || found.state != StateAlive {
		return entry{}, false, false
	}
	found.state, found.since = StateDead, t.now()
	if found.news.leaves {
		found.state = StateLeft
	}
	// A node that lives on under another boot is not shown as dead as well.
	for _, other := range t.members {
		if other != found && other.node == found.node && other.state == StateAlive {
			delete(t.members, boot)
			replaced = true
		}
	}
	return *found, replaced || found.node == t.node, true
}

// hear takes news, and reports whether it was newer than the known news.
func (t *table) hear(n news) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.members[n.boot]
	if e == nil || n.counter <= e.news.counter {
		return false
	}
	e.news, e.heard = n, t.now()
	if e.state == StateDead && n.leaves {
		e.state = StateLeft // its farewell was slower than the word of its end
	}
	return true
}

// news returns the newest news of every member.
func (t *table) news() []news {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]news, 0, len(t.members)+1)
	for _, e := range t.members {
		all = append(all, e.news)
	}
	return all
}

// alive counts the live members, without this node.
func (t *table) alive() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, e := range t.members {
		if e.state == StateAlive {
			n++
		}
	}
	return n
}

// reaches reports whether a live member has a gossip address.
func (t *table) reaches(gossipAddr string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.members {
		if e.state == StateAlive && e.gossipAddr == gossipAddr {
			return true
		}
	}
	return false
}

// expire forgets members that have been dead for long.
func (t *table) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for boot, e := range t.members {
		if e.state != StateAlive && now.Sub(e.since) > t.forget {
			delete(t.members, boot)
		}
	}
}

// oldestDead returns the member that has been dead for the longest, or nil if all are
// alive.
func (t *table) oldestDead() *entry {
	var oldest *entry
	for _, e := range t.members {
		if e.state != StateAlive && (oldest == nil || e.since.Before(oldest.since)) {
			oldest = e
		}
	}
	return oldest
}

// list returns all members and self, ordered by node and boot.
func (t *table) list(self Member) []Member {
	t.mu.Lock()
	all := append(make([]Member, 0, len(t.members)+1), self)
	for _, e := range t.members {
		m := e.member()
		m.State, m.Since, m.LastHeard = e.state, e.since, e.heard
		all = append(all, m)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(hex.EncodeToString(a.Boot[:]), hex.EncodeToString(b.Boot[:])))
	})
	return all
}

// member returns the member that a card describes.
func (c *card) member() Member {
	return Member{
		Node: c.node, Boot: c.news.boot, Region: c.region, Role: c.role, Addr: c.addr,
		Version: c.version, Started: timeOf(c.started),
		Position: c.news.position,
	}
}
