// Package broken shows that the tests notice what they are there for. Each patch in
// defects puts one defect into the program, such as a lease that is reused, and names a
// test, which has to fail with it. `make broken` builds and runs them one after the
// other; the test of this package shows that they still fit the source.
package broken
