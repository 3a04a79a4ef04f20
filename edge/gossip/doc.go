// Package gossip lets the nodes of a cluster tell one another that they are alive and how
// far their replicas are, without asking the control plane, so that a node with a cut
// stream still knows about the others.
//
// Everything learned here is a hint. A holder of the cluster's gossip key can claim
// anything, so nothing may rest on it that must be true: identity and authority come
// from the credential on an HTTP connection. The package carries no links and no clicks,
// and decides nothing. It does carry messages that prove themselves: blocks of codes,
// which a control plane has signed ([Gossip.Spread]).
//
// Members are found and watched by memberlist (SWIM over UDP, with TCP for joins and as a
// fallback), encrypted with AES-256-GCM. A member is one boot of a node: its name
// consists of the node and the boot. Facts that never change during a boot travel as the
// member's metadata (card). The position changes, so each member sends it once a second
// as a small message (news). Every member passes news on a few times, and newer news
// replaces older. The regular exchange of full states brings news that messages missed.
// The interval grows with the fleet, so that a node's traffic does not.
package gossip
