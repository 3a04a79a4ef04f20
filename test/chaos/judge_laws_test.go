package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// everywhere reports whether the outcome of waiting says that every edge has a change.
func (c *court) everywhere(applied string) bool {
	return applied == fmt.Sprintf("all; edges=%d", len(c.h.Edges))
}

// blocks checks that a block is effective at once where it is known, stays, and reaches
// every edge in time while nothing is wrong (I14).
func (c *court) blocks() {
	for _, r := range c.codes {
		for edge, visits := range r.visits {
			c.blocksOf(r, edge, visits)
		}
	}
}

func (c *court) blocksOf(r *register, edge string, visits []Operation) {
	crashes, wipes := c.incidents(Crash, edge), c.incidents(Wipe, edge)
	var seen []Operation // the first blocked answer of each life
	lives := make(map[int]bool)
	for _, v := range visits {
		if v.Outcome != Done || v.Saw == Later {
			continue
		}
		if v.Saw == Blocked {
			if len(r.blocks) == 0 || r.blocks[0].Call > v.Return {
				c.violated("I14", v.Return, "%s answers that %s is blocked, without a request for it", edge, r.code)
			}
			if n := life(crashes, v.Return) + life(wipes, v.Return); !lives[n] {
				lives[n] = true
				seen = append(seen, v)
			}
			continue
		}
		for _, s := range seen {
			if s.Return < v.Call && !forgets(s.Return, v.Return, crashes, wipes) {
				c.violated("I14", v.Return, "%s answers %s with %s, which it had blocked at %.3f s", edge, r.code, v.Saw, s.Return.Seconds())
				break
			}
		}
		since, calm := c.calm(v.Call)
		for _, b := range r.blocks {
			if calm && b.Outcome == Done && max(b.Return, since)+lagTime < v.Call {
				c.violated("I14", v.Return, "%s answers %s with %s, though the block was acknowledged at %.3f s and nothing was wrong since %.3f s",
					edge, r.code, v.Saw, b.Return.Seconds(), since.Seconds())
				break
			}
		}
	}
}

// forgets reports whether an edge may have forgotten at a time a change that it had seen
// only shortly before a crash, or on another disk.
func forgets(seen, now time.Duration, crashes, wipes []Incident) bool {
	for _, w := range wipes {
		if seen <= w.End && w.Begin <= now {
			return true
		}
	}
	for _, k := range crashes {
		if seen <= k.End && k.Begin-seen < syncTime && k.Begin <= now {
			return true
		}
	}
	return false
}

// identities checks that no code names two links (I9).
func (c *court) identities() {
	for _, r := range c.codes {
		var made []Operation
		for _, w := range r.writes {
			if w.Kind == Create && w.Outcome == Done {
				made = append(made, w)
			}
		}
		if len(made) > 1 {
			c.violated("I9", made[1].Return, "%s was given to the link of %s and to that of %s", r.code, made[0].Value, made[1].Value)
		}
		for _, claim := range r.claims {
			if claim.Outcome == Done && len(made) > 0 && made[0].Return < claim.Call {
				c.violated("I9", claim.Return, "%s was given to another link though it is that of %s", r.code, made[0].Value)
			}
		}
	}
}

// availability checks that every visit is answered, except while the edge itself is away,
// and that links that are never changed lead to their targets (I2). Exact budgets are the
// exception: they end early while an edge gets no clicks of them.
func (c *court) availability() {
	away := make(map[string][]Incident)
	for _, edge := range c.h.Edges {
		away[edge] = c.incidents(Away, edge)
	}
	for _, v := range c.h.Operations {
		if v.Kind != Visit {
			continue
		}
		target, stable := c.h.Stable[v.Code]
		served := v.Outcome == Done && v.Saw != Later
		switch {
		case served && (!stable || v.Saw == target), v.Saw == Later && c.limited(v.Code):
		case served && v.Saw != Absent:
			c.violated("I1", v.Return, "%s answers %s with %s and not with %s", v.Node, v.Code, v.Saw, target)
		case !slices.ContainsFunc(away[v.Node], func(i Incident) bool { return i.Begin <= v.Return && v.Call <= i.End }):
			c.violated("I2", v.Return, "%s does not redirect %s: %s %s", v.Node, v.Code, v.Saw, v.Detail)
		}
	}
}

