//go:build linux

// Command replication measures how links come to edges: snapshots and the tail of the
// changelog, beside plain readings and writings of the same records, and the time from a commit to
// the moment at which an edge has it. It writes results/replication.json and RESULTS.md
// when all of it went well.
package main
