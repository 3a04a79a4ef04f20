//go:build failpoints || race

package failpoint

// Compiled says that places of a part are marked: with the tag failpoints, and with the
// race detector, so that tests find them without a build of their own.
const Compiled = true

// Hit marks a place.
func (p *Points) Hit(name string) {
	Hit(name)
	if p != nil && p.Reached != nil {
		p.Reached(name)
	}
}

// Number returns a number of the part, or the one that a test has set instead.
func (p *Points) Number(name string, n int64) int64 {
	if p != nil {
		if other, ok := p.Numbers[name]; ok {
			return other
		}
	}
	return Number(name, n)
}
