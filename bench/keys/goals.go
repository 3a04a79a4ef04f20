//go:build linux

package main

import "waypost/bench"

// setGoals holds the figures of a section against what the project has set itself.
func setGoals(s *bench.Section) {
	figure := func(what, name, measure string, most float64) {
		if m := s.Find(name, measure); m != nil {
			s.Goals = append(s.Goals, bench.Goal{What: what, Most: most, Figure: m.Summary.Median})
		}
	}
	for _, name := range []string{mint, mintMany} {
		figure("ns of CPU for a key of "+name, name, keyCPU, 300)
	}
	figure("allocations for a key of "+mint, mint, keyAllocations, 1)
	if m := s.Find(withKeys, createRate); m != nil && m.Ratio != nil {
		s.Goals = append(s.Goals, bench.Goal{
			What: "creates per second without the KGS over those with it", Most: mostOverWithout, Figure: 1 / m.Ratio.Median,
		})
	}
}

// mostOverWithout is the reciprocal of 0.98, the share of creates that must remain
// with the key generation service in their way.
const mostOverWithout = 1 / 0.98
