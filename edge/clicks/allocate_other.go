//go:build !linux

package clicks

import "os"

// allocate sets a new file's size and reserves its disk space, so that writing to its
// mapping cannot run out of space.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
