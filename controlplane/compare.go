package controlplane

import (
	"context"
	"time"

	"waypost"
)

// Comparison selects the time that a span of statistics is compared with: by a name, or
// by a time of its own.
type Comparison struct {
	With string // ComparePrevious or CompareYear; "": From and To

	// From and To are as those of a query. Without To, the time has as many steps as the
	// span. If the span counts from a moment, From is the moment of the other time.
	From, To time.Time
}

// The names of times that a span is compared with.
const (
	// ComparePrevious ends where the span begins, and is as long: as many months, weeks,
	// days or hours. A span of hours that is made of whole days has whole days before it.
	ComparePrevious = "previous"

	// CompareYear has the same dates a year ago, and the 28th of February for the 29th.
	// Weeks are compared with the weeks 52 weeks ago, which begin on Monday, too.
	CompareYear = "year"
)

// Compared holds the clicks of the time that a span is compared with.
type Compared struct {
	Span                  Span
	Clicks, Bots          int64
	Series                []QuarterClicks
	Visitors, VisitorBots int64
	Complete              Completeness

	// Now and Then are the clicks of the span and of the other time in as many of their
	// first steps as are complete in both, or in all when all are complete.
	Now, Then int64
	Steps     int // of the span, that are in Now
}

// Compared returns the time with which a span is compared. It returns EInvalid when that
// time is invalid or too long.
func (s *Span) Compared(c Comparison, now time.Time) (Span, error) {
	n := len(s.Bounds) - 1
	first, end := s.From(), s.To()
	y, m, d := first.Date()
	ofDays := s.Since.IsZero() && first.Equal(waypost.BeginOfDay(first)) && end.Equal(waypost.BeginOfDay(end))
	q := StatsQuery{Interval: s.Interval, Zone: s.Zone}
	switch {
	case c.With == "" && !s.Since.IsZero() && !c.To.IsZero():
		q.Since, q.To = c.From, c.To
		return NewSpan(q, now)
	case c.With == "" && !c.To.IsZero():
		q.From, q.To = c.From, c.To
		return NewSpan(q, now)
	case c.With == "":
		first = c.From
	case c.With == ComparePrevious && s.Interval == ByMonth:
		first = s.day(y, m-time.Month(n), 1)
	case c.With == ComparePrevious && ofDays:
		q.From, q.To = s.day(y, m, d-daysBetween(first, end)), first
		return NewSpan(q, now)
	case c.With == ComparePrevious && s.Since.IsZero():
		q.From, q.To = first.Add(-time.Duration(n)*time.Hour), first
		return NewSpan(q, now)
	case c.With == ComparePrevious:
		first = first.Add(first.Sub(end))
	case s.Interval == ByMonth:
		first = s.day(y-1, m, 1)
	case s.Interval == ByWeek:
		first = s.day(y, m, d-52*7)
	case ofDays:
		y, m, d := yearAgo(end.Add(-1))
		q.From, q.To = s.day(yearAgo(first)), s.day(y, m, d+1)
		return NewSpan(q, now)
	default:
		y, m, d := yearAgo(first)
		first = time.Date(y, m, d, first.Hour(), first.Minute(), 0, 0, s.Zone)
	}
	return s.sameSteps(first)
}

// sameSteps returns a span of as many steps as s, from the step of a moment on.
func (s *Span) sameSteps(first time.Time) (Span, error) {
	if first.Before(earliest) || first.Year() > 9000 {
		return Span{}, waypost.Errorf(waypost.EInvalid, "the time to compare with must be between the years 2000 and 9000")
	}
	other := Span{Interval: s.Interval, Zone: s.Zone}
	if !s.Since.IsZero() {
		other.Since = first.Truncate(quarter)
	}
	other.Bounds = append(other.Bounds, other.intervalStart(first, s.Interval))
	for len(other.Bounds) < len(s.Bounds) {
		other.Bounds = append(other.Bounds, other.next(other.To()))
	}
	return other, nil
}

// yearAgo returns the date of a moment a year ago.
func yearAgo(t time.Time) (int, time.Month, int) {
	y, m, d := t.Date()
	if m == time.February && d == 29 {
		d = 28
	}
	return y - 1, m, d
}

// daysBetween counts the days from a date to another.
func daysBetween(from, to time.Time) int {
	utc := func(t time.Time) time.Time {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	return int(utc(to).Sub(utc(from)) / (24 * time.Hour))
}

// compare counts the clicks of the time that a span is compared with; nil without one.
func (s *Clicks) compare(
	ctx context.Context, with Comparison, of *Stats, now time.Time, count func(*Span) (Counted, error),
) (*Compared, error) {
	if with == (Comparison{}) {
		return nil, nil //nolint:nilnil // no time is asked for
	}
	span, err := of.Span.Compared(with, now)
	if err != nil {
		return nil, err
	}
	complete, err := s.complete(ctx, &span, now)
	if err != nil {
		return nil, err
	}
	counted, err := count(&span)
	if err != nil {
		return nil, err
	}
	then := summarize(span, nil, &counted)
	c := &Compared{
		Span: span, Clicks: then.Clicks, Bots: then.Bots, Series: then.Series,
		Visitors: then.Visitors, VisitorBots: then.VisitorBots, Complete: complete,
	}
	closed, closedThen := of.Span.closed(of.Complete.Until), span.closed(complete.Until)
	if closed == len(of.Series) && closedThen == len(then.Series) {
		c.Now, c.Then, c.Steps = of.Clicks, then.Clicks, closed
		return c, nil
	}
	c.Steps = min(closed, closedThen)
	for i := range c.Steps {
		c.Now += of.Series[i].Clicks
		c.Then += then.Series[i].Clicks
	}
	return c, nil
}

// closed counts the first steps of a span that end at a moment or before.
func (s *Span) closed(until time.Time) int {
	n := 0
	for n+1 < len(s.Bounds) && !s.Bounds[n+1].After(until) {
		n++
	}
	return n
}
