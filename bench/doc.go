// Package bench turns measured rounds into the figures that the project publishes:
// medians and ranges, ratios of things measured side by side, and the two files
// that hold them, results.json and RESULTS.md.
//
// The load generators are programs in the directories below. Nothing here is a
// test: how fast something is depends on the machine, so that figures are
// recorded with how they were made, and compared only within one run.
package bench
