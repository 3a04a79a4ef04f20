// Command redirect measures the redirect path of an edge: the CPU time of a
// redirect beside a bare fasthttp server and others, how long visitors wait at half
// of what the machine can do, and what links take of memory and disk. It writes
// results/redirect.json and RESULTS.md, section by section.
//
// Servers are processes of their own, made of this same program with a first
// argument that users need not know. It runs on Linux.
package main
