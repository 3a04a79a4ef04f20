package api

import (
	"fmt"
	"strings"
	"time"
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

// ParseMoment reads a time as the API does, or a day, which stands for its first moment
// in UTC. An error is for the people who wrote the text.
func ParseMoment(text string) (at time.Time, err error) {
	at, err = ParseTime(text)
	for _, layout := range []string{"2006-01-02T15:04Z07:00", time.DateOnly} {
		if err != nil {
			at, err = time.Parse(layout, strings.ToUpper(text))
		}
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
