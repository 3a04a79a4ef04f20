package clicks

import (
	"bytes"
	"slices"

	"waypost"
)

// place is where a link comes in a fold: by domain, then by code.
type place struct {
	prefix uint64
	domain waypost.DomainID
	n      uint32 // of the link
}

// order gives the links' places in order. It sorts by one byte after the other, from
// the last one of the prefix to the first one of the domain, and leaves out those in
// which all are alike; what is left is codes with the same prefix.
func (t *tally) order() []place {
	n := len(t.links)
	t.from, t.to = slices.Grow(t.from[:0], n), slices.Grow(t.to[:0], n)
	from, to := t.from[:n], t.to[:n]
	for i := range t.links {
		from[i] = place{t.links[i].prefix, t.links[i].domain, uint32(i)}
	}
	for shift := 0; shift < 96; shift += 8 {
		var begins [257]int
		for i := range from {
			begins[1+from[i].byteAt(shift)]++
		}
		if slices.Contains(begins[1:], len(from)) {
			continue
		}
		for i := range 255 {
			begins[i+1] += begins[i]
		}
		for i := range from {
			b := from[i].byteAt(shift)
			to[begins[b]] = from[i]
			begins[b]++
		}
		from, to = to, from
	}
	for begin := 0; begin < len(from); {
		end := begin + 1
		for end < len(from) && from[end].prefix == from[begin].prefix && from[end].domain == from[begin].domain {
			end++
		}
		slices.SortFunc(from[begin:end], func(a, b place) int {
			return bytes.Compare(t.restOf(&t.links[a.n]), t.restOf(&t.links[b.n]))
		})
		begin = end
	}
	return from
}

// byteAt gives a byte of the domain and the prefix together, taken as one number.
func (p *place) byteAt(shift int) byte {
	if shift < 64 {
		return byte(p.prefix >> shift)
	}
	return byte(p.domain >> (shift - 64))
}
