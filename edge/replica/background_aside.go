package replica

import (
	"sync"
	"time"

	"waypost/edge/aside"
	"waypost/replication"
)

// What an edge does beside its redirects stands aside for them: flushes and compactions, of which Pebble tells in the
// goroutines that make them, and which these end with; and batches that take long to apply.

const (
	// weighty is how many records a batch has that takes long: each costs some ten microseconds.
	weighty = 64

	// steady is how many records are taken in a second when all batches together take long, however short each is.
	steady = 4096

	// late is how old a change may become, by the clocks of its origin and of this machine, while redirects go first.
	late = 5 * time.Second
)

// rooms are made for what Pebble has under way. Which is whose does not matter.
type rooms struct {
	mu       sync.Mutex
	giveBack []func()
}

// stepAside is called by the goroutine of a flush or compaction, as it begins.
func (r *rooms) stepAside() {
	aside.Thread()
	giveBack := aside.MakeRoom(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveBack = append(r.giveBack, giveBack)
}

// done is called when a flush or compaction has ended.
func (r *rooms) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.giveBack) - 1; n >= 0 {
		r.giveBack[n]()
		r.giveBack = r.giveBack[:n]
	}
}

// lengthily does something where it keeps no redirects waiting when it takes long.
func (db *DB) lengthily(long bool, do func() error) (err error) {
	if !long {
		return do()
	}
	db.slow.Do(func() { err = do() })
	return err
}

func isWeighty(transactions []replication.Transaction) bool {
	return recordsOf(transactions) >= weighty
}

func recordsOf(transactions []replication.Transaction) (records int) {
	for i := range transactions {
		records += len(transactions[i].Records)
	}
	return records
}

// isLate reports whether changes have waited for so long that they do no more: wrong links are worse than slow ones.
func isLate(transactions []replication.Transaction, now time.Time) bool {
	n := len(transactions)
	return n > 0 && now.Sub(time.UnixMilli(transactions[n-1].At)) > late
}

// pace tells how many records are taken in a second. The zero pace is ready.
type pace struct {
	mu           sync.Mutex
	began        time.Time // of the present second
	now, earlier int       // records of that, and of the one before
}

// note adds records, and reports whether so many come that they take long together.
func (p *pace) note(records int, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := at.Sub(p.began); since >= time.Second {
		p.earlier = 0
		if since < 2*time.Second {
			p.earlier = p.now
		}
		p.began, p.now = at, 0
	}
	p.now += records
	return max(p.now, p.earlier) >= steady
}
