//go:build !linux

package lookup

func preferHuge([]byte) {}
