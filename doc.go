// Package waypost is the vocabulary of the system: what a link, a code, a
// region, a position and a record are, and how a record becomes an answer to a
// visitor. It imports only the standard library, so that every other package
// can speak it.
//
// It holds no I/O and no policy of the control plane: target validation lives in
// controlplane/target, the byte format of records in replication.
package waypost
