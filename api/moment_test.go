package api_test

import (
	"testing"
	"time"
	_ "time/tzdata" // where the system has no time zones

	"github.com/stretchr/testify/require"

	"waypost/api"
)

func TestParseTime_ReadsWhateverRFC3339Allows(t *testing.T) {
	for text, want := range map[string]string{
		"2031-05-06T07:08:09Z":          "2031-05-06T07:08:09Z",
		"2031-05-06t07:08:09z":          "2031-05-06T07:08:09Z",
		"2031-05-06t07:08:09.25+01:00":  "2031-05-06T06:08:09.25Z",
		"2031-05-06T07:08:09-00:00":     "2031-05-06T07:08:09Z",
		"2031-06-30T23:59:60Z":          "2031-07-01T00:00:00Z",
		"2031-12-31t15:59:60.5-08:00":   "2032-01-01T00:00:00.5Z",
		"2032-01-01T00:59:60.000+01:00": "2032-01-01T00:00:00Z",
		"2031-05-06T07:08:60Z":          "",
		"2031-06-30T23:59:61Z":          "",
		"2031-06-31T23:59:60Z":          "",
		"2031-05-06T07:08:09":           "",
		"2031-05-06T07:08:09 z":         "",
		"2031-05-06t":                   "",
		"":                              "",
	} {
		at, err := api.ParseTime(text)
		require.Equal(t, want == "", err != nil, text)
		if want != "" {
			require.Equal(t, want, at.UTC().Format(time.RFC3339Nano), text)
			moment, err := api.ParseMoment(text, time.UTC, true)
			require.NoError(t, err)
			require.True(t, moment.Equal(at), text)
		}
	}
}

func TestParseMoment_DayEndsInItsTimeZone(t *testing.T) {
	for _, c := range []struct{ zone, day, begins, ends string }{
		{"UTC", "2030-12-31", "2030-12-31T00:00:00Z", "2031-01-01T00:00:00Z"},
		{"Europe/Berlin", "2027-12-31", "2027-12-30T23:00:00Z", "2027-12-31T23:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // of 23 hours
		{"Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // of 25 hours
		{"Africa/Cairo", "2027-04-30", "2027-04-29T22:00:00Z", "2027-04-30T21:00:00Z"},  // without midnight
		{"Africa/Cairo", "2027-04-29", "2027-04-28T22:00:00Z", "2027-04-29T22:00:00Z"},
		{"Pacific/Kiritimati", "2028-02-29", "2028-02-28T10:00:00Z", "2028-02-29T10:00:00Z"},
		{"Asia/Kathmandu", "2028-01-01", "2027-12-31T18:15:00Z", "2028-01-01T18:15:00Z"},
		{"America/Los_Angeles", "2028-01-01", "2028-01-01T08:00:00Z", "2028-01-02T08:00:00Z"},
		{"UTC", "9999-12-31", "9999-12-31T00:00:00Z", "9999-12-31T23:59:59Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		for ends, want := range map[bool]string{false: c.begins, true: c.ends} {
			at, err := api.ParseMoment(c.day, zone, ends)
			require.NoError(t, err)
			require.Equal(t, want, at.UTC().Format(time.RFC3339), c)
		}
	}
	_, err := api.ParseMoment("2027-02-30", time.UTC, true)
	require.ErrorContains(t, err, "is no time such as")
}
