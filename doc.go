// Package waypost defines the vocabulary of the system: link, code, region, position and
// record, and the answer of a record to a visitor. It imports only the standard
// library, so that every other package can use it.
//
// It does no I/O and holds no policy of the control plane: controlplane/target validates
// targets, replication encodes records, and api/clickbatch encodes clicks.
package waypost
