package clicks

import "time"

// Progress says how many of the recorded clicks the control plane has counted.
type Progress struct {
	// Pending counts clicks that are not acknowledged. It misses clicks of earlier boots
	// that are in no batch yet.
	Pending uint64

	// Until is a time before which all clicks are acknowledged. It is zero when it is
	// unknown: while clicks of earlier boots wait.
	Until time.Time
}

// progressMark says that all clicks recorded before a time are in batches up to a
// sequence of the current boot.
type progressMark struct {
	seq      uint64
	at       time.Time
	recorded uint64 // clicks of this boot until then, or a little later
}

const (
	// underWay is the time within which a redirect records its click after the click got
	// its time.
	underWay = time.Second

	maxMarks = 1024
)

// beginMark notes when gathering begins.
func (c *catalog) beginMark() progressMark {
	return progressMark{at: time.Now().Add(-underWay), recorded: c.recorder.recorded()}
}

// leaveSegments notes that the clicks recorded until a mark have left the segments of the
// current boot; of these, the last gathering took that many. The lock is held.
func (c *catalog) leaveSegments(m progressMark, clicks uint64) {
	c.gathered = max(m.recorded, c.gathered+clicks)
}

// endMark notes that these clicks are all in batches. The lock is held.
func (c *catalog) endMark(m progressMark) {
	m.seq = c.current.seq
	n := len(c.marks)
	if n > 0 && (c.marks[n-1].seq == m.seq || n == maxMarks) { // the newest one says less than this
		c.marks[n-1] = m
	} else {
		c.marks = append(c.marks, m)
	}
	c.passMarks()
}

// passMarks drops marks that a later one supersedes, and returns the newest acknowledged
// one. The lock is held.
func (c *catalog) passMarks() (passed progressMark, ok bool) {
	done := c.current.seq
	if len(c.current.waiting) > 0 {
		done = c.current.waiting[0].seq - 1
	}
	i := 0
	for i+1 < len(c.marks) && c.marks[i+1].seq <= done {
		i++
	}
	c.marks = append(c.marks[:0], c.marks[i:]...)
	if len(c.marks) == 0 || c.marks[0].seq > done {
		return progressMark{}, false
	}
	return c.marks[0], true
}

// Progress reports how many of the recorded clicks are acknowledged.
func (j *Journal) Progress() Progress {
	recorded := j.recorder.recorded() // takes the shards' locks
	c := j.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.closed
	out := Progress{Pending: recorded - min(recorded, c.gathered)}
	for _, s := range c.streams {
		old = old || s != c.current && !s.empty()
		for _, b := range s.waiting {
			out.Pending += b.clicks
		}
		for _, f := range s.compacted {
			out.Pending += f.clicks()
		}
	}
	if m, ok := c.passMarks(); ok && !old {
		out.Until = m.at
	}
	return out
}

// waiting counts the clicks in batches and compacted segments that are not acknowledged,
// and returns the age of the oldest of these batches.
func (c *catalog) waiting(now time.Time) (clicks uint64, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		for _, b := range s.waiting {
			clicks += b.clicks
			age = max(age, now.Sub(b.since))
		}
		for _, f := range s.compacted {
			clicks += f.clicks()
		}
	}
	return clicks, age
}
