//go:build !failpoints

// Package failpoint marks the places at which tests kill the process. In a
// program that was not built with the tag failpoints a mark does nothing and
// costs nothing.
package failpoint

// Hit marks a place.
func Hit(string) {}
