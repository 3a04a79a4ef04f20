// Package budgets spends the clicks that the control plane grants an edge of the budgets
// of links. Package rules/budget has the arithmetic.
//
// A redirect takes a click from a counter in memory. A goroutine asks for more ahead of
// need, gives idle clicks back, and reports what was spent. Every grant is durable in a
// small file before its first click is spent. The file says nothing of clicks that are
// spent: whatever a boot held when it was killed counts as spent.
package budgets
