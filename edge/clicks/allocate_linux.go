package clicks

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate sets a new file's size and reserves its disk space, so that writing to its
// mapping cannot run out of space.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return writeZeros(f, size)
		}
		return os.NewSyscallError("fallocate", err)
	}
}
