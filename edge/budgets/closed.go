package budgets

import (
	"iter"

	"waypost/rules/budget"
)

// closed keeps the totals of accounts without clicks to spend: the accounts of earlier
// boots, and accounts of this boot that have spent all. The edge has to report them
// because a restored PostgreSQL may lack them.
//
// It keeps the accounts that were added last. Once young has half of most, it becomes
// old, and the accounts that were old are forgotten.
type closed struct {
	most       int
	young, old map[entry]budget.Totals
}

func newClosed(most int) closed {
	return closed{most: most, young: make(map[entry]budget.Totals), old: make(map[entry]budget.Totals)}
}

// put adds an account, perhaps in place of others.
func (c *closed) put(e entry, t budget.Totals) {
	if len(c.young) >= max(1, c.most/2) {
		c.young, c.old = make(map[entry]budget.Totals), c.young
	}
	delete(c.old, e)
	c.young[e] = t
}

// get returns the totals of an account.
func (c *closed) get(e entry) (t budget.Totals, ok bool) {
	if t, ok = c.young[e]; !ok {
		t, ok = c.old[e]
	}
	return t, ok
}

// remove forgets an account.
func (c *closed) remove(e entry) {
	delete(c.young, e)
	delete(c.old, e)
}

func (c *closed) len() int { return len(c.young) + len(c.old) }

// all yields the accounts, the old ones first.
func (c *closed) all() iter.Seq2[entry, budget.Totals] {
	return func(yield func(entry, budget.Totals) bool) {
		for _, m := range []map[entry]budget.Totals{c.old, c.young} {
			for e, t := range m {
				if !yield(e, t) {
					return
				}
			}
		}
	}
}
