package rollup

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// MaxTop bounds the links of a day.
const MaxTop = 1_000

// LinkCount holds the clicks of a link.
type LinkCount struct {
	Link int64
	Count
}

// compareMost orders links by their clicks, most first, and then by link.
func compareMost(x, y LinkCount) int {
	return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Link, y.Link))
}

// Top holds the links of a workspace with the most clicks on a day. As long as counts
// only grow, it has the first [MaxTop] of all links that Set got. The zero value is a
// day without clicks.
type Top struct {
	links []LinkCount // in order of the links
	floor uint64      // an upper bound of the clicks of any other link
}

// UnknownTop returns the Top of a day with unknown links that have floor clicks at most.
func UnknownTop(floor uint64) *Top { return &Top{floor: min(floor, MaxCount)} }

// Links returns the links, by id.
func (t *Top) Links() []LinkCount { return t.links }

// Set sets the clicks of links, each once. A link without clicks is removed.
func (t *Top) Set(links ...LinkCount) {
	now := slices.Clone(links)
	slices.SortFunc(now, func(x, y LinkCount) int { return cmp.Compare(x.Link, y.Link) })
	for _, l := range t.links {
		if _, told := slices.BinarySearchFunc(now[:len(links)], l.Link, func(x LinkCount, link int64) int {
			return cmp.Compare(x.Link,
				link)
		}); !told {
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

// UnpackTop reads the packed form; EInvalid for other bytes.
func UnpackTop(p []byte) (*Top, error) {
	r := newReader(p)
	r.readVersion()
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
	if err := r.checkEnd("a list of links"); err != nil {
		return nil, err
	}
	return t, nil
}

// TopSum adds up the lists of several days, to find the links with the most clicks in all
// of them. It is the threshold algorithm of Fagin, Lotem and Naor ("Optimal aggregation
// algorithms for middleware", 2003): a link has at most the clicks of the lists that hold
// it plus the floors of the others. The search ends when enough links have more clicks
// than all others can have.
type TopSum struct {
	links map[int64]*sumOfLink
	floor uint64 // of all days together
}

type sumOfLink struct {
	listed uint64 // clicks in lists
	floors uint64 // of the days of these lists
}

// AddDay adds the list of a day.
func (s *TopSum) AddDay(t *Top) {
	s.floor = plus(s.floor, t.floor)
	for _, l := range t.links {
		of := s.of(l.Link)
		of.listed, of.floors = plus(of.listed, l.Clicks), plus(of.floors, t.floor)
	}
}

// AddClicks adds clicks that are in no list.
func (s *TopSum) AddClicks(link int64, clicks uint64) {
	of := s.of(link)
	of.listed = plus(of.listed, clicks)
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

// Bound is an upper bound of the clicks of a link.
type Bound struct {
	Link int64 // 0 for all links that are in no list
	Most uint64
}

// Bounds returns the bounds of all links, highest first, and as the last element the
// bound of any other link.
func (s *TopSum) Bounds() []Bound {
	all := make([]Bound, 0, len(s.links)+1)
	for link, of := range s.links {
		all = append(all, Bound{link, plus(of.listed, s.floor-min(s.floor, of.floors))})
	}
	slices.SortFunc(all, func(x, y Bound) int { return cmp.Or(cmp.Compare(y.Most, x.Most), cmp.Compare(x.Link, y.Link)) })
	return append(all, Bound{Most: s.floor})
}

// Best returns the first of the counted links by their clicks, and whether no other link,
// which has at most rest clicks, can have more.
func Best(counted []LinkCount, limit int, rest uint64) (best []LinkCount, exact bool) {
	best = slices.DeleteFunc(slices.Clone(counted), func(l LinkCount) bool { return l.Clicks == 0 })
	slices.SortFunc(best, compareMost)
	if len(best) < limit {
		return best, rest == 0
	}
	best = best[:limit]
	return best, limit == 0 || best[limit-1].Clicks >= rest
}
