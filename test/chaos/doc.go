// Package chaos runs a whole system of separate processes under faults, records what
// clients and visitors were told, and has package judge decide whether that is what
// Waypost promises.
//
// The system is two clusters of PostgreSQL, of which one is the synchronous standby of
// the other, two control planes, five edges in three regions and a relay, with a TCP
// proxy between all parts. Replication is synchronous, so that no acknowledged write may
// be lost in a failover.
//
// A seed decides which faults are struck, on whom, for how long and in which order, and
// which requests are sent. When exactly a request meets a fault is up to the machine.
//
//	make chaos SEED=7 CHAOS=20m
//
// A run that fails leaves its history and the output of all processes in bin/test, in a
// directory named after the seed. Out of reach are clocks, because all processes share
// that of the machine, and full disks, which packages edge/replica and edge/clicks test.
// Nodes do not gossip here; test/fleet has that.
package chaos
