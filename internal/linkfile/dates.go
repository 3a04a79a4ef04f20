package linkfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"waypost/api"
)

// ISO is the notation of dates as the API has them, of databases, and of days such as
// 2030-12-31.
const ISO = "iso"

// notation is a way to write dates: the layouts of days, perhaps with a time behind them.
type notation struct {
	name    string
	days    []string
	example string
	unit    time.Duration // of a number since 1970
}

type notationTable []notation

var notations = notationTable{
	{name: ISO, days: []string{"2006-01-02"}, example: "2030-12-31"},
	{name: "dmy", days: []string{"2.1.2006", "2/1/2006", "2-1-2006"}, example: "31.12.2030"},
	{name: "mdy", days: []string{"1/2/2006", "1-2-2006"}, example: "12/31/2030"},
	{name: "ymd", days: []string{"2006/1/2", "2006.1.2"}, example: "2030/12/31"},
	{name: "words", days: []string{
		"Jan 2, 2006", "January 2, 2006", "2 Jan 2006", "2 January 2006", "2-Jan-2006", "Mon, 2 Jan 2006", "Mon Jan 2 2006",
	}, example: "Dec 31, 2030"},
	{name: "unix", unit: time.Second, example: "1924991999"},
	{name: "unix_ms", unit: time.Millisecond, example: "1924991999000"},
}

func (t notationTable) named(name string) *notation {
	for i := range t {
		if t[i].name == name {
			return &t[i]
		}
	}
	return nil
}

// Notations lists the notations of dates.
func Notations() (names []string) {
	for i := range notations {
		names = append(names, notations[i].name)
	}
	return names
}

// times are the layouts of the time behind a day.
var times = []string{
	" 15:04:05", " 15:04", "T15:04:05", "T15:04", " 3:04:05 PM", " 3:04 PM", ", 15:04:05", ", 15:04", ", 3:04:05 PM", ", 3:04 PM",
}

// zones are the layouts of the zone behind a time.
var zones = []string{"", "Z07:00", " Z07:00", "-0700", " -0700", "Z07", " Z07"}

// isNever reports whether a cell says that there is no date.
func isNever(cell string) bool {
	switch strings.ToLower(cell) {
	case "", "0", "never", "null", `\n`, "none", "-", "n/a", "false":
		return true
	}
	return strings.HasPrefix(cell, "0000-00-00")
}

// fits reports whether a cell can be read in a notation.
func fits(name, cell string) bool {
	cell = strings.TrimSpace(cell)
	if isNever(cell) {
		return true
	}
	_, _, err := notations.named(name).parse(cell, time.UTC)
	return err == nil
}

// parse reads a date. A date without a time is a day.
func (n *notation) parse(cell string, zone *time.Location) (at time.Time, isDay bool, err error) {
	if n.name == ISO && !api.IsDay(cell) {
		if at, err = api.ParseMoment(cell, zone, false); err == nil {
			return at, false, nil
		}
	}
	if n.unit != 0 {
		whole, _, _ := strings.Cut(cell, ".")
		number, err := strconv.ParseInt(whole, 10, 64)
		at = time.UnixMilli(min(number, maxNumber) * int64(n.unit/time.Millisecond)).UTC()
		if err == nil && at.Year() >= 1973 && at.Year() < 2286 {
			return at, false, nil
		}
	}
	if plain, ok := strings.CutSuffix(strings.Replace(cell, " GMT", " UTC", 1), " UTC"); ok {
		cell = plain + "Z"
	}
	for _, day := range n.days {
		if at, err = time.Parse(day, cell); err == nil {
			return at, true, nil
		}
		if len(cell) > 40 || !strings.Contains(cell, ":") {
			continue
		}
		for _, of := range times {
			for _, behind := range zones {
				if at, err = time.ParseInLocation(day+of+behind, cell, zone); err == nil && at.Year() > 0 && at.Year() < 10000 {
					return at.UTC(), false, nil
				}
			}
		}
	}
	return at, false, fmt.Errorf("%.40q is no date in the notation %s, such as %s", cell, n.name, n.example)
}

// maxNumber bounds the seconds or milliseconds since 1970.
const maxNumber = 10_000_000_000_000

// readDate reads the date of a field. A day that ends something lasts until its end.
func (m *Mapper) readDate(field, cell string) (time.Time, error) {
	cell = strings.TrimSpace(cell)
	if isNever(cell) {
		return time.Time{}, nil
	}
	at, isDay, err := m.dates.parse(cell, m.zone)
	if err == nil && isDay {
		at, err = api.ParseMoment(at.Format(time.DateOnly), m.zone, field == "expires_at")
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", field, err)
	}
	return at, nil
}