// redirects reports whether a visit was led somewhere.
func redirects(v Operation) bool {
	return v.Outcome == Done && v.Saw != Gone && v.Saw != Absent && v.Saw != Blocked && v.Saw != Later
}

// clicks checks that each redirect is counted once (I5, I6, I7). Visits without an
// answer, and visits to an edge before it lost its disk, may be counted or not.
func (c *court) clicks() {
	for code, r := range c.codes {
		row, ok := c.h.Final.Rows[code]
		if !ok {
			continue
		}
		var least, most int64
		for edge, visits := range r.visits {
			wipes := c.incidents(Wipe, edge)
			for _, v := range visits {
				switch {
				case v.Outcome == Unknown:
					most++
				case redirects(v):
					most++
					if !slices.ContainsFunc(wipes, func(w Incident) bool { return v.Call <= w.End }) {
						least++
					}
				}
			}
		}
		switch {
		case row.Clicks < least:
			c.violated("I5", c.end(), "%d clicks of %s are counted, and %d were answered", row.Clicks, code, least)
		case row.Clicks > most:
			c.violated("I6", c.end(), "%d clicks of %s are counted, and %d at most were answered", row.Clicks, code, most)
		}
	}
}

// budgets checks that the visitors who were led to a target stay within its budget.
func (c *court) budgets() {
	for code, b := range c.h.Budgets {
		r := c.codes[code]
		if r == nil {
			continue
		}
		got := 0
		for _, visits := range r.visits {
			for _, v := range visits {
				if v.Outcome == Done && v.Saw == b.Target {
					if got++; got == b.Most+1 {
						c.violated("budget", v.Return, "%s led more than %d visitors to its target", code, b.Most)
					}
				}
			}
		}
	}
}

// end returns the time of the last request.
func (c *court) end() (last time.Duration) {
	for _, op := range c.h.Operations {
		last = max(last, op.Return)
	}
	return last
}

// final checks the final state: PostgreSQL has every acknowledged write, and every edge
// has the state of PostgreSQL (I3).
func (c *court) final() {
	f, end := c.h.Final, c.end()
	if f.Rows == nil {
		return // the run did not come to its end
	}
	for _, code := range slices.Sorted(maps.Keys(c.codes)) {
		c.finalOf(c.codes[code], end)
	}
	for node, head := range f.Heads {
		if want := f.Heads["postgresql"]; head != want {
			c.violated("I3", end, "%s ends at %s, and PostgreSQL at %s", node, head, want)
		}
	}
	for _, edge := range c.h.Edges {
		for code, row := range f.Rows {
			got, asked := f.Answers[edge][code]
			if want := row.state(); asked && got != want && !c.limited(code) {
				c.violated("I3", end, "%s ends with %s for %s, and PostgreSQL with %s", edge, got, code, want)
			}
		}
	}
	for _, text := range f.Wrong {
		c.violated("I10", end, "%s", strings.TrimSpace(text))
	}
}

func (c *court) finalOf(r *register, end time.Duration) {
	row, ok := c.h.Final.Rows[r.code]
	for _, b := range r.blocks {
		if b.Outcome == Done && !row.Blocked {
			c.violated("I14", end, "the block of %s, acknowledged at %.3f s, is lost", r.code, b.Return.Seconds())
		}
	}
	if c.limited(r.code) {
		return
	}
	row.Blocked = false
	state := row.state()
	if !ok {
		state = Absent
	}
	writes := r.candidates(state, forever)
	newest := before
	for _, w := range writes {
		if w.Return > newest.Return {
			newest = w
		}
	}
	if len(writes) == 0 {
		c.violated("I1", end, "PostgreSQL ends with %s for %s, which was not written for the code", state, r.code)
	}
	for _, w := range r.writes {
		if w.Outcome == Done && newest.Return < w.Call {
			c.violated("durable", end, "PostgreSQL ends with %s for %s: the %s that was acknowledged at %.3f s is lost", state, r.code, w.Kind, w.Return.Seconds())
			break
		}
	}
}
