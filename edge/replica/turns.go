package replica

import "sync"

// turns are taken by the threads of a restore that stand aside, while they compute: as many do at once as there were processors when it began.
// Who writes a table keeps the turn while it waits for the disk to take a block, so that a slow disk slows the others down, too; syncing is done without, and so is sorting
// for a source that does not give records in the order of their keys.
// Each gets a third of what a redirect gets, so that three on one processor would get as much as redirects do,
// and redirects that need more than the other half of it would wait for milliseconds, again and again.
//
// On nil turns nobody waits.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting int
	change  sync.Cond // one became free
}

// turnRecords is for how many records one keeps its turn when others wait: some hundred microseconds.
const turnRecords = 512

func newTurns(free int) *turns {
	t := &turns{free: free}
	t.change.L = &t.mu
	return t
}

// take waits for a turn.
func (t *turns) take() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wait()
}

// end ends it.
func (t *turns) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.change.Signal()
}

// pass is called by whoever has a turn, with the number of records it has dealt with: others who wait have theirs first now and then.
func (t *turns) pass(done int) {
	if t == nil || done == 0 || done%turnRecords != 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == 0 || t.free > 0 { // or there is one for who waits
		return
	}
	t.free++
	t.change.Signal()
	t.waiting++
	t.change.Wait() // or it would take the one that it gave
	t.waiting--
	t.wait()
}

// wait waits for one that is free. The caller holds t.mu.
func (t *turns) wait() {
	t.waiting++
	for t.free == 0 {
		t.change.Wait()
	}
	t.waiting--
	t.free--
}
