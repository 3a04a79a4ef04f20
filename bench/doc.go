// Package bench turns measured rounds into the figures that the project publishes:
// medians, ranges, ratios of things measured side by side, and goals that are met or
// missed. It writes them into RESULTS.md, section by section, and has the flags, the
// processors and the process times that the benchmarks share.
//
// The benchmarks are programs in the directories below; package corpus makes their links
// and requests, wrk and openloop are their clients. Speed depends on the machine, so
// figures are recorded with the conditions of their run, and compared only within one
// run.
package bench
