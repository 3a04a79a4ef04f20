// Package memlimit measures how much memory a process may use, and keeps the process
// within the limit of its control group. The Go runtime does not know that limit, and a
// process that collects garbage too late is killed.
package memlimit

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Apply sets the soft limit of the Go runtime. The limit is nine tenths of the control
// group's limit without the outside bytes that the process needs beyond Go's heap, and at
// least a quarter of the group's limit. Apply changes nothing if GOMEMLIMIT is set or no
// control group has a limit.
func Apply(outside int64, log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	allowed, ok := allowedBy(os.DirFS("/"))
	if !ok {
		return
	}
	limit := within(allowed, outside)
	debug.SetMemoryLimit(limit)
	log.Info("limited the memory", "control_group_bytes", allowed, "gomemlimit_bytes", limit)
}

// CollectLess has garbage collected when the heap has grown by that many percent instead
// of 100, or sooner if a memory limit requires it. It changes nothing if GOGC is set.
func CollectLess(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

func within(allowed, outside int64) int64 {
	return max((allowed-outside)/10*9, allowed/4)
}

// allowedBy returns the least limit of the process's control group and the groups above
// it, of version 2 or 1; false without a limit.
func allowedBy(root fs.FS) (int64, bool) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case controllers == "":
			least = min(least, leastUp(root, "sys/fs/cgroup", group, "memory.max"))
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			least = min(least, leastUp(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
		}
	}
	const unlimited = 1 << 60 // version 1 says so with a number of about 2^63
	return least, least < unlimited
}

// leastUp returns the least limit of a group and all groups above it. It passes over a
// missing group, because in a container the path may be the host's.
func leastUp(root fs.FS, mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		if text, err := fs.ReadFile(root, path.Join(mount, at, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 { // not "max"
				least = min(least, n)
			}
		}
		if at == "/" {
			return least
		}
	}
}
