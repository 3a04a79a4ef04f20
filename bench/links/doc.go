//go:build linux

// Command links measures what it costs to bring links in and to find them again: the
// import of a file through the API into two edges, single creates over HTTP, and lists
// and searches of many links. The first two stand beside plain INSERTs of the same rows. It writes
// results/links.json and RESULTS.md when all of it went well.
package main
