package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units of memory and of disk space, the longer ones first.
var units = []struct {
	suffix string
	shift  uint
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"", 0}}

// leastClickJournal is 32 segments, with which a journal works on any machine.
const leastClickJournal = 64 << 20

// ParseClickJournal reads edge.click_journal: "auto" means 0, which lets the journal
// choose, and everything else is a number of bytes.
func ParseClickJournal(text string) (int64, error) {
	if text == "" || text == "auto" {
		return 0, nil
	}
	n, ok := parseBytes(text)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is no amount of disk space such as auto, 512MiB or 4GiB", text)
	case n < leastClickJournal:
		return 0, fmt.Errorf("%q is less than 64MiB", text)
	}
	return n, nil
}

// parseBytes reads a number of bytes with its unit.
func parseBytes(text string) (int64, bool) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		return int64(n << u.shift), err == nil && n <= math.MaxInt64>>u.shift
	}
	return 0, false
}
