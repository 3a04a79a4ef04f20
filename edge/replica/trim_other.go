//go:build !cgo || !linux

package replica

// trimMemory does nothing: Pebble's memory is Go's, or the system's allocator returns it
// automatically.
func trimMemory() {}
