package controlplane_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// begins writes the bounds of a span.
func begins(s *controlplane.Span) (all []string) {
	for _, b := range s.Bounds {
		all = append(all, b.Format(time.RFC3339))
	}
	return all
}

func TestSpan_WeeksAndMonthsAreThoseOfTheCalendar(t *testing.T) {
	for name, c := range map[string]struct {
		interval       controlplane.Interval
		zone, from, to string
		bounds         []string
	}{
		// The 1st of January 2027 is a Friday, of week 53 of 2026.
		"a week over the end of the year": {
			controlplane.ByWeek, "Europe/Berlin", "2026-12-30T10:00:00+01:00", "2027-01-04T00:00:01+01:00",
			[]string{"2026-12-28T00:00:00+01:00", "2027-01-04T00:00:00+01:00", "2027-01-11T00:00:00+01:00"},
		},
		"a Sunday is the last day of its week": {
			controlplane.ByWeek, "UTC", "2026-11-29T23:59:59Z", "2026-11-30T00:00:00Z",
			[]string{"2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		},
		"a week of 167 hours": {
			controlplane.ByWeek, "Europe/Berlin", "2026-03-29T12:00:00+02:00", "2026-03-29T13:00:00+02:00",
			[]string{"2026-03-23T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		},
		// Clocks were put forward at midnight of Monday the 26th.
		"a Monday without a midnight": {
			controlplane.ByWeek, "Asia/Amman", "2007-03-28T12:00:00+02:00", "2007-04-02T00:00:00+03:00",
			[]string{"2007-03-26T00:00:00+02:00", "2007-04-02T00:00:00+03:00"},
		},
		"a month whose first day has no midnight": {
			controlplane.ByMonth, "America/Asuncion", "2023-10-15T00:00:00-03:00", "2023-10-16T00:00:00-03:00",
			[]string{"2023-10-01T01:00:00-03:00", "2023-11-01T00:00:00-03:00"},
		},
		"a month that begins with a midnight that comes twice": {
			controlplane.ByMonth, "America/Havana", "2015-11-02T00:00:00-05:00", "2015-11-03T00:00:00-05:00",
			[]string{"2015-11-01T00:00:00-04:00", "2015-12-01T00:00:00-05:00"},
		},
		"months over the end of the year": {
			controlplane.ByMonth, "Europe/Berlin", "2027-12-31T00:00:00+01:00", "2028-03-01T00:00:00+01:00",
			[]string{"2027-12-01T00:00:00+01:00", "2028-01-01T00:00:00+01:00", "2028-02-01T00:00:00+01:00", "2028-03-01T00:00:00+01:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := controlplane.NewSpan(controlplane.StatsQuery{
				From: moment(t, c.from), To: moment(t, c.to), Interval: c.interval, Zone: zone(t, c.zone),
			}, noon)
			require.NoError(t, err)
			require.Equal(t, c.bounds, begins(&s))
		})
	}
}

func TestSpan_CountsHoursAndDaysFromAMoment(t *testing.T) {
	// Clocks are put back in the night of the 25th: the second day is one of 24 hours.
	q := controlplane.StatsQuery{
		Since: moment(t, "2026-10-24T09:22:31+02:00"), To: moment(t, "2026-10-26T08:15:00+01:00"), Zone: zone(t, "Europe/Berlin"),
	}
	s, err := controlplane.NewSpan(q, noon)
	require.NoError(t, err)
	require.Equal(t, []string{"2026-10-24T09:15:00+02:00", "2026-10-25T08:15:00+01:00", "2026-10-26T08:15:00+01:00"}, begins(&s))
	q.Interval, q.To = controlplane.ByHour, moment(t, "2026-10-24T11:15:01+02:00")
	s, err = controlplane.NewSpan(q, noon)
	require.NoError(t, err)
	require.Equal(t, []string{
		"2026-10-24T09:15:00+02:00", "2026-10-24T10:15:00+02:00", "2026-10-24T11:15:00+02:00", "2026-10-24T12:15:00+02:00",
	}, begins(&s))
	for name, q := range map[string]controlplane.StatsQuery{
		"weeks":          {Since: noon, Interval: controlplane.ByWeek},
		"another moment": {Since: noon, From: noon},
		"too many hours": {Since: noon.AddDate(0, -2, 0), Interval: controlplane.ByHour},
	} {
		_, err := controlplane.NewSpan(q, noon)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), name)
	}
}

