package waypost

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// Salt is the cluster's secret of one day, UTC. With it the addresses of that day's
// visitors are sealed in the journals of the edges, and visitors told apart; once it
// is destroyed, nobody can do either any more. It must not be logged nor shown.
type Salt [32]byte

// Format hides the salt from fmt, whatever the verb.
func (Salt) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the salt from encoders, and so from slog.
func (Salt) MarshalText() ([]byte, error) { return []byte(hidden), nil }

const hidden = "[hidden]"

// saltDay is how a day is written in the name of a salt's record.
const saltDay = time.DateOnly

// DayText writes a day as YYYY-MM-DD.
func DayText(day int32) string {
	return time.Unix(int64(day)*24*60*60, 0).UTC().Format(saltDay)
}

// ParseDay reads a day as DayText writes it, with a year of four digits.
func ParseDay(text string) (int32, error) {
	t, err := time.Parse(saltDay, text)
	if err != nil {
		return 0, errors.New("it is no day such as 2006-01-02")
	}
	return Day(t.UnixMilli()), nil
}

// DecodeSalt reads name and payload of a salt's record. A salt that was destroyed,
// which is an empty payload, is nil, and so it is with an error. Day is 0 when the
// name is none. Errors tell nothing of the payload.
func DecodeSalt(name, payload []byte) (day int32, salt *Salt, err error) {
	if day, err = ParseDay(string(name)); err != nil || len(payload) == 0 {
		return day, nil, err
	}
	salt = new(Salt)
	if len(payload) != hex.EncodedLen(len(salt)) {
		return day, nil, errors.New("it is no salt of 32 bytes in hex")
	}
	if _, err := hex.Decode(salt[:], payload); err != nil { // whose error would show a byte
		return day, nil, errors.New("it is no salt of 32 bytes in hex")
	}
	return day, salt, nil
}
