// Package lookup is a table of links in memory that redirects are answered from: as
// many as fit a budget, outside of the Go heap, so that the collector has nothing
// to scan.
//
// A [Table] is derived from a store and never the truth. Its reader, [Table.Find],
// takes no lock, waits for nobody and does not allocate; when it cannot tell, it says
// so, and the store is asked. Its writer is one goroutine at a time, which keeps it
// equal to the store.
//
// It knows neither the store nor the disk. The layout in memory, and why what a
// reader sees is never torn, are described in DESIGN.md beside this file.
package lookup
