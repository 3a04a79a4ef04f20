// Package peers decides whom an edge follows: its home, which is the control plane or a relay, or,
// while that is away, the most advanced peer in reach. It returns by itself.
//
// Nothing that it is told about peers is believed before the peer itself has answered, and
// then by the rules of a follower of peers: see replication.FollowConfig.Peer. It does not
// know where peers come from.
package peers
