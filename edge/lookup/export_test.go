package lookup

import "waypost"

// Look finds a record like Find, and stays: it gives the bytes in the table
// themselves, until leave is called.
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

// Damage flips a bit of a record in the table: of its name, or of its payload.
func (t *Table) Damage(domain waypost.DomainID, code []byte, name bool) {
	p := t.seek(t.hash(domain, code), domain, code)
	raw := t.at(offsetOf(p.slot))
	l, _ := layoutOf(raw)
	if name {
		raw[l.name] ^= 1
	} else {
		raw[l.payload] ^= 1
	}
}

// DamageLength makes a record seem longer than what there is.
func (t *Table) DamageLength(domain waypost.DomainID, code []byte) {
	p := t.seek(t.hash(domain, code), domain, code)
	raw := t.at(offsetOf(p.slot))
	raw[6], raw[7] = 0xff, 0xff
}
