// Package followers_test holds a metamorphic test of replication: three edges and a relay
// below a real PostgreSQL, over real HTTP through wires that are cut, with file systems
// that crash. Nodes die at places of package failpoint, and before writes: a dead node
// does nothing further, sends nothing to others, and starts again with the files that a
// crash leaves on its disk. It is for tests alone.
//
// A failing test prints the command that repeats it, and its steps. WAYPOST_TREE_STEPS
// makes runs longer.
package followers_test
