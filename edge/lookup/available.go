package lookup

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Available is the memory in bytes that this process may use for all that it does:
// the least of what GOMEMLIMIT, its control groups and the machine allow.
func Available() int64 {
	least := debug.SetMemoryLimit(-1) // math.MaxInt64 when there is none
	for _, file := range append(groupFiles("/proc/self/cgroup", "/sys/fs/cgroup"), "/sys/fs/cgroup/memory.max") {
		if text, err := os.ReadFile(file); err == nil {
			least = min(least, parseLimit(string(text)))
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		least = min(least, parseMachine(string(text)))
	}
	if least == math.MaxInt64 {
		return 1 << 30 // nobody tells
	}
	return least
}

// groupFiles names the files with the limits of the process's control group and of
// those around it (version 2 only).
func groupFiles(self, root string) (files []string) {
	text, err := os.ReadFile(self)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for group = path.Clean("/" + group); group != "/"; group = path.Dir(group) {
			files = append(files, path.Join(root, group, "memory.max"))
		}
	}
	return files
}

// parseLimit reads a memory.max: a number of bytes, or "max".
func parseLimit(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}

// parseMachine reads the machine's memory from /proc/meminfo, which counts in KiB.
func parseMachine(text string) int64 {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(fields[1], 10, 53); err == nil && n > 0 {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}
