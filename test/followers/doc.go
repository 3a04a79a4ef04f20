// Package followers_test holds a metamorphic test of replication: three edges and a relay
// below a real PostgreSQL, over real HTTP through wires that are cut, with file systems
// that crash. Nodes die at places of package failpoint, and before writes: what such a
// node would do next is not done, no one hears of it any more, and it begins again with
// what a crash leaves of its disk. It is for tests alone.
//
// A failing test prints the command that does the same again, and what was done.
// WAYPOST_TREE_STEPS makes runs longer.
package followers_test
