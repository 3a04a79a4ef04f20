// Package keyrange is the arithmetic of generated codes: how the code space is
// divided into prefixes, what a range and a block of counters are, the keyed
// permutation that turns a counter into a code and back, and the plan that makes
// the counters of all regions last equally long.
//
// It does no I/O and decides nothing about ownership. That ranges are disjoint,
// and that a block is durable before a code of it is published, is the business
// of the control plane and of PostgreSQL; the permutation only turns different
// counters into different codes. DESIGN.md beside this file gives its reasons.
package keyrange
