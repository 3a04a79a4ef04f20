package rules

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// The operand of a week is
//
//	 0  a bit for each quarter of an hour of a week, from Monday 00:00 local time (84)
//	84  offset from UTC at first, in quarters of an hour (1, signed)
//	85  changes of the offset: from when on (4, Unix minutes), offset (1, signed)
//
// so that an edge needs no database of time zones. After the last change its offset
// stays.
const (
	quarters     = 7 * 24 * 4
	weekBits     = quarters / 8
	changeSize   = 5
	maxChanges   = 40
	yearsAhead   = 3
	milliseconds = 1000
)

func checkWeek(b []byte) bool {
	if len(b) < weekBits+1 || (len(b)-weekBits-1)%changeSize != 0 || len(b) > weekBits+1+changeSize*maxChanges {
		return false
	}
	last := int64(-1)
	for c := b[weekBits+1:]; len(c) > 0; c = c[changeSize:] {
		at := int64(binary.LittleEndian.Uint32(c))
		if at <= last {
			return false
		}
		last = at
	}
	return true
}

// inWeek reports whether a time, in Unix milliseconds, is within the hours of a week. It
// does not allocate.
func inWeek(b []byte, at int64) bool {
	if len(b) < weekBits+1 {
		return false
	}
	offset := int64(int8(b[weekBits]))
	minute := floorDiv(at, 60*milliseconds)
	for c := b[weekBits+1:]; len(c) >= changeSize; c = c[changeSize:] {
		if minute < int64(binary.LittleEndian.Uint32(c)) {
			break
		}
		offset = int64(int8(c[4]))
	}
	const monday = 4 * 96 // 1970-01-05 was the first Monday
	q := (floorDiv(minute, 15) + offset - monday) % quarters
	if q < 0 {
		q += quarters
	}
	return b[q/8]&(1<<(q%8)) != 0
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// appendWeek appends the operand of a week: the offsets from the beginning of the year
// of now, and for at least three years.
func appendWeek(dst []byte, w *Schedule, now time.Time, where string) ([]byte, error) {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil || w.Zone == "Local" || w.Zone == "" {
		return nil, waypost.Errorf(waypost.EInvalid, "%s.zone: %s is no time zone of the IANA database, such as Europe/Berlin", where, quoted(w.Zone))
	}
	var bits [weekBits]byte
	for i, text := range w.Hours {
		if err := setHours(&bits, text); err != nil {
			return nil, waypost.Errorf(waypost.EInvalid, "%s.hours[%d]: %s", where, i, err.Error())
		}
	}
	dst = append(dst, bits[:]...)
	year := now.UTC().Year()
	at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	end := time.Date(year+yearsAhead+1, 1, 1, 0, 0, 0, 0, time.UTC)
	offset := offsetOf(at.In(zone))
	dst = append(dst, byte(int8(offset)))
	for n := 0; ; n++ {
		_, next := at.In(zone).ZoneBounds()
		if next.IsZero() || !next.Before(end) || n == maxChanges {
			return dst, nil
		}
		at = next.UTC()
		if o := offsetOf(at.In(zone)); o != offset {
			offset = o
			dst = binary.LittleEndian.AppendUint32(dst, uint32(at.Unix()/60))
			dst = append(dst, byte(int8(o)))
		}
	}
}

// offsetOf returns the offset of a time from UTC in quarters of an hour, which all zones
// of today have.
func offsetOf(t time.Time) int {
	_, seconds := t.Zone()
	return int(floorDiv(int64(seconds), 15*60))
}

var weekdays = [...]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// setHours sets the quarters of "mon-fri 09:00-17:30", "sat,sun 10:00-14:00" or
// "daily 22:00-06:00".
func setHours(bits *[weekBits]byte, text string) error {
	days, times, ok := strings.Cut(strings.ToLower(strings.TrimSpace(text)), " ")
	from, until, ok2 := strings.Cut(strings.TrimSpace(times), "-")
	start, err := quarterOf(from)
	end, err2 := quarterOf(until)
	if !ok || !ok2 || err != nil || err2 != nil || start == 96 {
		return fmt.Errorf("%s is not of the form mon-fri 09:00-17:30, with times in quarters of an hour", quoted(text))
	}
	if end <= start {
		end += 96
	}
	list, err := daysOf(days)
	if err != nil {
		return err
	}
	for _, day := range list {
		for q := start; q < end; q++ {
			i := (day*96 + q) % quarters
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return nil
}

// quarterOf reads HH:MM as quarters of an hour since midnight, up to 24:00.
func quarterOf(text string) (int, error) {
	hour, minute, _ := strings.Cut(text, ":")
	h, err := strconv.ParseUint(hour, 10, 8)
	m, err2 := strconv.ParseUint(minute, 10, 8)
	if err != nil || err2 != nil || len(minute) != 2 || h > 24 || m > 59 || m%15 != 0 || h == 24 && m != 0 {
		return 0, strconv.ErrSyntax
	}
	return int(h*4 + m/15), nil
}

// daysOf reads "daily", "mon", "mon-fri", or several of these with commas.
func daysOf(text string) (days []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part == "daily" {
			part = "mon-sun"
		}
		from, until, isRange := strings.Cut(part, "-")
		if !isRange {
			until = from
		}
		first, last := dayOf(from), dayOf(until)
		if first < 0 || last < 0 {
			return nil, fmt.Errorf("%s is no day: use mon, tue, wed, thu, fri, sat, sun or daily", quoted(part))
		}
		for d := first; ; d = (d + 1) % 7 {
			days = append(days, d)
			if d == last {
				break
			}
		}
	}
	return days, nil
}

func dayOf(name string) int {
	for i, d := range weekdays {
		if d == name {
			return i
		}
	}
	return -1
}
