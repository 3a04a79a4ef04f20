//go:build !failpoints

// Package failpoint marks the places at which tests kill or slow the process. In a
// program that was not built with the tag failpoints a mark does nothing and
// costs nothing.
package failpoint

import "time"

// Hit marks a place.
func Hit(string) {}

// Limit returns a limit of the program.
func Limit(_ string, d time.Duration) time.Duration { return d }

// Number returns a number of the program.
func Number(_ string, n int64) int64 { return n }
