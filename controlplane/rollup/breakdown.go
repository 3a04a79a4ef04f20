package rollup

import (
	"cmp"
	"encoding/binary"
	"slices"

	"waypost"
)

// MaxNames is how many names of a dimension are kept.
const MaxNames = 1_000

// Dimension is something that clicks are told apart by.
type Dimension uint8

// The dimensions, in the order of the packed form.
const (
	Country Dimension = iota
	City
	Device
	Browser
	OS
	Referrer
	dimensions
)

// Named is the clicks of one name.
type Named struct {
	Name string
	Count
}

// Breakdown is clicks by name in every dimension. The zero value has none.
type Breakdown struct {
	names [dimensions]names
	other [dimensions]Count
}

// Add counts clicks of visitors with a profile. Whether they are bots is told by
// the count.
func (b *Breakdown) Add(p *waypost.ClickProfile, c Count) {
	b.add(Country, p.Country, c)
	b.add(City, CityName(p.Country, p.City), c)
	b.add(Device, p.Device, c)
	b.add(Browser, p.Browser, c)
	b.add(OS, p.OS, c)
	b.add(Referrer, p.Referrer, c)
}

// CityName is the name of a city among those of all countries; SplitCity takes it apart.
func CityName(country, city string) string {
	if city == "" {
		return ""
	}
	return country + "/" + city
}

// SplitCity gives the country and the city of a [CityName].
func SplitCity(name string) (country, city string) {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i], name[i+1:]
		}
	}
	return "", name
}

func (b *Breakdown) add(d Dimension, name string, c Count) { b.names[d].add(name, c) }

// AddOther counts clicks of which no name is known any more.
func (b *Breakdown) AddOther(c Count) {
	for d := range b.other {
		b.other[d].Add(c)
	}
}

// Merge adds all that o has. It does not matter in which order breakdowns are
// merged, unless one was packed in between with more names than can be kept: then
// the sums are the same, but not which names are among others.
func (b *Breakdown) Merge(o *Breakdown) {
	for d := range dimensions {
		for _, n := range o.names[d].list {
			b.add(d, n.Name, n.Count)
		}
		b.other[d].Add(o.other[d])
	}
}

// Names gives the [MaxNames] names with the most clicks, by clicks and then by name, and the sum of all others.
func (b *Breakdown) Names(d Dimension) (names []Named, other Count) {
	names, other = b.names[d].most(), b.other[d]
	for len(names) > MaxNames {
		other.Add(names[len(names)-1].Count)
		names = names[:len(names)-1]
	}
	return names, other
}

// Total is the clicks of all names of a dimension.
func (b *Breakdown) Total(d Dimension) Count {
	sum := b.other[d]
	for _, n := range b.names[d].list {
		sum.Add(n.Count)
	}
	return sum
}

// Append appends the packed form. Names beyond [MaxNames], those with the fewest
// clicks, become others.
func (b *Breakdown) Append(dst []byte) []byte {
	dst = append(dst, version)
	for d := range dimensions {
		names, other := b.Names(d)
		slices.SortFunc(names, func(x, y Named) int { return cmp.Compare(x.Name, y.Name) })
		dst = binary.AppendUvarint(dst, uint64(len(names)))
		for _, n := range names {
			dst = appendText(dst, n.Name)
			dst = appendCount(dst, n.Count)
		}
		dst = appendCount(dst, other)
	}
	return dst
}

func appendCount(dst []byte, c Count) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, c.Clicks), c.Bots)
}

// UnpackBreakdown reads the packed form; no bytes are no clicks. EInvalid: it is not one.
func UnpackBreakdown(p []byte) (*Breakdown, error) {
	b := &Breakdown{}
	if len(p) == 0 {
		return b, nil
	}
	r := &reader{rest: p}
	r.begin()
	for d := range dimensions {
		n := r.length(MaxNames, 3)
		if n > 0 {
			b.names[d].list = make([]Named, 0, n)
		}
		last := ""
		for i := range n {
			name, c := r.text(), Count{r.number(), r.number()}
			if i > 0 && name <= last || !c.sound() {
				r.fail("a name is out of order or has no clicks")
				break
			}
			b.names[d].append(Named{name, c})
			last = name
		}
		b.other[d] = Count{r.number(), r.number()}
		if b.other[d] != (Count{}) && !b.other[d].sound() {
			r.fail("the others are broken")
		}
	}
	if err := r.end("a breakdown of clicks"); err != nil {
		return nil, err
	}
	return b, nil
}
