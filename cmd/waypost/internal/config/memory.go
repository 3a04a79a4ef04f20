package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units of memory, the longer ones first.
var units = []struct {
	suffix string
	shift  uint
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"", 0}}

// leastLookupMemory is what a lookup table works with.
const leastLookupMemory = 1 << 20

// ParseLookupMemory reads edge.lookup_memory: "auto" gives 0, which lets the replica
// choose, "0" gives -1, no table at all, and everything else is a number of bytes.
func ParseLookupMemory(text string) (int64, error) {
	switch text {
	case "", "auto":
		return 0, nil
	case "0":
		return -1, nil
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || n > math.MaxInt64>>u.shift {
			break
		}
		if n <<= u.shift; n < leastLookupMemory {
			return 0, fmt.Errorf("%q is less than 1MiB", text)
		}
		return int64(n), nil
	}
	return 0, fmt.Errorf("%q is no amount of memory such as auto, 0, 512MiB or 4GiB", text)
}
