package api

import (
	"fmt"
	"strings"
	"time"

	"waypost"
)

// ParseTime reads a time of RFC 3339, 5.6, also with lower-case letters. A leap second is
// the first moment after it.
func ParseTime(text string) (time.Time, error) {
	const second = len("2006-01-02T15:04:")
	upper := strings.ToUpper(text)
	if len(upper) < second+2 || upper[second:second+2] != "60" {
		return time.Parse(time.RFC3339, upper)
	}
	at, err := time.Parse(time.RFC3339, upper[:second]+"59"+upper[second+2:])
	if utc := at.UTC(); err == nil && (utc.Hour() != 23 || utc.Minute() != 59) {
		err = fmt.Errorf("%q has a leap second in the middle of a day", text)
	}
	return at.Add(time.Second), err
}

// IsDay reports whether a text is a day, such as 2030-12-31.
func IsDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// ParseMoment reads a time as the API does, or a day, which stands for its first moment
// in a zone or, where it ends something, for the first moment after it. An error is for
// the people who wrote the text.
func ParseMoment(text string, zone *time.Location, ends bool) (at time.Time, err error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		y, m, d := day.Date()
		if ends {
			d++
		}
		at = waypost.BeginOfDay(time.Date(y, m, d, 12, 0, 0, 0, zone)).UTC()
		if at.Year() > 9999 { // which no time of the API is
			at = at.Add(-time.Second)
		}
		return at, nil
	}
	if at, err = ParseTime(text); err != nil {
		at, err = time.Parse("2006-01-02T15:04Z07:00", strings.ToUpper(text))
	}
	if err == nil && writable(at) && writable(at.UTC()) {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"} {
		if at, err = time.Parse(layout, text); err == nil {
			return time.Time{}, fmt.Errorf("%q has no time zone: write %s, or an offset such as +01:00 instead of Z",
				text, at.Format(time.RFC3339))
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is no time such as 2030-12-31T23:59:59Z, and no day such as 2030-12-31", text)
}

// writable reports whether a time can be written as RFC 3339: its year has four digits,
// and its offset is less than a day.
func writable(at time.Time) bool {
	_, err := at.MarshalText()
	return err == nil
}
