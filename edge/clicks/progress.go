package clicks

import (
	"time"
)

// Progress is how much of what was recorded the control plane has counted.
type Progress struct {
	// Pending are clicks that are not acknowledged. Of what an earlier boot left, those
	// that are in no batch yet are missing.
	Pending uint64

	// Until is a time before which all clicks are acknowledged. It is zero when there is
	// none to tell: while clicks of earlier boots wait, and those of a process beside
	// this one.
	Until time.Time
}

// mark says that all that was recorded before a time is in batches up to a sequence
// of the current boot.
type mark struct {
	seq      uint64
	at       time.Time
	recorded uint64 // clicks of this boot until then, or a little later
}

const (
	// underWay is for redirects whose click has its time and is not recorded yet.
	underWay = time.Second

	maxMarks = 1024
)

// progressState is guarded by the journal's mu.
type progressState struct {
	marks    []mark // by rising sequence, the first acknowledged, if one is
	gathered uint64 // clicks of this boot that are in batches or folds, or were lost
	shared   bool   // another process may have a journal in the directory
}

// beginMark notes when what is recorded begins to be gathered for batches.
func (j *Journal) beginMark() mark {
	return mark{at: time.Now().Add(-underWay), recorded: j.recorded()}
}

// endMark notes that all of it is in batches. The lock is held.
func (j *Journal) endMark(m mark) {
	p := &j.progress
	m.seq = j.current.seq
	n := len(p.marks)
	if n > 0 && (p.marks[n-1].seq == m.seq || n == maxMarks) { // the newest one says less than this
		p.marks[n-1] = m
	} else {
		p.marks = append(p.marks, m)
	}
	j.passMarks()
}

// passMarks forgets marks that a later one makes worthless, and gives the newest that
// is acknowledged. The lock is held.
func (j *Journal) passMarks() (passed mark, ok bool) {
	p := &j.progress
	done := j.current.seq
	if len(j.current.waiting) > 0 {
		done = j.current.waiting[0].seq - 1
	}
	i := 0
	for i+1 < len(p.marks) && p.marks[i+1].seq <= done {
		i++
	}
	p.marks = append(p.marks[:0], p.marks[i:]...)
	if len(p.marks) == 0 || p.marks[0].seq > done {
		return mark{}, false
	}
	return p.marks[0], true
}

// Progress tells how much of what was recorded is acknowledged.
func (j *Journal) Progress() Progress {
	recorded := j.recorded() // which takes the locks of the shards
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.progress.shared
	out := Progress{Pending: recorded - min(recorded, j.progress.gathered)}
	for _, l := range j.lanes {
		old = old || l != j.current && len(l.segments)+len(l.folds)+len(l.waiting) > 0
		for _, b := range l.waiting {
			out.Pending += b.clicks
		}
		for _, f := range l.folds {
			out.Pending += f.clicks()
		}
	}
	if m, ok := j.passMarks(); ok && !old {
		out.Until = m.at
	}
	return out
}
