package api_test

import (
	"testing"
	"time"

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
			moment, err := api.ParseMoment(text)
			require.NoError(t, err)
			require.True(t, moment.Equal(at), text)
		}
	}
}
