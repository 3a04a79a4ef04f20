// Package chaos runs a whole system of separate processes under faults, records the
// answers that clients and visitors got, and judges whether they keep the promises of
// Waypost.
//
// The files judge_*_test.go judge a recorded history, without a process or a request. A
// history holds each request with the times at which it was sent and answered, the
// faults, and the final contents of PostgreSQL and the edges.
//
// The system consists of a cluster of PostgreSQL and its synchronous standby, two control
// planes, five edges in three regions and a relay, with a TCP proxy between all parts.
// Replication is synchronous, so that no acknowledged write may be lost in a failover.
//
// A seed decides which faults are struck, on whom, for how long and in which order, and
// which requests are sent. When exactly a request meets a fault is up to the machine.
//
//	make chaos SEED=7 CHAOS=20m
//
// A run that fails leaves its history and the output of all processes in bin/test, in a
// directory named after the seed. Out of reach are clocks, because all processes share
// the clock of the machine, and full disks, which packages edge/replica and edge/clicks
// test. Nodes do not gossip here; test/fleet has that.
package chaos
