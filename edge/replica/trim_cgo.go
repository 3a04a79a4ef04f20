//go:build cgo && linux

package replica

// #include <stddef.h>
// extern int malloc_trim(size_t) __attribute__((weak)); // glibc has it
// static void trim(void) { if (malloc_trim) malloc_trim(0); }
import "C"

// trimMemory gives back what Pebble has freed. Reading all links takes and frees a block
// at a time, in turns in each of the allocator's arenas, which keep most of it.
func trimMemory() { C.trim() }
