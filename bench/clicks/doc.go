//go:build linux

// Command clicks measures how fast clicks are counted: batches of edges into a real
// PostgreSQL, as rollups and with every single click, all on one link and each on another of
// a million, with and without the roller at work, beside a plain UPDATE of counters. It
// writes results/clicks.json and RESULTS.md when all of it went well.
package main
