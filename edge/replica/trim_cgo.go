//go:build cgo && linux

package replica

// #include <stddef.h>
// extern int malloc_trim(size_t) __attribute__((weak)); // glibc has it
// static void trim(void) { if (malloc_trim) malloc_trim(0); }
import "C"

// trimMemory returns memory that Pebble has freed to the system. Reading all links takes
// and frees a block at a time, in each of the allocator's arenas, which keep most of it.
func trimMemory() { C.trim() }
