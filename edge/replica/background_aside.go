package replica

import (
	"sync"

	"waypost/edge/aside"
	"waypost/replication"
)

// What an edge does beside its redirects stands aside for them: flushes and compactions, of which Pebble tells in the
// goroutines that make them, and which these end with; and batches that take long to apply.

// weighty is how many records a batch has that takes long: each costs some ten microseconds.
const weighty = 64

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
	records := 0
	for i := range transactions {
		records += len(transactions[i].Records)
	}
	return records >= weighty
}
