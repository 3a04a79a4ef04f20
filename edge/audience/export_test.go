package audience

import (
	"net/netip"
)

// Open opens an address as Profile does.
func Open(salts Salts, sealed [16]byte, at int64) netip.Addr {
	a := New(Config{Salts: salts})
	return a.dayOf(at).open(&a.address, &sealed)
}

// Host returns the host of a referrer, as Profile does.
func Host(referrer string) string {
	return string(appendHost(nil, []byte(referrer)))
}

// CleanName shows what is made of a name in a database.
func CleanName(s string) string { return cleanName(s) }

// Look looks at the file at once.
func (p *GeoDB) Look() { p.reloadFile() }

// NewDatabase reads a database and looks an address up in it.
func NewDatabase(content []byte, addr netip.Addr) (country, city string, err error) {
	db, err := newDatabase(content)
	if err != nil {
		return "", "", err
	}
	at, err := db.find(addr)
	if at == nil {
		return "", "", err
	}
	return at.country, at.city, err
}
