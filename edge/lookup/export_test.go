package lookup

import "waypost"

// Look finds a record like Find, and stays: it returns the bytes in the table, which are
// valid until leave is called.
func (t *Table) Look(domain waypost.DomainID, code []byte) (raw []byte, leave func()) {
	s, parity, ok := t.enter()
	if !ok {
		panic("the table is closed")
	}
	p := t.seek(t.hash(domain, code), domain, code)
	raw = t.at(offsetOf(p.slot))
	l, _ := layoutOf(raw)
	return raw[:l.end], func() { s.leave(parity) }
}

// DamageLength makes a record seem longer than its segment.
func (t *Table) DamageLength(domain waypost.DomainID, code []byte) {
	p := t.seek(t.hash(domain, code), domain, code)
	raw := t.at(offsetOf(p.slot))
	raw[6], raw[7] = 0xff, 0xff
}

// DamageName flips a bit of a record's name.
func (t *Table) DamageName(domain waypost.DomainID, code []byte) {
	p := t.seek(t.hash(domain, code), domain, code)
	raw := t.at(offsetOf(p.slot))
	l, _ := layoutOf(raw)
	raw[l.name] ^= 1
}
