// Package budgets spends clicks of the budgets of links. The control plane grants these
// clicks to the edge. Package rules/budget has the arithmetic.
//
// A redirect takes a click from a counter in memory. Goroutines ask for more clicks ahead
// of need, and for the first click of links that arrive; another goroutine returns idle
// and recalled clicks and reports spent clicks. Every grant is
// durable in a small file before its first click is spent. The file does not name spent
// clicks: everything that a boot held when it was killed counts as spent.
//
// Store is for the redirects, and speaks with the control plane. Its ledger holds the
// accounts in memory, and its grantLog keeps them on the disk.
package budgets
