// Package corpus makes the links and requests of benchmarks: links by number, with codes
// and targets of real shapes, the order in which they are visited, and the headers of
// browsers. All of it follows from numbers, so that a program need not keep ten million
// links in memory to know the target of each.
package corpus
