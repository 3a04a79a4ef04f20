// Package clicks is an edge's journal of clicks, and ships them to the control plane. It
// records a click by copying it into a mapped file, and gathers clicks into batches. The
// identity and the bytes of a batch are on the disk before it is first sent. While the
// control plane is away, clicks lose detail before any is dropped. Batches are retained
// for a day after they were acknowledged.
//
// The package neither counts nor keeps clicks for reading, and decides nothing about a
// redirect: a click for which there is no room is counted as dropped, and the visitor is
// still redirected. DESIGN.md has the formats, the states, and the files that a crash
// leaves in each of them.
package clicks