func TestSpan_IsComparedWithATimeOfTheSameKind(t *testing.T) {
	const previous, year = controlplane.ComparePrevious, controlplane.CompareYear
	for name, c := range map[string]struct {
		interval               controlplane.Interval
		zone, from, to         string
		with, withFrom, withTo string
		since                  bool
		otherFrom, otherTo     string
		fail                   waypost.ErrorCode
		steps                  int
	}{
		"days before, of which one has 23 hours": {
			interval: controlplane.ByDay, zone: "Europe/Berlin", from: "2026-03-30T00:00:00+02:00", to: "2026-04-06T00:00:00+02:00",
			with: previous, otherFrom: "2026-03-23T00:00:00+01:00", otherTo: "2026-03-30T00:00:00+02:00", steps: 7,
		},
		"hours of a day of 23 hours have a whole day before": {
			interval: controlplane.ByHour, zone: "Europe/Berlin", from: "2026-03-29T00:00:00+01:00", to: "2026-03-30T00:00:00+02:00",
			with: previous, otherFrom: "2026-03-28T00:00:00+01:00", otherTo: "2026-03-29T00:00:00+01:00", steps: 24,
		},
		"other hours have as many before": {
			interval: controlplane.ByHour, zone: "Europe/Berlin", from: "2026-03-29T01:00:00+01:00", to: "2026-03-29T05:00:00+02:00",
			with: previous, otherFrom: "2026-03-28T22:00:00+01:00", otherTo: "2026-03-29T01:00:00+01:00", steps: 3,
		},
		"three weeks before those over the end of the year": {
			interval: controlplane.ByWeek, zone: "UTC", from: "2026-12-21T00:00:00Z", to: "2027-01-11T00:00:00Z",
			with: previous, otherFrom: "2026-11-30T00:00:00Z", otherTo: "2026-12-21T00:00:00Z", steps: 3,
		},
		"months before are of other lengths": {
			interval: controlplane.ByMonth, zone: "UTC", from: "2026-02-01T00:00:00Z", to: "2026-04-01T00:00:00Z",
			with: previous, otherFrom: "2025-12-01T00:00:00Z", otherTo: "2026-02-01T00:00:00Z", steps: 2,
		},
		"the same days a year ago": {
			interval: controlplane.ByDay, zone: "Europe/Berlin", from: "2026-10-01T00:00:00+02:00", to: "2026-11-01T00:00:00+01:00",
			with: year, otherFrom: "2025-10-01T00:00:00+02:00", otherTo: "2025-11-01T00:00:00+01:00", steps: 31,
		},
		"the 29th of February has the 28th a year ago": {
			interval: controlplane.ByDay, zone: "UTC", from: "2028-02-29T00:00:00Z", to: "2028-03-01T00:00:00Z",
			with: year, otherFrom: "2027-02-28T00:00:00Z", otherTo: "2027-03-01T00:00:00Z", steps: 1,
		},
		"a February of 29 days has one of 28": {
			interval: controlplane.ByDay, zone: "UTC", from: "2028-02-01T00:00:00Z", to: "2028-03-01T00:00:00Z",
			with: year, otherFrom: "2027-02-01T00:00:00Z", otherTo: "2027-03-01T00:00:00Z", steps: 28,
		},
		"the 28th of February of such a year": {
			interval: controlplane.ByDay, zone: "UTC", from: "2028-02-28T00:00:00Z", to: "2028-02-29T00:00:00Z",
			with: year, otherFrom: "2027-02-28T00:00:00Z", otherTo: "2027-03-01T00:00:00Z", steps: 1,
		},
		"weeks have those 52 weeks ago": {
			interval: controlplane.ByWeek, zone: "UTC", from: "2026-12-28T00:00:00Z", to: "2027-01-04T00:00:00Z",
			with: year, otherFrom: "2025-12-29T00:00:00Z", otherTo: "2026-01-05T00:00:00Z", steps: 1,
		},
		"months a year ago": {
			interval: controlplane.ByMonth, zone: "UTC", from: "2026-01-01T00:00:00Z", to: "2026-03-01T00:00:00Z",
			with: year, otherFrom: "2025-01-01T00:00:00Z", otherTo: "2025-03-01T00:00:00Z", steps: 2,
		},
		"hours a year ago, of the same clock": {
			interval: controlplane.ByHour, zone: "Europe/Berlin", from: "2026-03-29T12:00:00+02:00", to: "2026-03-29T14:00:00+02:00",
			with: year, otherFrom: "2025-03-29T12:00:00+01:00", otherTo: "2025-03-29T14:00:00+01:00", steps: 2,
		},
		"another time without an end": {
			interval: controlplane.ByDay, zone: "UTC", from: "2026-03-01T00:00:00Z", to: "2026-03-04T00:00:00Z",
			withFrom: "2026-01-10T05:00:00Z", otherFrom: "2026-01-10T00:00:00Z", otherTo: "2026-01-13T00:00:00Z", steps: 3,
		},
		"another time of another length": {
			interval: controlplane.ByDay, zone: "UTC", from: "2026-03-01T00:00:00Z", to: "2026-03-04T00:00:00Z",
			withFrom: "2026-01-10T00:00:00Z", withTo: "2026-01-15T00:00:00Z",
			otherFrom: "2026-01-10T00:00:00Z", otherTo: "2026-01-15T00:00:00Z", steps: 5,
		},
		"the hours after another mailing": {
			interval: controlplane.ByHour, zone: "UTC", since: true, from: "2026-03-01T09:20:00Z", to: "2026-03-01T12:15:00Z",
			withFrom: "2026-02-01T08:44:00Z", otherFrom: "2026-02-01T08:30:00Z", otherTo: "2026-02-01T11:30:00Z", steps: 3,
		},
		"the hours before a mailing": {
			interval: controlplane.ByHour, zone: "UTC", since: true, from: "2026-03-01T09:20:00Z", to: "2026-03-01T12:15:00Z",
			with: previous, otherFrom: "2026-03-01T06:15:00Z", otherTo: "2026-03-01T09:15:00Z", steps: 3,
		},
		"the clock of a mailing a year ago": {
			interval: controlplane.ByDay, zone: "Europe/Berlin", since: true, from: "2026-03-29T09:15:00+02:00", to: "2026-03-30T09:15:00+02:00",
			with: year, otherFrom: "2025-03-29T09:15:00+01:00", otherTo: "2025-03-30T10:15:00+02:00", steps: 1,
		},
		"a time the wrong way round": {
			interval: controlplane.ByDay, zone: "UTC", from: "2026-03-01T00:00:00Z", to: "2026-03-04T00:00:00Z",
			withFrom: "2026-01-15T00:00:00Z", withTo: "2026-01-10T00:00:00Z", fail: waypost.EInvalid,
		},
		"a time before all clicks": {
			interval: controlplane.ByDay, zone: "UTC", from: "2000-01-02T00:00:00Z", to: "2000-01-04T00:00:00Z",
			with: previous, fail: waypost.EInvalid,
		},
		"a year before all clicks": {
			interval: controlplane.ByMonth, zone: "UTC", from: "2000-02-01T00:00:00Z", to: "2000-03-01T00:00:00Z",
			with: year, fail: waypost.EInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := controlplane.StatsQuery{From: moment(t, c.from), To: moment(t, c.to), Interval: c.interval, Zone: zone(t, c.zone)}
			if c.since {
				q.Since, q.From = q.From, time.Time{}
			}
			s, err := controlplane.NewSpan(q, noon)
			require.NoError(t, err)
			with := controlplane.Comparison{With: c.with}
			if c.withFrom != "" {
				with.From = moment(t, c.withFrom)
			}
			if c.withTo != "" {
				with.To = moment(t, c.withTo)
			}
			other, err := s.Compared(with, noon)
			if c.fail != "" {
				require.Equal(t, c.fail, waypost.CodeOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.otherFrom, other.From().Format(time.RFC3339))
			require.Equal(t, c.otherTo, other.To().Format(time.RFC3339))
			require.Len(t, other.Bounds, c.steps+1)
		})
	}
}

