// Package memlimit knows how much memory a process may use, and keeps it within what its
// control group allows: the Go runtime knows nothing of that, and is killed when it
// collects too late.
package memlimit

import (
	"io"
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

// Apply sets a soft limit of the Go runtime, nine tenths of what the control group
// allows and the process does not need outside of Go's heap, but at least a quarter.
// It leaves alone what GOMEMLIMIT says, and does nothing without a control group
// that has a limit.
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
	log.Info("memory is limited", slog.Int64("control_group_bytes", allowed), slog.Int64("gomemlimit_bytes", limit))
}

// CollectLess has garbage collected when the heap has grown by that many percent, and not
// by 100, or sooner when there is a limit. It leaves alone what GOGC says.
func CollectLess(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

func within(allowed, outside int64) int64 {
	return max((allowed-outside)/10*9, allowed/4)
}

// allowedBy returns the least limit of the process's control group and of those above
// it, of version 2 or 1; false when there is none.
func allowedBy(root fs.FS) (int64, bool) {
	text, err := readFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(text) {
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

// leastUp looks at a group and all above it. One that is missing is passed over: in
// a container its path may be that on the host.
func leastUp(root fs.FS, mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		if text, err := readFile(root, path.Join(mount, at, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && n > 0 { // not "max"
				least = min(least, n)
			}
		}
		if at == "/" {
			return least
		}
	}
}

func readFile(root fs.FS, name string) (string, error) {
	const most = 64 << 10
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(text), err
}
