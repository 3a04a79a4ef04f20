// Package treetest holds a metamorphic test of replication: three edges and a relay below a real
// PostgreSQL, over real HTTP through wires that are cut, with file systems that crash. It
// is for tests alone.
package treetest
