package controlplane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/controlplane"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

func moment(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

// lengths returns the steps of a span in hours.
func lengths(s *controlplane.Span) []float64 {
	var all []float64
	for i := range len(s.Bounds) - 1 {
		all = append(all, s.Bounds[i+1].Sub(s.Bounds[i]).Hours())
	}
	return all
}

func TestSpan_DaysAreTheDaysOfTheTimeZoneAlsoWhenClocksChange(t *testing.T) {
	for name, c := range map[string]struct {
		zone, from, to string
		begins         string
		hours          []float64
	}{
		"23 hours in spring": {
			"Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-30T12:00:00+02:00",
			"2026-03-28T00:00:00+01:00",
			[]float64{24, 23, 24},
		},
		"25 hours in autumn": {
			"Europe/Berlin", "2026-10-24T12:00:00+02:00", "2026-10-25T23:59:59+01:00",
			"2026-10-24T00:00:00+02:00",
			[]float64{24, 25},
		},
		"clocks that jump over midnight": {
			"America/Asuncion", "2023-09-30T12:00:00-04:00", "2023-10-02T12:00:00-03:00",
			"2023-09-30T00:00:00-04:00",
			[]float64{24, 23, 24},
		},
		"midnight that comes twice": {
			"America/Havana", "2025-11-01T12:00:00-04:00", "2025-11-03T00:00:00-05:00",
			"2025-11-01T00:00:00-04:00",
			[]float64{24, 25},
		},
		"a date that never was": {
			"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2012-01-01T00:00:00+14:00",
			"2011-12-29T00:00:00-10:00",
			[]float64{24, 24},
		},
		"an offset of half an hour": {
			"Asia/Kolkata", "2026-01-01T00:00:00+05:30", "2026-01-02T00:00:00+05:30",
			"2026-01-01T00:00:00+05:30",
			[]float64{24},
		},
		"an offset of a quarter": {
			"Asia/Kathmandu", "2026-01-01T00:00:00+05:45", "2026-01-01T00:00:01+05:45",
			"2026-01-01T00:00:00+05:45",
			[]float64{24},
		},
		"an end that is midnight is not a day more": {
			"UTC", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z",
			[]float64{24, 24},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := controlplane.NewSpan(controlplane.StatsQuery{
				From: moment(t, c.from), To: moment(t, c.to), Interval: controlplane.ByDay, Zone: zone(t, c.zone),
			}, time.Now())
			require.NoError(t, err)
			require.Equal(t, c.begins, s.From().Format(time.RFC3339))
			require.Equal(t, c.hours, lengths(&s))
		})
	}
}

func TestSpan_HoursAreTheHoursOfTheTimeZone(t *testing.T) {
	s, err := controlplane.NewSpan(controlplane.StatsQuery{
		From: moment(t, "2026-10-25T01:30:00+02:00"), To: moment(t, "2026-10-25T03:00:00+01:00"),
		Interval: controlplane.ByHour, Zone: zone(t, "Europe/Berlin"),
	}, time.Now())
	require.NoError(t, err)
	var begins []string
	for _, b := range s.Bounds {
		begins = append(begins, b.Format(time.RFC3339))
	}
	require.Equal(t, []string{
		"2026-10-25T01:00:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00",
	}, begins, "the hour between two and three comes twice")

	s, err = controlplane.NewSpan(controlplane.StatsQuery{
		From: moment(t, "2026-04-05T00:00:00+11:00"), To: moment(t, "2026-04-05T04:00:00+10:30"),
		Interval: controlplane.ByHour, Zone: zone(t, "Australia/Lord_Howe"),
	}, time.Now())
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1.5, 1, 1}, lengths(&s), "clocks go back by half an hour there")
}

func TestSpan_UsualTimeIsThirtyDaysThatEndWithToday(t *testing.T) {
	now := moment(t, "2026-07-15T22:30:00Z") // the 16th in Berlin
	s, err := controlplane.NewSpan(controlplane.StatsQuery{Zone: zone(t, "Europe/Berlin")}, now)
	require.NoError(t, err)
	require.Equal(t, controlplane.ByDay, s.Interval)
	require.Len(t, s.Bounds, 31)
	require.Equal(t, "2026-06-17T00:00:00+02:00", s.From().Format(time.RFC3339))
	require.Equal(t, "2026-07-17T00:00:00+02:00", s.To().Format(time.RFC3339))
	first, end := s.Days()
	require.EqualValues(t, moment(t, "2026-06-16T00:00:00Z").Unix()/86400, first)
	require.EqualValues(t, moment(t, "2026-07-17T00:00:00Z").Unix()/86400, end)

	s, err = controlplane.NewSpan(controlplane.StatsQuery{Interval: controlplane.ByHour}, now)
	require.NoError(t, err)
	require.Len(t, s.Bounds, 29*24+23+1, "up to the hour that it is")
	require.Equal(t, "2026-07-15T23:00:00Z", s.To().Format(time.RFC3339))

	s, err = controlplane.NewSpan(controlplane.StatsQuery{From: now.Add(time.Hour)}, now)
	require.NoError(t, err)
	require.Len(t, s.Bounds, 2)
}

