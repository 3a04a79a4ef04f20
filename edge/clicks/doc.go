// Package clicks is an edge's journal of clicks and the way from there to the
// control plane: a click is recorded by copying it into a mapped file, gathered with
// others into a batch whose identity and bytes are fixed on disk before it is first
// sent. While the control plane is away, clicks lose detail before any is dropped.
// Batches are kept for a day after they were acknowledged, and then forgotten.
//
// It neither counts nor keeps clicks for reading, and decides nothing about a
// redirect: when it cannot take a click it counts a dropped one and says so, and the
// visitor is redirected all the same. DESIGN.md has the formats, the states and what
// a crash leaves at each of them.
package clicks
