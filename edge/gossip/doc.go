// Package gossip lets the nodes of a cluster tell one another that they are
// alive and how far their replicas are, without asking the control plane, so
// that a node whose stream is cut still knows about the others.
//
// Everything learned here is a hint. A holder of the cluster's gossip key can claim
// anything, so nothing may rest on it that must be true: identity and authority come
// from the credential on an HTTP connection. The package carries no links and no clicks,
// and decides nothing. It does carry messages that prove themselves: blocks of codes,
// which a control plane has signed ([Gossip.Spread]).
//
// Members are found and watched by memberlist (SWIM over UDP, with TCP for joins
// and as a fallback), encrypted with AES-256-GCM. A member is one boot of a node:
// its name is the node's and its boot, and what never changes during a boot
// travels as the member's metadata (card). What does change, the position, is
// sent once a second as a small message of its own (news), which every member
// passes on a few times and the newest of which replaces older ones; what the
// messages miss, the regular exchange of full states brings. The interval grows
// with the fleet, so that a node's traffic does not.
package gossip
