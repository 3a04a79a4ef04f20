package fleet

import (
	"sort"
	"time"

	"waypost"
)

// MaxAge is the age up to which a replica may be said to lack nothing. An older replica
// may not have heard of the changes that it lacks.
const MaxAge = 5 * time.Second

// headHistory records when the head was at which position, so that a lag has a duration.
// Older entries are farther apart.
type headHistory struct {
	epoch waypost.Epoch
	heads []notedHead // of the epoch, by rising sequence; at most maxHeads
}

type notedHead struct {
	seq uint64
	at  time.Time // when the head was first seen there
}

// With two looks a second, about 1,100 entries span a day in steps of a 128th of
// their age; entries beyond the bound are dropped, oldest first.
const (
	maxHeads  = 2048
	headSteps = 128
)

// recordHead records the head. It ignores a head of an older epoch.
func (h *headHistory) recordHead(p waypost.Position, now time.Time) {
	if p.IsZero() || p.Epoch.Ordinal < h.epoch.Ordinal {
		return
	}
	if p.Epoch != h.epoch {
		h.epoch, h.heads = p.Epoch, nil
	}
	if n := len(h.heads); n > 0 && p.Seq <= h.heads[n-1].seq {
		return
	}
	if len(h.heads) == maxHeads {
		h.thin(now)
	}
	h.heads = append(h.heads, notedHead{p.Seq, now})
}

// thin keeps entries at distances in proportion to their age.
func (h *headHistory) thin(now time.Time) {
	kept := h.heads[:1]
	for _, head := range h.heads[1:] {
		if head.at.Sub(kept[len(kept)-1].at) >= now.Sub(head.at)/headSteps {
			kept = append(kept, head)
		}
	}
	h.heads = kept[max(0, len(kept)-maxHeads+1):]
}

// lag returns the number of changes after a position, and for how long the oldest of them
// is known, at least. It is unknown when the position cannot be compared with the newest
// head. A position beyond the head, which was seen a moment ago, has no lag.
func (h *headHistory) lag(p waypost.Position, now time.Time) (changes uint64, age time.Duration, known bool) {
	if p.IsZero() || len(h.heads) == 0 || p.Epoch != h.epoch {
		return 0, 0, false
	}
	newest := h.heads[len(h.heads)-1]
	if p.Seq >= newest.seq {
		return 0, 0, true
	}
	// Since the first head beyond it was seen, the replica has been behind.
	beyond := sort.Search(len(h.heads), func(i int) bool { return h.heads[i].seq > p.Seq })
	return newest.seq - p.Seq, max(now.Sub(h.heads[beyond].at), 0), true
}
