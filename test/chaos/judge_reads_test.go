package chaos

import (
	"slices"
	"time"
)

// before stands for the time in which there was no link.
var before = Operation{Call: -1, Return: -1, Outcome: Done}

// candidates returns the writes before a time that may have led to the answer that a
// visitor saw.
func (r *register) candidates(saw string, until time.Duration) (all []Operation) {
	if saw == Absent {
		all = append(all, before)
	}
	for _, w := range r.writes {
		if w.Call < until && r.leads(w, saw) {
			all = append(all, w)
		}
	}
	return all
}

// leads reports whether visitors see this after a write.
func (r *register) leads(w Operation, saw string) bool {
	switch w.Kind {
	case Create, Edit:
		return w.Value == saw
	case Delete:
		return saw == Gone
	case Restore:
		if w.Outcome == Done {
			return w.Saw == saw
		}
		// It brings back the target that the link had.
		return slices.ContainsFunc(r.writes, func(o Operation) bool { return o.Value == saw && o.Value != "" && o.Call < w.Call })
	}
	return false
}

// sighting says that an edge had a write, or a later one, at a time.
type sighting struct {
	at      time.Duration
	low     time.Duration // that write was not sent before
	durable bool          // a crash does not take it back
	lasting bool          // nor does the loss of the disk
	until   time.Duration // a failover may take it back after that
}

// life is one life of an edge: from a start to the next crash.
func life(crashes []Incident, at time.Duration) (n int) {
	for _, i := range crashes {
		if i.End <= at {
			n++
		}
	}
	return n
}

// sight turns a visit into a sighting. Of several writes that may have led to the answer
// the edge has had the first, or a later one.
func (c *court) sight(v Operation, writes []Operation) sighting {
	s := sighting{at: v.Return, low: forever, durable: v.Saw == Gone, until: forever}
	for _, w := range writes {
		s.low = min(s.low, w.Call)
		if w.Outcome != Unknown {
			continue
		}
		for _, f := range c.incidents(Failover, "") {
			if w.Call < f.End {
				s.until = min(s.until, f.Begin)
			}
		}
	}
	return s
}

// reads checks the answers of each edge for each code: an edge answers only values that
// were written for the code, and never one older than the edge had (I1).
func (c *court) reads() {
	for _, r := range c.codes {
		confirmed := c.confirmed(r)
		for edge, visits := range r.visits {
			c.readsOf(r, edge, visits, confirmed)
		}
	}
}

// confirmed returns the changes that every edge has on its disk, according to the control
// plane.
func (c *court) confirmed(r *register) (all []sighting) {
	for _, w := range r.writes {
		if w.Outcome == Done && c.everywhere(w.Applied) {
			all = append(all, sighting{at: w.Return, low: w.Call, durable: true, lasting: true, until: forever})
		}
	}
	return all
}

func (c *court) readsOf(r *register, edge string, visits []Operation, confirmed []sighting) {
	crashes, wipes := c.incidents(Crash, edge), c.incidents(Wipe, edge)
	seen := slices.Clone(confirmed)
	// The first sighting of a write in each life says all that later ones do.
	type key struct {
		low, until time.Duration
		life       int
		durable    bool
	}
	first := make(map[key]int)
	for _, v := range visits {
		writes := r.candidates(v.Saw, v.Return)
		if v.Outcome != Done || len(writes) == 0 {
			continue
		}
		s := c.sight(v, writes)
		k := key{s.low, s.until, life(crashes, s.at) + life(wipes, s.at), s.durable}
		if n, ok := first[k]; !ok {
			first[k] = len(seen)
			seen = append(seen, s)
		} else if s.at < seen[n].at {
			seen[n] = s
		}
	}
	lost := func(s sighting, v Operation) bool {
		if v.Return > s.until {
			return true
		}
		for _, w := range wipes {
			if !s.lasting && s.at <= w.End && w.Begin <= v.Return {
				return true
			}
		}
		for _, k := range crashes {
			if !s.durable && s.at <= k.End && k.Begin-s.at < syncTime && k.Begin <= v.Return {
				return true
			}
		}
		return false
	}
	for _, v := range visits {
		if v.Outcome != Done || v.Saw == Blocked || v.Saw == Later || c.limited(r.code) {
			continue
		}
		writes := r.candidates(v.Saw, v.Return)
		if len(writes) == 0 {
			c.violated("I1", v.Return, "%s answers %s with %s, which was not written for the code", edge, r.code, v.Saw)
			continue
		}
		newest := before
		for _, w := range writes {
			if w.Return > newest.Return {
				newest = w
			}
		}
		for _, s := range seen {
			if s.at < v.Call && newest.Return < s.low && !lost(s, v) {
				c.violated("I1", v.Return, "%s answers %s with %s, which was replaced before %.3f s; the edge had the later state at %.3f s",
					edge, r.code, v.Saw, s.low.Seconds(), s.at.Seconds())
				break
			}
		}
		if since, calm := c.calm(v.Call); calm {
			for _, w := range r.writes {
				if w.Return != forever && newest.Return < w.Call && max(w.Return, since)+lagTime < v.Call {
					c.violated("I3", v.Return, "%s answers %s with %s, though the change of %.3f s was acknowledged at %.3f s and nothing was wrong since %.3f s",
						edge, r.code, v.Saw, w.Call.Seconds(), w.Return.Seconds(), since.Seconds())
					break
				}
			}
		}
	}
}

// limited reports whether the code has a budget; the end of a budget looks like another
// target.
func (c *court) limited(code string) bool {
	_, ok := c.h.Budgets[code]
	return ok
}
