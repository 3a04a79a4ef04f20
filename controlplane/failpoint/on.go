//go:build failpoints

// Package failpoint marks the places at which tests kill the process.
//
// WAYPOST_FAILPOINT names a place and how often it is passed before the process
// kills itself there with SIGKILL, such as "lease keys: committed=3".
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	place, left = read(os.Getenv("WAYPOST_FAILPOINT"))
	passed      atomic.Int64
)

func read(setting string) (place string, left int64) {
	place, count, found := strings.Cut(setting, "=")
	if !found {
		return place, 0
	}
	left, err := strconv.ParseInt(count, 10, 32)
	if err != nil {
		panic("WAYPOST_FAILPOINT must be PLACE=COUNT")
	}
	return place, left
}

// Hit marks a place.
func Hit(name string) {
	if name != place || passed.Add(1) <= left {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}
