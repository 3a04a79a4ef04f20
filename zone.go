package waypost

import (
	"strings"
	"time"
)

// LoadZone returns a time zone of the IANA database, such as Europe/Berlin. The names of
// the database begin with a capital; other names are files of the system. ok is false
// for an unknown name.
func LoadZone(name string) (zone *time.Location, ok bool) {
	if name == "" || name == "Local" || name[0] < 'A' || name[0] > 'Z' {
		return nil, false
	}
	for i := range len(name) {
		c := name[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("/_+-", rune(c)) {
			return nil, false
		}
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

// BeginOfDay returns the first quarter of an hour of a moment's date in its zone. It is
// not always midnight, which may be skipped or occur twice where clocks change at night.
func BeginOfDay(t time.Time) time.Time {
	const quarter = 15 * time.Minute
	y, m, d := t.Date()
	first := time.Date(y, m, d, 12, 0, 0, 0, t.Location()).Add(-15 * time.Hour).Truncate(quarter)
	for dateBefore(first, t) {
		first = first.Add(quarter)
	}
	return first
}

// dateBefore reports whether the date of a is before the date of b.
func dateBefore(a, b time.Time) bool {
	return a.Year() < b.Year() || a.Year() == b.Year() && a.YearDay() < b.YearDay()
}
