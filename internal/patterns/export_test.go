package patterns

// VisitsOf returns the number of nodes that the last look-up visited.
func VisitsOf(m *Match) int { return m.visits }
