package waypost

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// Salt is the cluster's secret of one day, UTC. It encrypts the addresses of that day's
// visitors in the journals of the edges, and distinguishes visitors. Once it is
// destroyed, neither is possible. It must not be logged or shown.
type Salt [32]byte

// Format hides the salt from fmt, for every verb.
func (Salt) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the salt from encoders, and so from slog.
func (Salt) MarshalText() ([]byte, error) { return []byte(hidden), nil }

const hidden = "[hidden]"

// saltDay is the format of a day in the name of a salt's record.
const saltDay = time.DateOnly

// DayText formats a day as YYYY-MM-DD.
func DayText(day int32) string {
	return time.Unix(int64(day)*24*60*60, 0).UTC().Format(saltDay)
}

// ParseDay parses the text of DayText, with a year of four digits.
func ParseDay(text string) (int32, error) {
	t, err := time.Parse(saltDay, text)
	if err != nil {
		return 0, errors.New("not a day such as 2006-01-02")
	}
	return Day(t.UnixMilli()), nil
}

// DecodeSalt decodes the name and the payload of a salt's record. salt is nil after an
// error, and for an empty payload, which means that the salt was destroyed. day is 0 if
// the name is not a day. Errors reveal nothing of the payload.
func DecodeSalt(name, payload []byte) (day int32, salt *Salt, err error) {
	if day, err = ParseDay(string(name)); err != nil || len(payload) == 0 {
		return day, nil, err
	}
	salt = new(Salt)
	if len(payload) != hex.EncodedLen(len(salt)) {
		return day, nil, errors.New("not a salt of 32 bytes in hex")
	}
	if _, err := hex.Decode(salt[:], payload); err != nil { // its error would show a byte
		return day, nil, errors.New("not a salt of 32 bytes in hex")
	}
	return day, salt, nil
}
