// Package corpus makes what benchmarks ask for: links by number, with codes and
// targets of real shapes, the order in which they are visited, and the headers of
// browsers. All of it follows from numbers, so that nobody needs to keep ten
// million links to know where one of them leads.
package corpus
