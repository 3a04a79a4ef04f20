package failpoint

// Points are the places of one part of a program, such as one replica of several, so that
// a test can do to it alone what is to happen there. Hit marks a place of the part and of
// the program. A nil *Points is that of a part to which nothing is done.
type Points struct {
	// Reached is called at each place by the goroutine that reaches it, with the locks that
	// it holds there.
	Reached func(name string)
	// Numbers are those of the part that a test has set.
	Numbers map[string]int64
}
