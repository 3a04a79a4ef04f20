// Package locksteptest holds the metamorphic test of replication in which a seed repeats a run in full: three
// edges and a relay below a real PostgreSQL, over real HTTP through wires that are cut, with file systems that crash. Each
// step is over before the next one begins, and nodes die at places of package failpoint: what such a node would do next is
// not done, nobody hears of it any more, and it begins again with what a crash leaves of its disk. It is for
// tests alone. Package treetest has the one in which all goes on at once.
//
// A failing test prints the command that does the same again, and what was done.
// WAYPOST_TREE_STEPS makes runs longer.
package locksteptest
