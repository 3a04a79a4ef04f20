package rollup

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"waypost"
)

// MaxNames bounds the names of a dimension.
const MaxNames = 1_000

// Dimension is a property by which clicks are grouped.
type Dimension uint8

// The dimensions, in the order of the packed form.
const (
	Country Dimension = iota
	City
	Device
	Browser
	OS
	Referrer
	Rule
	Variant
	Alias
	UTM        // the first of five, in the order of a waypost.UTM
	dimensions = UTM + Dimension(len(waypost.UTMValues{}))

	// From here on dimensions are packed only where some click has a name.
	firstSparse = Rule // a bit of one byte stands for each
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

// Add counts clicks of visitors with a profile. The count says how many are bots.
func (b *Breakdown) Add(p *waypost.ClickProfile, c Count) {
	b.addName(Country, p.Country, c)
	b.addName(City, CityName(p.Country, p.City), c)
	b.addName(Device, p.Device, c)
	b.addName(Browser, p.Browser, c)
	b.addName(OS, p.OS, c)
	b.addName(Referrer, p.Referrer, c)
	b.addName(Rule, ids[p.Rule], c)
	b.addName(Variant, VariantName(p.Rule, p.Variant), c)
	b.addName(Alias, ids[p.Alias], c)
	for i, value := range p.UTM.Values() {
		b.addName(UTM+Dimension(i), value, c)
	}
}

// ids are the names of rules, variants and aliases; the name of 0 is empty.
var ids = func() (names [256]string) {
	for i := range names[1:] {
		names[i+1] = strconv.Itoa(i + 1)
	}
	return names
}()

// VariantName returns the name of a rule's variant; see SplitVariant.
func VariantName(rule, variant uint8) string {
	if variant == 0 {
		return ""
	}
	return ids[rule] + "/" + ids[variant]
}

// SplitVariant returns the rule and the variant of a [VariantName].
func SplitVariant(name string) (rule, variant string) {
	rule, variant, _ = strings.Cut(name, "/")
	return rule, variant
}

// CityName returns the name of a city that is unique among countries; see SplitCity.
func CityName(country, city string) string {
	if city == "" {
		return ""
	}
	return country + "/" + city
}

// SplitCity returns the country and the city of a [CityName].
func SplitCity(name string) (country, city string) {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i], name[i+1:]
		}
	}
	return "", name
}

func (b *Breakdown) addName(d Dimension, name string, c Count) { b.names[d].addName(name, c) }

// AddOther counts clicks without names.
func (b *Breakdown) AddOther(c Count) {
	for d := range b.other {
		b.other[d].Add(c)
	}
}

// Merge adds all clicks of o. The order of merges does not matter, unless a breakdown was
// packed in between with more than MaxNames names: then the sums are the same, but other
// names may be in "other".
func (b *Breakdown) Merge(o *Breakdown) {
	for d := range dimensions {
		if len(b.names[d].list) == 0 {
			b.names[d] = names{list: slices.Clone(o.names[d].list)}
		} else {
			for _, n := range o.names[d].list {
				b.addName(d, n.Name, n.Count)
			}
		}
		b.other[d].Add(o.other[d])
	}
}

// Absorb adds all clicks of o, as [Breakdown.Merge] does, and copies new names, because a
// name of an unpacked breakdown keeps the whole text of that breakdown in memory.
func (b *Breakdown) Absorb(o *Breakdown) {
	for d := range dimensions {
		to := &b.names[d]
		for _, n := range o.names[d].list {
			if i := to.find(n.Name); i >= 0 {
				to.list[i].Add(n.Count)
				continue
			}
			n.Name = strings.Clone(n.Name)
			to.append(n)
		}
		b.other[d].Add(o.other[d])
	}
}

// Names returns the [MaxNames] names with the most clicks, by clicks and then by name,
// and the sum of all others.
func (b *Breakdown) Names(d Dimension) (names []Named, other Count) {
	names, other = b.names[d].most(), b.other[d]
	for len(names) > MaxNames {
		other.Add(names[len(names)-1].Count)
		names = names[:len(names)-1]
	}
	return names, other
}

// Named returns the clicks of one name, and whether the others may hold more of them.
func (b *Breakdown) Named(d Dimension, name string) (c Count, more bool) {
	return b.names[d].get(name), b.other[d].Clicks > 0
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
	for d := range firstSparse {
		dst = b.appendDimension(dst, d)
	}
	at := len(dst)
	dst = append(dst, 0)
	for d := firstSparse; d < dimensions; d++ {
		if !b.nameless(d) {
			dst[at] |= 1 << (d - firstSparse)
			dst = b.appendDimension(dst, d)
		}
	}
	return dst
}

func (b *Breakdown) appendDimension(dst []byte, d Dimension) []byte {
	names, other := b.names[d].list, b.other[d]
	if len(names) > MaxNames {
		names, other = b.Names(d)
	}
	byName := func(x, y Named) int { return cmp.Compare(x.Name, y.Name) }
	if !slices.IsSortedFunc(names, byName) { // as they were unpacked, if none is new
		names = slices.Clone(names)
		slices.SortFunc(names, byName)
	}
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, n := range names {
		dst = appendText(dst, n.Name)
		dst = appendCount(dst, n.Count)
	}
	return appendCount(dst, other)
}

// nameless reports whether a dimension holds as many clicks as the other dimensions, and
// all of them without a name.
func (b *Breakdown) nameless(d Dimension) bool {
	var unnamed Count
	switch list := b.names[d].list; {
	case len(list) == 1 && list[0].Name == "":
		unnamed = list[0].Count
	case len(list) > 0:
		return false
	}
	return b.other[d] == Count{} && unnamed == b.Total(Country)
}

