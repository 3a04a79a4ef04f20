// Package replica keeps a node's own copy of every link on Pebble. Redirects are answered
// from it, even when nothing else is reachable.
//
// A [DB] is a replication.Sink. Rows, position and digest change in one batch, so that a
// crash loses whole batches only, which the stream sends again. A snapshot fills a fresh
// store in its own directory and replaces the live one by one rename; readers never wait.
//
// A store that fails a write continues to serve reads, reports it through [DB.Degraded],
// and refuses further batches. No error that Pebble meets ends the process.
//
// The package does not know where changes come from, nor HTTP. DESIGN.md in this
// directory describes the layout on disk.
package replica
