package clicks

import (
	"errors"
	"log/slog"
	"math/bits"
	"net/http"
	"slices"
	"time"
)

// Whose clicks are shipped next: those of the oldest boot, but of none whose node is refused.

// oldest gives the batch to send next: of the oldest boot that is not set aside.
func (j *Journal) oldest(now time.Time) (*lane, waitingBatch, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lanes {
		if len(l.waiting) > 0 && !l.aside.After(now) {
			return l, l.waiting[0], true
		}
	}
	return nil, waitingBatch{}, false
}

// waits reports whether any batch is not acknowledged.
func (j *Journal) waits() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.lanes, func(l *lane) bool { return len(l.waiting) > 0 })
}

// setAside gives the time at which the first of the boots that are set aside is not any more; zero if none is.
func (j *Journal) setAside(now time.Time) (until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lanes {
		if l.aside.After(now) && (until.IsZero() || l.aside.Before(until)) {
			until = l.aside
		}
	}
	return until
}

// standBack sets the boots of a node aside for a while when the control plane does not take its clicks, and leaves
// the others alone. It reports whether that is what is wrong.
func (s *shipper) standBack(l *lane, err error) bool {
	if r, ok := errors.AsType[*retryError](err); !ok || r.status != http.StatusForbidden {
		return false
	}
	s.j.mu.Lock()
	refusals := l.refusals + 1
	until := time.Now().Add(s.wait(refusals, err))
	for _, o := range s.j.lanes {
		if o.node == l.node {
			o.refusals, o.aside = refusals, until
		}
	}
	s.j.mu.Unlock()
	if bits.OnesCount(uint(refusals)) == 1 {
		s.j.log.Warn("clicks of a node are not taken: they wait, and hold up no others", slog.String("node", l.node), slog.Int("failures", refusals), slog.Any("error", err))
	}
	return true
}

// comeForward notes that clicks of a boot's node are taken.
func (j *Journal) comeForward(l *lane) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.refusals == 0 {
		return
	}
	for _, o := range j.lanes {
		if o.node == l.node {
			o.refusals, o.aside = 0, time.Time{}
		}
	}
	l.refusals = 0 // it may be finished, and in no list any more
}

// Nodes gives the names under which there are clicks that the control plane may be sent.
func (j *Journal) Nodes() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var names []string
	for _, l := range j.lanes {
		if l.node != "" && !slices.Contains(names, l.node) { // of a boot that cannot be read nobody knows it
			names = append(names, l.node)
		}
	}
	return names
}
