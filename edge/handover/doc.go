// Package handover lets one process of an edge take the place of another without losing
// a request: the successor asks over a socket in the data directory, and gets the
// listening sockets and locks of the incumbent, which answers on until the successor is
// ready, or goes back to work when it never is. DESIGN.md has the order of steps.
//
// It knows nothing of replicas, clicks or HTTP: what is let go of, and how, is up to
// the Incumbent, and what is done with it to the caller of Claim.
package handover
