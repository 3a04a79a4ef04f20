package patterns

// VisitsOf returns the number of nodes that the last look-up visited.
func VisitsOf(m *Match) int { return m.visits }

// Visits returns an upper bound of the nodes that a look-up visits.
func (x *Index) Visits() int { return x.root.visits }

// CountVisits does the same from the whole tree.
func (x *Index) CountVisits() int { return x.root.countVisits() }

func (n *node) countVisits() int {
	most := 0
	for _, c := range n.children {
		most = max(most, c.countVisits())
	}
	if n.placeholder != nil {
		most += n.placeholder.countVisits()
	}
	return most + 1
}