func appendCount(dst []byte, c Count) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, c.Clicks), c.Bots)
}

// Unpack reads the packed form into the memory of b; no bytes are no clicks. It returns
// EInvalid for other bytes, and b has no clicks then.
func (b *Breakdown) Unpack(p []byte) error {
	b.clear()
	if len(p) == 0 {
		return nil
	}
	r := newReader(p)
	r.readVersion()
	for d := range firstSparse {
		b.unpackDimension(r, d)
	}
	sparse := r.byte()
	for d := firstSparse; d < dimensions; d++ {
		if sparse&(1<<(d-firstSparse)) != 0 {
			if b.unpackDimension(r, d); b.nameless(d) {
				r.fail("a dimension is there without need")
			}
		} else if total := b.Total(Country); total.Clicks > 0 {
			b.names[d].append(Named{Count: total})
		}
	}
	if err := r.checkEnd("a breakdown of clicks"); err != nil {
		b.clear()
		return err
	}
	return nil
}

func (b *Breakdown) clear() {
	for d := range b.names {
		b.names[d] = names{list: b.names[d].list[:0]}
	}
	b.other = [dimensions]Count{}
}

func (b *Breakdown) unpackDimension(r *reader, d Dimension) {
	n := r.length(MaxNames, 3)
	b.names[d].list = slices.Grow(b.names[d].list, n)
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

// names holds clicks by unique name, in no order. A few names, which nearly all links
// have, are searched one by one. Longer lists get an index at the first search, because
// days that are only read through do not need an index.
type names struct {
	list  []Named
	index map[string]int // of the list; nil while there are few, or no search
}

const fewNames = 16

// find returns the index of a name; -1 if it is not there.
func (n *names) find(name string) int {
	if n.index == nil && len(n.list) > fewNames {
		n.index = make(map[string]int, 2*len(n.list))
		for i := range n.list {
			n.index[n.list[i].Name] = i
		}
	}
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range n.list {
		if n.list[i].Name == name {
			return i
		}
	}
	return -1
}

func (n *names) addName(name string, c Count) {
	if i := n.find(name); i >= 0 {
		n.list[i].Add(c)
		return
	}
	n.append(Named{name, c})
}

// append adds a name that is not there.
func (n *names) append(x Named) {
	n.list = append(n.list, x)
	if n.index != nil {
		n.index[x.Name] = len(n.list) - 1
	}
}

// get returns the clicks of a name; zero if it is not there.
func (n *names) get(name string) Count {
	if i := n.find(name); i >= 0 {
		return n.list[i].Count
	}
	return Count{}
}

// keep sets the clicks of a name, and removes the name at zero clicks.
func (n *names) keep(name string, c Count) {
	i := n.find(name)
	if i < 0 {
		return
	}
	if c.Clicks > 0 {
		n.list[i].Count = c
		return
	}
	last := len(n.list) - 1
	if n.list[i] = n.list[last]; n.index != nil {
		n.index[n.list[i].Name] = i
		delete(n.index, name)
	}
	n.list[last] = Named{}
	n.list = n.list[:last]
}

// most returns all names, those with the most clicks first.
func (n *names) most() []Named {
	list := slices.Clone(n.list)
	slices.SortFunc(list, func(x, y Named) int { return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Name, y.Name)) })
	return list
}

// minus subtracts o, at most to zero. The remaining bots are at most the remaining
// clicks.
func (c Count) minus(o Count) Count {
	d := Count{Clicks: c.Clicks - min(c.Clicks, o.Clicks), Bots: c.Bots - min(c.Bots, o.Bots)}
	d.Bots = min(d.Bots, d.Clicks)
	return d
}

// Subtract removes the clicks of o, which were all added before. In every dimension the
// sum falls by the sum of o. Clicks of a name that b lacks are taken from the others of
// b. When the others of o exceed the others of b, because each has kept other names, the
// rest is taken from the names with the fewest clicks.
func (b *Breakdown) Subtract(o *Breakdown) {
	for d := range dimensions {
		rest := o.other[d]
		for _, n := range o.names[d].list {
			have := b.names[d].get(n.Name)
			rest.Add(n.minus(have))
			b.names[d].keep(n.Name, have.minus(n.Count))
		}
		have := b.other[d]
		b.other[d] = have.minus(rest)
		b.takeFewest(d, rest.minus(have))
	}
}

// takeFewest takes clicks from the names with the fewest clicks.
func (b *Breakdown) takeFewest(d Dimension, rest Count) {
	if rest.Clicks == 0 {
		return
	}
	names := slices.Clone(b.names[d].list)
	slices.SortFunc(names, func(x, y Named) int {
		return cmp.Or(cmp.Compare(x.Clicks, y.Clicks), cmp.Compare(x.Name, y.Name))
	})
	for _, n := range names {
		if rest.Clicks == 0 {
			return
		}
		b.names[d].keep(n.Name, n.minus(rest))
		rest = rest.minus(n.Count)
	}
}

// Trim keeps the most names with the most clicks in each dimension, and moves the rest to
// the others.
func (b *Breakdown) Trim(most int) {
	for d := range dimensions {
		if len(b.names[d].list) <= most {
			continue
		}
		for _, n := range b.names[d].most()[most:] {
			b.names[d].keep(n.Name, Count{})
			b.other[d].Add(n.Count)
		}
	}
}