func TestSpan_WhatIsNoTimeOrTooLongIsRefused(t *testing.T) {
	now := moment(t, "2026-07-15T22:30:00Z")
	for name, q := range map[string]controlplane.StatsQuery{
		"the wrong way round":        {From: now, To: now.Add(-time.Hour)},
		"no time at all":             {From: now, To: now},
		"hours of two months":        {From: now.AddDate(0, -2, 0), To: now, Interval: controlplane.ByHour},
		"days of six years":          {From: now.AddDate(-6, 0, 0), To: now},
		"days of a millennium":       {From: now, To: now.AddDate(1000, 0, 0)},
		"before the beginning":       {From: moment(t, "1999-12-31T00:00:00Z"), To: moment(t, "2000-01-02T00:00:00Z")},
		"a last step in such a year": {From: moment(t, "9999-12-31T00:00:00Z")},
		"a last day in such a year": {
			From: moment(t, "9999-12-31T01:00:00Z"), To: moment(t, "9999-12-31T02:00:00Z"), Interval: controlplane.ByHour,
		},
		"a year with 5 digits": {From: moment(t, "9999-12-30T00:00:00Z"), To: moment(t, "9999-12-31T00:00:00Z").AddDate(0, 0, 2)},
		"another step":         {Interval: "year"},
		"weeks of six years":   {From: now.AddDate(-6, 0, 0), To: now, Interval: controlplane.ByWeek},
		"months of six years":  {From: now.AddDate(-6, 0, 0), To: now, Interval: controlplane.ByMonth},
	} {
		_, err := controlplane.NewSpan(q, now)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), name)
	}
	for name, q := range map[string]controlplane.StatsQuery{
		"31 days with the hour more": {
			From: moment(t, "2026-10-01T00:00:00+02:00"), To: moment(t, "2026-11-01T00:00:00+01:00"),
			Interval: controlplane.ByHour, Zone: zone(t, "Europe/Berlin"),
		},
		"five years": {From: moment(t, "2021-01-01T00:00:00Z"), To: moment(t, "2026-01-01T00:00:00Z")},
	} {
		_, err := controlplane.NewSpan(q, now)
		require.NoError(t, err, name)
	}
}

func TestSpan_EveryMomentOfASpanLiesInOneStepOfItsOwnDateOrHour(t *testing.T) {
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe",
		"Pacific/Chatham", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Beirut",
	}
	rapid.Check(t, func(t *rapid.T) {
		z, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		interval := rapid.SampledFrom([]controlplane.Interval{controlplane.ByHour, controlplane.ByDay}).Draw(t, "interval")
		from := time.Unix(rapid.Int64Range(1_262_304_000, 1_893_456_000).Draw(t, "from"), 0) // 2010 to 2030
		to := from.Add(time.Duration(rapid.Int64Range(1, int64(20*24*time.Hour)).Draw(t, "length")))
		s, err := controlplane.NewSpan(controlplane.StatsQuery{From: from, To: to, Interval: interval, Zone: z}, from)
		require.NoError(t, err)
		require.False(t, s.From().After(from))
		require.False(t, s.To().Before(to))
		at := from.Add(time.Duration(rapid.Int64Range(0, int64(to.Sub(from))-1).Draw(t, "at")))
		i, ok := s.Step(at)
		require.True(t, ok)
		require.False(t, s.Bounds[i].After(at))
		require.True(t, s.Bounds[i+1].After(at))
		begin, local := s.Bounds[i].In(z), at.In(z)
		require.Equal(t, begin.Format(time.DateOnly), local.Format(time.DateOnly))
		if interval == controlplane.ByHour {
			require.Equal(t, begin.Hour(), local.Hour())
			require.Zero(t, begin.Minute())
		}
		_, ok = s.Step(s.To())
		require.False(t, ok)
		_, ok = s.Step(s.From().Add(-1))
		require.False(t, ok)
		for _, b := range s.Bounds {
			require.Zero(t, b.Unix()%900)
		}
	})
}
