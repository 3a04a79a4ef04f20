package audience

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// location describes a record of a database, which many networks may share.
type location struct {
	record        uintptr // its offset
	country, city string
}

// locationCache remembers records of one database. Each record has two slots. A new
// record moves the one in its first slot to the second. Many goroutines use it at once.
type locationCache [1 << locationBits]atomic.Pointer[location]

// locationBits make the cache hold 32,768 records, in less than 6 MiB.
const locationBits = 15

func (k *locationCache) slots(record uintptr) (first, second *atomic.Pointer[location]) {
	i := uint64(record) * 0x9e3779b97f4a7c15 >> (64 - locationBits)
	return &k[i], &k[i^1]
}

func (k *locationCache) get(record uintptr) *location {
	first, second := k.slots(record)
	if at := first.Load(); at != nil && at.record == record {
		return at
	}
	if at := second.Load(); at != nil && at.record == record {
		return at
	}
	return nil
}

func (k *locationCache) put(at *location) {
	first, second := k.slots(at.record)
	if before := first.Swap(at); before != nil {
		second.Store(before)
	}
}

// Locate returns the country of an address, as ISO 3166-1 alpha-2 in upper case, and the
// English name of its city. Zero and empty mean that they are unknown. Many goroutines
// may call it at once. It waits for nothing, and allocates only for a record of the
// database that was not asked for recently.
func (p *GeoDB) Locate(addr netip.Addr) (country [2]byte, city string) {
	if at := p.find(addr); at != nil && at.country != "" {
		return [2]byte{at.country[0], at.country[1]}, at.city
	}
	return country, ""
}

// find returns the location of an address, nil if it is unknown.
func (p *GeoDB) find(addr netip.Addr) *location {
	db := p.current.Load()
	if db == nil || !addr.IsValid() {
		return nil
	}
	at, err := db.find(addr.Unmap())
	if err != nil {
		p.failed(db, err)
	}
	return at
}

// find looks an address up. The error does not reveal the address.
func (db *database) find(addr netip.Addr) (at *location, err error) {
	defer func() {
		if p := recover(); p != nil { // in a file that is broken in a way that the library does not expect
			at, err = nil, fmt.Errorf("reading it panicked: %v", p)
		}
	}()
	if addr.Is6() && db.reader.Metadata.IPVersion == 4 {
		return nil, nil
	}
	result := db.reader.Lookup(addr)
	if result.Err() != nil || !result.Found() {
		return nil, result.Err()
	}
	if at := db.known.get(result.Offset()); at != nil {
		return at, nil
	}
	var country, city string
	if err := result.DecodePath(&country, "country", "iso_code"); err != nil {
		return nil, err
	}
	if err := result.DecodePath(&city, "city", "names", "en"); err != nil {
		return nil, err
	}
	at = &location{record: result.Offset()}
	if isCountry(country) {
		at.country, at.city = strings.Clone(country), cleanName(city)
	}
	db.known.put(at)
	return at, nil
}

// isCountry reports whether a text can be a code of ISO 3166-1 alpha-2.
func isCountry(s string) bool {
	return len(s) == 2 && 'A' <= s[0] && s[0] <= 'Z' && 'A' <= s[1] && s[1] <= 'Z'
}

// cleanName makes a name valid UTF-8 in NFC, of one line and at most MaxName bytes.
func cleanName(s string) string {
	s = norm.NFC.String(s[:min(len(s), 4*MaxName)])
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