func TestClicks_ChangeIsOfStepsThatAreComplete(t *testing.T) {
	at := func(text string, clicks int64) controlplane.QuarterClicks {
		return controlplane.QuarterClicks{At: moment(t, text).Unix(), Clicks: clicks}
	}
	c := &counts{
		counted: controlplane.Counted{Quarters: []controlplane.QuarterClicks{
			at("2026-03-27T10:00:00Z", 1), at("2026-03-28T10:00:00Z", 2), at("2026-03-29T10:00:00Z", 4), // before
			at("2026-03-30T10:00:00Z", 8), at("2026-03-31T10:00:00Z", 16),
		}},
		nodes: []controlplane.EdgeProgress{{Node: "edge-a", Until: noon.Add(-time.Second)}},
	}
	q := controlplane.StatsQuery{
		From: moment(t, "2026-03-30T00:00:00Z"), To: noon, Compare: controlplane.Comparison{With: controlplane.ComparePrevious},
	}
	ask := func() [2]*controlplane.Compared {
		link, err := statsOf(c).LinkStats(t.Context(), actor, "", "spring", q)
		require.NoError(t, err)
		all, err := statsOf(c).WorkspaceStats(t.Context(), actor, q)
		require.NoError(t, err)
		return [2]*controlplane.Compared{link.Compared, all.Compared}
	}
	for _, got := range ask() {
		require.Equal(t, [4]int64{6, 8, 2, 1}, [4]int64{got.Clicks, got.Now, got.Then, int64(got.Steps)}, "today is not over")
		require.Equal(t, "2026-03-28T00:00:00Z", got.Span.From().Format(time.RFC3339))
		require.Equal(t, noon.Add(-time.Second), got.Complete.Until)
	}
	q.To = moment(t, "2026-03-31T00:00:00Z")
	q.Compare = controlplane.Comparison{From: moment(t, "2026-03-27T00:00:00Z"), To: moment(t, "2026-03-30T00:00:00Z")}
	for _, got := range ask() {
		require.Equal(t, [4]int64{7, 8, 7, 1}, [4]int64{got.Clicks, got.Now, got.Then, int64(got.Steps)}, "all is complete")
	}
	c.nodes = nil
	for _, got := range ask() {
		require.Equal(t, [4]int64{7, 0, 0, 0}, [4]int64{got.Clicks, got.Now, got.Then, int64(got.Steps)}, "nothing is known to be")
	}
	q.Compare.To = moment(t, "2026-03-26T00:00:00Z")
	_, err := statsOf(c).LinkStats(t.Context(), actor, "", "spring", q)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
}

