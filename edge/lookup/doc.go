// Package lookup is a table of links in memory from which redirects are answered. It
// holds as many links as fit a budget, outside of the Go heap, so that the garbage
// collector has nothing to scan.
//
// A [Table] is derived from a store and never the truth. Its reader, [Table.Find], takes
// no lock, never waits and does not allocate; when the table cannot tell, Find says so,
// and the caller asks the store. Its writer is one goroutine at a time, which keeps the
// table equal to the store.
//
// The package knows neither the store nor the disk. DESIGN.md in this directory describes
// the layout in memory, and why no reader sees a torn record.
package lookup
