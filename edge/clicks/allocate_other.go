//go:build !linux

package clicks

import "os"

// allocate gives a new file its size and the disk space for it, so that writing to
// its mapping cannot run out of space.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
