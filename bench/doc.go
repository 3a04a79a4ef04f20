// Package bench turns measured rounds into the figures that the project publishes:
// medians and ranges, ratios of things measured side by side, goals and whether
// they are met. Every benchmark has a file of its own, results/NAME.json, which it
// replaces section by section; RESULTS.md is made of all of them.
//
// The benchmarks are programs in the directories below; package corpus makes their
// links and requests, wrk and openloop are their clients. Nothing here is a test: how fast something is depends on the
// machine, so that figures are recorded with how they were made, and compared only within one run.
package bench
