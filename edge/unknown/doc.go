// Package unknown counts the addresses that visitors ask for and that name no link, and
// reports them to the control plane.
//
// Record copies a visit into a buffer of fixed size, and drops it when there is no room:
// it neither waits nor allocates. A single goroutine empties the buffers, drops addresses
// that may be private or that no person types, and counts the others in a table of fixed
// size. It counts in memory only: a kill loses the counts that were not reported yet.
//
// A flood of invented addresses takes little room from addresses that people ask for. One
// network has a share of each buffer, and brings few new addresses an hour; bots bring
// none. A new address replaces only an address that a single visitor has asked for.
package unknown
