package rollup

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// MaxTop is how many links of a day are kept.
const MaxTop = 1_000

// LinkCount is the clicks of a link.
type LinkCount struct {
	Link int64
	Count
}

// compareMost orders links by their clicks, most first, and then by link.
func compareMost(x, y LinkCount) int {
	return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Link, y.Link))
}

// Top is the links of a workspace with the most clicks on a day. As long as counts
// only grow, it has the first [MaxTop] of all links that it was told of. The zero value
// is of a day without clicks.
type Top struct {
	links []LinkCount // in order of the links
	floor uint64
}

// UnknownTop is of a day of which the links are not known, and no one has more than
// so many clicks.
func UnknownTop(floor uint64) *Top { return &Top{floor: min(floor, MaxCount)} }

// Links gives the links, in their order.
func (t *Top) Links() []LinkCount { return t.links }

// Floor gives the clicks that no other link has more than.
func (t *Top) Floor() uint64 { return t.floor }

// Set says how many clicks links now have, each once. Without clicks one is no
// longer there.
func (t *Top) Set(links ...LinkCount) {
	now := slices.Clone(links)
	slices.SortFunc(now, func(x, y LinkCount) int { return cmp.Compare(x.Link, y.Link) })
	for _, l := range t.links {
		if _, told := slices.BinarySearchFunc(now[:len(links)], l.Link, func(x LinkCount, link int64) int { return cmp.Compare(x.Link, link) }); !told {
			now = append(now, l)
		}
	}
	t.links = slices.DeleteFunc(now, func(l LinkCount) bool { return !l.sound() })
	t.cut(MaxTop)
}

// Cut keeps the most links with the most clicks.
func (t *Top) Cut(most int) {
	if len(t.links) > most {
		t.cut(most)
	}
}

func (t *Top) cut(most int) {
	if len(t.links) > most {
		slices.SortFunc(t.links, compareMost)
		t.floor = max(t.floor, t.links[most].Clicks)
		t.links = t.links[:most]
	}
	slices.SortFunc(t.links, func(x, y LinkCount) int { return cmp.Compare(x.Link, y.Link) })
}

// Append appends the packed form.
func (t *Top) Append(dst []byte) []byte {
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(len(t.links)))
	last := uint64(0)
	for _, l := range t.links {
		dst = appendCount(binary.AppendUvarint(dst, uint64(l.Link)-last), l.Count)
		last = uint64(l.Link)
	}
	return binary.AppendUvarint(dst, t.floor)
}

// UnpackTop reads the packed form. EInvalid: it is not one.
func UnpackTop(p []byte) (*Top, error) {
	r := &reader{rest: p}
	r.begin()
	n := r.length(MaxTop, 3)
	t := &Top{links: make([]LinkCount, 0, n)}
	last := uint64(0)
	for i := range n {
		step := r.number()
		link, c := last+step, Count{r.number(), r.number()}
		if link < last || i > 0 && step == 0 || int64(link) < 0 || !c.sound() {
			r.fail("a link is out of order or has no clicks")
			break
		}
		t.links, last = append(t.links, LinkCount{int64(link), c}), link
	}
	if t.floor = r.number(); t.floor > MaxCount {
		r.fail("its floor is out of bounds")
	}
	if err := r.end("a list of links"); err != nil {
		return nil, err
	}
	return t, nil
}

// TopSum adds up the lists of several days, to find the links that have the most
// clicks in all of them. It is the threshold algorithm of Fagin, Lotem and Naor ("Optimal
// aggregation algorithms for middleware", 2003): a link can have no more than what lists
// tell of it and, for days whose list it is not in, what is the floor of these. When
// enough links are known to have more than all others can have, they are the ones.
type TopSum struct {
	links map[int64]*sumOfLink
	floor uint64 // of all days together
}

type sumOfLink struct {
	told   uint64 // clicks
	floors uint64 // of the days of which these are
}

// AddDay adds the list of a day.
func (s *TopSum) AddDay(t *Top) {
	s.floor = plus(s.floor, t.floor)
	for _, l := range t.links {
		of := s.of(l.Link)
		of.told, of.floors = plus(of.told, l.Clicks), plus(of.floors, t.floor)
	}
}

// AddClicks adds clicks that no list has.
func (s *TopSum) AddClicks(link int64, clicks uint64) {
	of := s.of(link)
	of.told = plus(of.told, clicks)
}

func (s *TopSum) of(link int64) *sumOfLink {
	of := s.links[link]
	if of == nil {
		if s.links == nil {
			s.links = make(map[int64]*sumOfLink)
		}
		of = &sumOfLink{}
		s.links[link] = of
	}
	return of
}

// Bound is the most clicks that a link can have.
type Bound struct {
	Link int64 // 0 for all that were not told of
	Most uint64
}

// Bounds gives all links by the most clicks that each can have, in falling order, and
// as the last one that of any other link.
func (s *TopSum) Bounds() []Bound {
	all := make([]Bound, 0, len(s.links)+1)
	for link, of := range s.links {
		all = append(all, Bound{link, plus(of.told, s.floor-min(s.floor, of.floors))})
	}
	slices.SortFunc(all, func(x, y Bound) int { return cmp.Or(cmp.Compare(y.Most, x.Most), cmp.Compare(x.Link, y.Link)) })
	return append(all, Bound{Most: s.floor})
}

// Best gives the first links of those that were counted, by their clicks, and whether no
// link that was not counted, which has rest at most, can have more.
func Best(counted []LinkCount, limit int, rest uint64) (best []LinkCount, exact bool) {
	best = slices.DeleteFunc(slices.Clone(counted), func(l LinkCount) bool { return l.Clicks == 0 })
	slices.SortFunc(best, compareMost)
	if len(best) < limit {
		return best, rest == 0
	}
	best = best[:limit]
	return best, best[limit-1].Clicks >= rest
}
