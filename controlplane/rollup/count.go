package rollup

// MaxCount is the highest count that is kept; what would go beyond it stays there.
// Two of them still fit a bigint of PostgreSQL.
const MaxCount = 1 << 61

// Count is a number of clicks and, of these, of bots.
type Count struct{ Clicks, Bots uint64 }

// Add adds o.
func (c *Count) Add(o Count) {
	c.Clicks, c.Bots = plus(c.Clicks, o.Clicks), plus(c.Bots, o.Bots)
}

// plus adds numbers of which each is MaxCount at most.
func plus(a, b uint64) uint64 { return min(min(a, MaxCount)+min(b, MaxCount), MaxCount) }

// sound reports whether c can be the count of a name or quarter.
func (c Count) sound() bool {
	return c.Clicks >= 1 && c.Clicks <= MaxCount && c.Bots <= c.Clicks
}
