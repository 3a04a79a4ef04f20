// Package rollup adds up the clicks of a link's day, and packs the sums for storage. It
// is arithmetic alone; package controlplane/postgres stores the packed bytes and decides
// when to merge them.
//
// A [Delta] holds the clicks of one link and day from one batch of an edge, and a [Day]
// the sum of all batches: clicks by quarter of an hour, a [Breakdown] and [Visitors].
// Merging loses no click: in every dimension of a breakdown the clicks add up to the
// clicks of the day.
//
// The packed forms are in DESIGN.md.
//
// Up to 2,048 visitors are counted exactly. More are a HyperLogLog sketch of precision
// 14, with a standard error of 0.8 %. The bytes depend on the set of visitors alone, not
// on the order of their clicks.
package rollup
