package failpoint

// Points are the places of one part of a program, such as one replica of several, so that
// a test can kill or slow this part alone. Hit marks a place of the part and of the
// program. A nil *Points belongs to a part that no test disturbs.
type Points struct {
	// Reached is called at each place by the goroutine that reaches it, with the locks that
	// it holds there.
	Reached func(name string)
	// Numbers holds the part's numbers that a test has set.
	Numbers map[string]int64
}
