package clicks

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// defaultQuota is a week of clicks, where the disk has room for that beside everything
// else.
func defaultQuota(dir string, segment int64) int64 {
	const week = 2 << 30
	free, err := freeBytes(dir)
	if err != nil {
		return week // what is wrong with the directory shows when it is opened
	}
	if own, err := (&directory{root: dir}).used(); err == nil {
		free += own
	}
	return max(min(week, free/2), 8*segment)
}

// freeBytes is the room on the disk of a directory, or of what it will be made in.
func freeBytes(dir string) (int64, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return int64(s.Bavail) * s.Bsize, nil
		}
		up := filepath.Dir(dir)
		if !os.IsNotExist(err) || up == dir {
			return 0, os.NewSyscallError("statfs", err)
		}
		dir = up
	}
}
