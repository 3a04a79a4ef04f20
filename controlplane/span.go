package controlplane

import (
	"cmp"
	"sort"
	"time"
	_ "time/tzdata" // for machines without a database of time zones

	"waypost"
)

// Interval is the step of a series.
type Interval string

// The steps that a series can have.
const (
	ByHour  Interval = "hour"
	ByDay   Interval = "day"
	ByWeek  Interval = "week" // from Monday on, as ISO 8601 has it
	ByMonth Interval = "month"
)

// Bounds of one query.
const (
	MaxHourBuckets  = 750  // 31 days, and the hour that a clock change adds
	MaxDayBuckets   = 1830 // five years, as the following
	MaxWeekBuckets  = 262
	MaxMonthBuckets = 60
	DefaultDays     = 30
)

// quarter is the finest time that clicks are counted by.
const quarter = 15 * time.Minute

// StatsQuery selects the time and the steps of statistics. Zero fields mean the default.
type StatsQuery struct {
	From, To time.Time      // [From, To); default the 30 days that end with today
	Since    time.Time      // steps of 1 or 24 hours are counted from it, instead of From; zero: steps of the calendar
	Interval Interval       // default ByDay
	Zone     *time.Location // of the steps of a calendar; default UTC
	Compare  Comparison     // zero: with no other time
	Top      int            // links of a workspace that are listed
	Named    *NameQuery     // name with clicks that are counted by day; nil: no name
}

// Span is a time in whole steps of a calendar, or in hours or days of 24 hours from a
// moment.
type Span struct {
	Interval Interval
	Zone     *time.Location
	Since    time.Time // the moment, at the beginning of its quarter of an hour; zero: a calendar

	// Bounds are the beginnings of the steps, and the end of the last: one more than
	// there are steps. Each is a multiple of a quarter of an hour.
	Bounds []time.Time
}

// From returns the beginning of the span.
func (s *Span) From() time.Time { return s.Bounds[0] }

// To returns the end of the span, which is not in it.
func (s *Span) To() time.Time { return s.Bounds[len(s.Bounds)-1] }

// Days returns the UTC days [first, end) that the span touches, counted from 1970.
func (s *Span) Days() (first, end int32) {
	const day = 24 * 60 * 60
	return int32(s.From().Unix() / day), int32((s.To().Unix() + day - 1) / day)
}

// Step returns the step of a moment, and false outside of the span.
func (s *Span) Step(at time.Time) (int, bool) {
	i := sort.Search(len(s.Bounds), func(i int) bool { return s.Bounds[i].After(at) }) - 1
	return i, i >= 0 && i < len(s.Bounds)-1
}

// earliest is before the first possible click.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// NewSpan widens a query to whole steps: from the step of From to the step in which To
// ends. It returns EInvalid when the time is invalid or too long.
func NewSpan(q StatsQuery, now time.Time) (Span, error) {
	s := Span{Interval: cmp.Or(q.Interval, ByDay), Zone: cmp.Or(q.Zone, time.UTC), Since: q.Since.Truncate(quarter)}
	most := map[Interval]int{ByHour: MaxHourBuckets, ByDay: MaxDayBuckets, ByWeek: MaxWeekBuckets, ByMonth: MaxMonthBuckets}[s.Interval]
	from, to := q.From, q.To
	if !q.Since.IsZero() {
		from = s.Since
	}
	switch {
	case most == 0:
		return Span{}, waypost.Errorf(waypost.EInvalid, "interval must be hour, day, week or month")
	case !q.Since.IsZero() && !q.From.IsZero():
		return Span{}, waypost.Errorf(waypost.EInvalid, "from and since exclude each other")
	case !q.Since.IsZero() && s.Interval != ByHour && s.Interval != ByDay:
		return Span{}, waypost.Errorf(waypost.EInvalid, "interval must be hour or day with since")
	}
	if to.IsZero() {
		to = now
		if from.After(now) { // at the end of the step that it lies in
			to = from.Add(1)
		}
	}
	if from.IsZero() {
		y, m, d := to.Add(-1).In(s.Zone).Date()
		from = s.day(y, m, d-DefaultDays+1)
	}
	switch {
	case !from.Before(to):
		return Span{}, waypost.Errorf(waypost.EInvalid, "from must be before to")
	case from.Before(earliest):
		return Span{}, errYears
	// A span that is surely too long is refused before its steps are computed.
	case to.Sub(from) > MaxDayBuckets*25*time.Hour, s.Interval == ByHour && to.Sub(from) > MaxHourBuckets*time.Hour:
		return Span{}, s.tooLong(most)
	}
	s.Bounds = append(s.Bounds, s.intervalStart(from, s.Interval))
	for s.To().Before(to) {
		if len(s.Bounds) > most {
			return Span{}, s.tooLong(most)
		}
		s.Bounds = append(s.Bounds, s.next(s.To()))
	}
	// Neither the end of the last step nor that of its day has a year with 5 digits, in
	// no time zone.
	if s.To().UTC().AddDate(0, 0, 1).Year() > 9999 {
		return Span{}, errYears
	}
	return s, nil
}

var errYears = waypost.Errorf(waypost.EInvalid, "from and to must be between the years 2000 and 9999")

func (s *Span) tooLong(most int) error {
	return waypost.Errorf(waypost.EInvalid, "that is more than %d buckets of one %s: ask for less at once", most, s.Interval)
}

// day returns the beginning of a day of the zone. Days and months out of their range
// count on, as in time.Date.
func (s *Span) day(y int, m time.Month, d int) time.Time {
	return waypost.BeginOfDay(time.Date(y, m, d, 12, 0, 0, 0, s.Zone))
}

// intervalStart returns the beginning of the step of a moment.
func (s *Span) intervalStart(at time.Time, by Interval) time.Time {
	t := at.Truncate(quarter).In(s.Zone)
	y, m, d := t.Date()
	switch {
	case !s.Since.IsZero():
	case by == ByHour:
		for t.Minute() != 0 {
			t = t.Add(-quarter)
		}
	case by == ByDay:
		return waypost.BeginOfDay(t)
	case by == ByWeek:
		return s.day(y, m, d-(int(t.Weekday())+6)%7)
	case by == ByMonth:
		return s.day(y, m, 1)
	}
	return t
}

// next returns the beginning of the step after the one that begins at a moment.
func (s *Span) next(at time.Time) time.Time {
	y, m, d := at.Date()
	switch {
	case !s.Since.IsZero() && s.Interval == ByHour:
		return at.Add(time.Hour)
	case !s.Since.IsZero():
		return at.Add(24 * time.Hour)
	case s.Interval == ByWeek:
		return s.day(y, m, d+7)
	case s.Interval == ByMonth:
		return s.day(y, m+1, 1)
	case s.Interval == ByHour:
		for t := at.Add(quarter); ; t = t.Add(quarter) {
			if t.In(s.Zone).Minute() == 0 {
				return t.In(s.Zone)
			}
		}
	}
	// No day is shorter than 20 hours.
	for t := at.Add(20 * time.Hour); ; t = t.Add(quarter) {
		if date(t.In(s.Zone)) > date(at.In(s.Zone)) {
			return t.In(s.Zone)
		}
	}
}

// date is a number that grows with the date of a moment in its zone.
func date(t time.Time) int {
	y, m, d := t.Date()
	return y*10_000 + int(m)*100 + d
}
