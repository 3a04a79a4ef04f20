// Package keyrange does the arithmetic of generated codes: it divides the code space
// into prefixes, ranges and blocks of counters, turns a counter into a code and back by
// a keyed permutation, and plans how the counters of all regions last equally long.
//
// It does no I/O and decides nothing about ownership. The control plane and PostgreSQL
// ensure that ranges are disjoint, and that a block is durable before a code of it is
// published; the permutation only maps different counters to different codes. DESIGN.md
// in this directory explains why.
package keyrange
