//go:build !linux

package aside

// Elsewhere a thread cannot be lowered by itself, and room for more would only have it
// take turns with those that answer.
const lowers = false

func lower() {}
