package clicks

import (
	"slices"

	"waypost/internal/pacer"
)

// sortPaced sorts s. Scratch is memory for at least as many elements.
func sortPaced[T any](p *pacer.Pacer, s, scratch []T, compare func(a, b T) int) {
	const run = 256
	for i := 0; i < len(s); i += run {
		slices.SortFunc(s[i:min(i+run, len(s))], compare)
		p.Pause()
	}
	from, to := s, scratch[:len(s)]
	for width := run; width < len(s); width *= 2 {
		for i := 0; i < len(s); i += 2 * width {
			middle, end := min(i+width, len(s)), min(i+2*width, len(s))
			mergeRuns(p, to[i:end], from[i:middle], from[middle:end], compare)
		}
		from, to = to, from
	}
	if len(s) > 0 && &from[0] != &s[0] {
		copy(s, from)
	}
}

// mergeRuns merges two sorted runs into dst.
func mergeRuns[T any](p *pacer.Pacer, dst, a, b []T, compare func(a, b T) int) {
	for i := range dst {
		if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
			dst[i], a = a[0], a[1:]
		} else {
			dst[i], b = b[0], b[1:]
		}
		p.Step()
	}
}
