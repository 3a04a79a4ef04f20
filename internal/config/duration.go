package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// longUnits matches the units that precede the units of time.ParseDuration: weeks and
// days of 24 hours.
var longUnits = regexp.MustCompile(`^([+-]?)(?:(\d+)w)?(?:(\d+)d)?(.*)$`)

// wellFormed matches the texts that ParseDuration reads, and such texts of durations that
// are too long.
var wellFormed = regexp.MustCompile(`^[+-]?(\d+w)?(\d+d)?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))*$`)

// maxDays bounds a duration, as [time.Duration] does.
const maxDays = math.MaxInt64 / int64(24*time.Hour)

// ParseDuration reads a duration as [time.ParseDuration] does, with whole weeks and days
// of 24 hours before the other units: 2w, 90d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no duration such as 30s, 5m or 90d", text)
	if strings.ContainsAny(text, "0123456789") && wellFormed.MatchString(text) {
		bad = fmt.Errorf("%q is too long: at most %dd", text, maxDays)
	}
	parts := longUnits.FindStringSubmatch(text)
	if parts == nil || text == "0" || !strings.ContainsAny(text, "0123456789") {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, bad
		}
		return d, nil
	}
	weeks, err1 := strconv.ParseInt("0"+parts[2], 10, 32)
	days, err2 := strconv.ParseInt("0"+parts[3], 10, 32)
	d, err3 := time.ParseDuration(fmt.Sprintf("%s%dh%s", parts[1], 24*(7*weeks+days), parts[4]))
	if errors.Join(err1, err2, err3) != nil {
		return 0, bad
	}
	return d, nil
}

// Duration is a [time.Duration] on the command line, as [ParseDuration] reads it.
type Duration time.Duration

// Set reads it.
func (d *Duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	*d = Duration(parsed)
	return err
}

// String writes it as [time.Duration] does.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Type returns the text that help shows behind the flag.
func (d *Duration) Type() string { return "duration" }
