package audience

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// place locates a visitor, as far as it is known.
type place struct{ country, city string }

// placeOf returns the place of an address. It caches each record of the database, which
// many networks may share.
func (a *Audience) placeOf(addr netip.Addr) place {
	if a.cfg.Places == nil {
		return place{}
	}
	db := a.cfg.Places.current.Load()
	if db != a.at { // another database, whose records lie elsewhere
		a.at = db
		a.places.clear()
	}
	if db == nil {
		return place{}
	}
	where, err := db.find(addr, a.places)
	if err != nil {
		a.cfg.Places.failed(db, err)
	}
	return where
}

// find looks an address up. The error does not reveal the address. The cache is that of
// this database; nil: none.
func (db *database) find(addr netip.Addr, known *cache[place]) (where place, err error) {
	defer func() {
		if p := recover(); p != nil { // in a file that is broken in a way that the library does not expect
			where, err = place{}, fmt.Errorf("reading it panicked: %v", p)
		}
	}()
	if addr.Is6() && db.reader.Metadata.IPVersion == 4 {
		return place{}, nil
	}
	result := db.reader.Lookup(addr)
	if result.Err() != nil || !result.Found() {
		return place{}, result.Err()
	}
	key := binary.LittleEndian.AppendUint64(db.key[:0], uint64(result.Offset()))
	if known != nil {
		if where, ok := known.get(key); ok {
			return where, nil
		}
	}
	var country, city string
	if err := result.DecodePath(&country, "country", "iso_code"); err != nil {
		return place{}, err
	}
	if err := result.DecodePath(&city, "city", "names", "en"); err != nil {
		return place{}, err
	}
	if isCountry(country) {
		where = place{country: strings.Clone(country), city: cleanName(city)}
	}
	if known != nil {
		known.put(key, where)
	}
	return where, nil
}

// isCountry reports whether a text can be a code of ISO 3166-1 alpha-2.
func isCountry(s string) bool {
	return len(s) == 2 && 'A' <= s[0] && s[0] <= 'Z' && 'A' <= s[1] && s[1] <= 'Z'
}

// cleanName makes a name valid UTF-8 of one line and at most MaxName bytes.
func cleanName(s string) string {
	s = s[:min(len(s), 4*MaxName)]
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > MaxName {
		n := MaxName
		for !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.Clone(strings.TrimSpace(s))
}
