// Package replica is a node's own copy of every link, on Pebble: the truth that
// redirects are answered from, whatever else is reachable.
//
// A [DB] is a replication.Sink. Rows, position and digest change in one batch;
// a crash loses whole batches only, which the stream brings again. A snapshot
// fills a fresh store in a directory of its own beside the live one, and is
// swapped in by one rename; readers never wait for it.
//
// A store that fails a write goes on serving reads, says so through
// [DB.Degraded], and takes no more batches. Nothing that Pebble meets ends the
// process.
//
// It does not know where changes come from, nor HTTP. The layout on disk is
// described in DESIGN.md beside this file.
package replica
