package waypost_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestADayIsThatOfUTCAlsoBefore1970(t *testing.T) {
	const length = 24 * 60 * 60 * 1000
	for ms, want := range map[int64]string{
		0: "1970-01-01", length - 1: "1970-01-01", length: "1970-01-02", -1: "1969-12-31", -length: "1969-12-31", -length - 1: "1969-12-30",
		1_700_000_000_000: "2023-11-14",
	} {
		require.Equal(t, want, waypost.DayText(waypost.Day(ms)), ms)
		day, err := waypost.ParseDay(want)
		require.NoError(t, err)
		require.Equal(t, waypost.Day(ms), day)
	}
}

func TestNothingShowsASalt(t *testing.T) {
	salt := &waypost.Salt{0xab, 0xcd}
	var log strings.Builder
	timeless := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // its digits may be those of the salt
		}
		return a
	}}
	slog.New(slog.NewJSONHandler(&log, timeless)).Info("x", "salt", salt, "value", *salt)
	slog.New(slog.NewTextHandler(&log, timeless)).Info("x", "salt", salt, "value", *salt)
	encoded, err := json.Marshal(struct{ S waypost.Salt }{*salt})
	require.NoError(t, err)
	shown := log.String() + string(encoded) + fmt.Sprintf("%v %+v %#v %s %x %d", salt, salt, salt, salt, salt, salt) + fmt.Sprintf("%v %+v %#v %s %x", *salt, *salt, *salt, *salt, *salt)
	for _, text := range []string{"abcd", "171", "ab, 0xcd", "0xab"} {
		require.NotContains(t, shown, text)
	}
}

func FuzzDecodeSalt(f *testing.F) {
	f.Add("2006-01-02", strings.Repeat("0f", 32))
	f.Add("2006-01-02", "")
	f.Add("2006-13-02", "xx")
	f.Fuzz(func(t *testing.T, name, payload string) {
		day, salt, err := waypost.DecodeSalt([]byte(name), []byte(payload))
		if err != nil {
			require.Nil(t, salt)
			return
		}
		require.Equal(t, name, waypost.DayText(day))
		require.Equal(t, payload == "", salt == nil)
		if salt != nil {
			require.Equal(t, strings.ToLower(payload), fmt.Sprintf("%x", salt[:]))
		}
	})
}
