package rollup

import (
	"cmp"
	"encoding/binary"
	"slices"

	"waypost"
)

// Row counts the clicks of one profile within a quarter of an hour.
type Row struct {
	Quarter uint8  // of the day, UTC
	Profile uint32 // index
	Clicks  uint64 // at least 1
}

// Visitor identifies a visitor by the upper 40 bits of a hash.
type Visitor struct {
	Hash uint64
	Bot  bool
}

func (v Visitor) packed() uint64 {
	p := v.Hash >> hashShift << 1
	if v.Bot {
		p |= 1
	}
	return p
}

// Compare orders visitors as in a delta.
func (v Visitor) Compare(o Visitor) int { return cmp.Compare(v.packed(), o.packed()) }

// Delta holds the clicks of one link and day from one batch.
type Delta struct {
	Profiles []waypost.ClickProfile
	Rows     []Row     // in strict order of quarter and profile
	Visitors []Visitor // in strict order
}

// Total is the clicks of all rows.
func (p *Delta) Total() Count {
	var sum Count
	for _, row := range p.Rows {
		sum.Add(p.count(row))
	}
	return sum
}

func (p *Delta) count(row Row) Count {
	c := Count{Clicks: row.Clicks}
	if p.Profiles[row.Profile].Bot {
		c.Bots = row.Clicks
	}
	return c
}

// Flags of a profile in a delta.
const (
	botFlag   = 1
	ruleFlag  = 2
	utmFlag   = 4
	aliasFlag = 8
)

// Append appends the packed form. Unpack refuses the bytes of a delta that breaks a rule.
func (p *Delta) Append(dst []byte) []byte {
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(len(p.Profiles)))
	for i := range p.Profiles {
		f := &p.Profiles[i]
		flags := byte(0)
		if f.Bot {
			flags = botFlag
		}
		if f.UTM != "" {
			flags |= utmFlag
		}
		if f.Alias != 0 {
			flags |= aliasFlag
		}
		if f.Rule != 0 || f.Variant != 0 {
			dst = append(dst, flags|ruleFlag, f.Rule, f.Variant)
		} else {
			dst = append(dst, flags)
		}
		if f.Alias != 0 {
			dst = append(dst, f.Alias)
		}
		for _, s := range [...]string{f.Country, f.City, f.Device, f.Browser, f.OS, f.Referrer} {
			dst = appendText(dst, s)
		}
		if f.UTM != "" {
			for _, s := range f.UTM.Values() {
				dst = appendText(dst, s)
			}
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Rows)))
	for _, row := range p.Rows {
		dst = append(dst, row.Quarter)
		dst = binary.AppendUvarint(dst, uint64(row.Profile))
		dst = binary.AppendUvarint(dst, row.Clicks)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Visitors)))
	for _, v := range p.Visitors {
		x := v.packed()
		dst = append(dst, byte(x>>40), byte(x>>32), byte(x>>24), byte(x>>16), byte(x>>8), byte(x))
	}
	return dst
}

// maxOfDelta bounds each list of a delta, far above the bounds of a batch.
const maxOfDelta = 1 << 24

// Unpack reads the packed form into the memory of p, with new texts. Other bytes are
// EInvalid and leave nothing of use in p.
func (p *Delta) Unpack(b []byte) error {
	r := newReader(b)
	r.readVersion()
	p.Profiles, p.Rows, p.Visitors = p.Profiles[:0], p.Rows[:0], p.Visitors[:0]
	for range r.length(maxOfDelta, 7) {
		p.Profiles = append(p.Profiles, waypost.ClickProfile{})
		f := &p.Profiles[len(p.Profiles)-1]
		flags := r.byte()
		f.Bot = flags&botFlag != 0
		if flags&ruleFlag != 0 {
			if f.Rule, f.Variant = r.byte(), r.byte(); f.Rule == 0 && f.Variant == 0 {
				r.fail("a profile has an empty rule")
			}
		}
		if flags&aliasFlag != 0 {
			if f.Alias = r.byte(); f.Alias == 0 {
				r.fail("a profile has an empty alias")
			}
		}
		for _, s := range [...]*string{&f.Country, &f.City, &f.Device, &f.Browser, &f.OS, &f.Referrer} {
			*s = r.text()
		}
		if flags&utmFlag != 0 {
			var values waypost.UTMValues
			for k := range values {
				values[k] = r.text()
			}
			if f.UTM = waypost.PackUTM(values); f.UTM == "" || f.UTM.Values() != values {
				r.fail("a profile has utm parameters that are none")
			}
		}
		if flags > botFlag|ruleFlag|utmFlag|aliasFlag || r.why != "" {
			r.fail("a profile is broken")
			break
		}
	}
	n := r.length(maxOfDelta, 3)
	if n == 0 {
		r.fail("it has no clicks")
	}
	p.Rows = slices.Grow(p.Rows, n)
	for i := range n {
		quarter, profile, clicks := r.byte(), r.number(), r.number()
		if quarter >= Quarters || profile >= uint64(len(p.Profiles)) || clicks < 1 || clicks > MaxCount {
			r.fail("a row is broken")
			break
		}
		row := Row{Quarter: quarter, Profile: uint32(profile), Clicks: clicks}
		if i > 0 && !p.Rows[i-1].Before(row) {
			r.fail("its rows are out of order")
			break
		}
		p.Rows = append(p.Rows, row)
	}
	n = r.length(maxOfDelta, hashBytes+1)
	p.Visitors = slices.Grow(p.Visitors, n)
	last := uint64(0)
	for i := range n {
		v := r.bytes(hashBytes + 1)
		x := uint64(binary.BigEndian.Uint16(v))<<32 | uint64(binary.BigEndian.Uint32(v[2:]))
		if i > 0 && x <= last || x>>1 > hashMask {
			r.fail("its visitors are out of order")
			break
		}
		p.Visitors, last = append(p.Visitors, Visitor{Hash: x >> 1 << hashShift, Bot: x&1 == 1}), x
	}
	return r.checkEnd("a delta of clicks")
}

// Before reports whether the row comes before o in a delta.
func (row Row) Before(o Row) bool {
	return row.Quarter < o.Quarter || row.Quarter == o.Quarter && row.Profile < o.Profile
}
