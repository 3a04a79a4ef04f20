package memlimit

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Available returns the memory in bytes that this process may use: the least of the limit
// of the Go runtime, the limits of its control groups, and the machine's memory.
func Available() int64 { return availableIn(os.DirFS("/")) }

func availableIn(root fs.FS) int64 {
	least := debug.SetMemoryLimit(-1) // math.MaxInt64 when there is none
	if allowed, ok := allowedBy(root); ok {
		least = min(least, allowed)
	}
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		least = min(least, machineMemory(string(text)))
	}
	if least == math.MaxInt64 {
		return 1 << 30 // unknown
	}
	return least
}

// machineMemory reads the machine's memory from /proc/meminfo, which counts in KiB.
func machineMemory(text string) int64 {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(fields[1], 10, 53); err == nil && n > 0 {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}
