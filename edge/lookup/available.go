package lookup

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Available returns the memory in bytes that this process may use: the least of the
// limits of GOMEMLIMIT, its control groups and the machine.
func Available() int64 { return availableAt("/") }

// availableAt is Available with another root of the file system.
func availableAt(root string) int64 {
	least := debug.SetMemoryLimit(-1) // math.MaxInt64 when there is none
	for _, file := range groupFiles(path.Join(root, "proc/self/cgroup"), path.Join(root, "sys/fs/cgroup")) {
		if text, err := os.ReadFile(file); err == nil {
			least = min(least, parseLimit(string(text)))
		}
	}
	if text, err := os.ReadFile(path.Join(root, "proc/meminfo")); err == nil {
		least = min(least, parseMachine(string(text)))
	}
	if least == math.MaxInt64 {
		return 1 << 30 // unknown
	}
	return least
}

// groupFiles lists the files with the limits of the process's control group and of its
// parents, of version 2 and 1. In a container the group may have its name on the host,
// and the container's limits are those of the mount's root.
func groupFiles(self, root string) (files []string) {
	const two, one = "memory.max", "memory.limit_in_bytes"
	rootOne := path.Join(root, "memory")
	files = []string{path.Join(root, two), path.Join(rootOne, one)}
	text, err := os.ReadFile(self)
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":") // a number
		controllers, group, ok := strings.Cut(line, ":")
		at, name := root, two
		if controllers != "" {
			at, name = rootOne, one
			ok = ok && slices.Contains(strings.Split(controllers, ","), "memory")
		}
		if !ok {
			continue
		}
		for group = path.Clean("/" + group); group != "/"; group = path.Dir(group) {
			files = append(files, path.Join(at, group, name))
		}
	}
	return files
}

// parseLimit reads a limit: a number of bytes, or "max". Version 1 has a number beyond
// all memory instead.
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
