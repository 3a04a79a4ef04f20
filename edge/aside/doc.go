// Package aside keeps an edge's own work from the visitors' way. The Go scheduler treats all goroutines
// alike, and so does the system all threads: whoever makes a table of a snapshot, compacts tables or applies a large batch
// holds a processor for milliseconds while redirects wait. Here such work gets a thread of its own, of which the system knows that it may wait,
// and the runtime more processors than the machine has, so that redirects find one that is not taken.
//
// It is for work that takes milliseconds at a time, off the redirect path, and holds no lock that
// redirects need. Short work that comes again and again, and waits for a disk, gets the room alone, while it lasts: see [Briefly].
package aside
