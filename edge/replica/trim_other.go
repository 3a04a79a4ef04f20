//go:build !cgo || !linux

package replica

// trimMemory has nothing to do: Pebble's memory is Go's, or the system's allocator gives
// it back by itself.
func trimMemory() {}
