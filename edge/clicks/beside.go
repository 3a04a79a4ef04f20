package clicks

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Lock is the journal's part in the lock of its directory. Another process that gets
// it may open a journal there beside this one: see [Config].Beside. The file stays
// the journal's own.
func (j *Journal) Lock() *os.File { return j.dir.self }

// Adopt takes over what every other boot has left in the directory, as Open does when
// it is alone. It is called once no other process has a journal there any more: boots
// have one writer, and their batches one sender. It may be called while clicks are
// recorded and shipped. After Seal it does nothing: the next start will.
func (j *Journal) Adopt() error {
	j.adopting.Lock()
	defer j.adopting.Unlock()
	if j.over {
		return nil
	}
	known := make(map[bootName]bool)
	j.mu.Lock()
	for _, l := range j.lanes {
		known[l.boot] = true
	}
	j.mu.Unlock()
	boots, err := j.survey(known)
	if err != nil {
		return fmt.Errorf("take over clicks in %s: %w", j.cfg.Dir, err)
	}
	lanes, err := j.reviveAll(boots)
	if err != nil {
		return fmt.Errorf("take over clicks in %s: %w", j.cfg.Dir, err)
	}
	j.mu.Lock()
	j.progress.shared = false
	j.lanes = slices.Concat(lanes, j.lanes)
	slices.SortFunc(j.lanes, func(a, b *lane) int { return a.boot.compare(b.boot) })
	j.mu.Unlock()
	j.signal(j.wake)
	j.signal(j.turn)
	j.signal(j.folded)
	return nil
}

// lastOrdinal finds the ordinal of the last boot without touching anything.
func (j *Journal) lastOrdinal() (ordinal uint32, err error) {
	entries, err := os.ReadDir(j.dir.root)
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok {
			ordinal = max(ordinal, n.boot.ordinal)
		}
	}
	return ordinal, err
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