func (c *counts) ChangesOf(_ context.Context, _ waypost.WorkspaceID, _ int64, _ *controlplane.Span, _ []string, limit int,
) ([]controlplane.Change, error) {
	return c.changes[:min(limit, len(c.changes))], c.err
}

func TestClicks_ChangesOfALinkAreAnnotations(t *testing.T) {
	by := api.Changer{Kind: "user", ID: 7, Name: "Ada"}
	field := func(names ...string) (all []controlplane.FieldChange) {
		for _, n := range names {
			all = append(all, controlplane.FieldChange{Name: n})
		}
		return all
	}
	c := &counts{changes: []controlplane.Change{
		{At: noon.Add(-time.Hour), What: "restored", By: by, Fields: field("active")},
		{At: noon.Add(-2 * time.Hour), What: "changed", By: by, Fields: field("active", "expires_at", "original_url", "title", "valid_from")},
	}, expires: noon.Add(-90 * time.Minute)}
	reader := controlplane.Actor{Workspace: 1, Scopes: []controlplane.Scope{controlplane.ScopeLinksRead}}
	got, err := statsOf(c).LinkStats(t.Context(), reader, "", "spring", controlplane.StatsQuery{})
	require.NoError(t, err)
	require.Equal(t, []api.Annotation{
		{T: noon.Add(-time.Hour), Changes: []string{"restored"}, By: &by},
		{T: noon.Add(-90 * time.Minute), Changes: []string{"expired"}, By: &api.Changer{Kind: "system", Name: "waypost"}},
		{T: noon.Add(-2 * time.Hour), Changes: []string{"state", "expiry", "target"}, By: &by},
	}, got.Annotations)
	require.False(t, got.More)

	for range 150 {
		c.changes = append(c.changes, c.changes[1])
	}
	analyst := controlplane.Actor{Workspace: 1, Scopes: []controlplane.Scope{controlplane.ScopeAnalytics}}
	got, err = statsOf(c).LinkStats(t.Context(), analyst, "", "spring", controlplane.StatsQuery{})
	require.NoError(t, err)
	require.Len(t, got.Annotations, controlplane.MaxAnnotations)
	require.True(t, got.More)
	require.Nil(t, got.Annotations[0].By, "names are for those who may read links")
}
