// Package peers chooses the source that an edge follows: its home, which is the control
// plane or a relay, or, while that is away, the most advanced peer in reach. It returns
// to its home automatically.
//
// Hints about peers are believed only after the peer itself has answered, by the rules
// of replication.FollowConfig.Peer. The package does not know where the list of peers
// comes from.
package peers
