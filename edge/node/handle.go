package node

import (
	"context"
	"errors"
	"sync/atomic"

	"waypost"
	"waypost/edge/replica"
	"waypost/internal/patterns"
	"waypost/replication"
)

// errNoReplica is the answer of an edge that waits for its first snapshot.
var errNoReplica = errors.New("this edge has no replica yet")

// handle points to the replica, which may be missing, or opened late. Redirects and the
// follower use it at the same time.
type handle struct{ now atomic.Pointer[replica.DB] }

func (h *handle) set(db *replica.DB) { h.now.Store(db) }

// current returns the replica, nil without a replica.
func (h *handle) current() *replica.DB { return h.now.Load() }

// Link implements [server.Links].
func (h *handle) Link(domain waypost.DomainID, code, buf []byte) (waypost.Record, []byte, bool, error) {
	if db := h.current(); db != nil {
		return db.Link(domain, code, buf)
	}
	return waypost.Record{}, buf, false, errNoReplica
}

// Domain implements [server.Links].
func (h *handle) Domain(host []byte) (waypost.DomainID, waypost.DomainTraits, bool) {
	db := h.current()
	if db == nil {
		return waypost.DefaultDomain, 0, true // Link then reports the missing replica
	}
	id, traits, known := db.Domain(host)
	if _, holds := db.Cluster(); !holds {
		return waypost.DefaultDomain, 0, true
	}
	return id, traits, known
}

// Patterns implements [server.Links].
func (h *handle) Patterns(domain waypost.DomainID) *patterns.Index {
	if db := h.current(); db != nil {
		return db.Patterns(domain)
	}
	return nil
}

// Targets implements [server.Links].
func (h *handle) Targets(domain waypost.DomainID) waypost.DomainTargets {
	if db := h.current(); db != nil {
		return db.Targets(domain)
	}
	return waypost.DomainTargets{}
}

// Salt implements [audience.Salts].
func (h *handle) Salt(day int32) *waypost.Salt {
	if db := h.current(); db != nil {
		return db.Salt(day)
	}
	return nil
}

// owner returns the workspace of the domain of a host, 0 for a shared domain, and false
// if no domain has this host.
func (h *handle) owner(host string) (waypost.WorkspaceID, bool) {
	if db := h.current(); db != nil {
		return db.Owner(host)
	}
	return 0, false
}

// customHosts returns the hosts of the domains that belong to one workspace.
func (h *handle) customHosts() []string {
	if db := h.current(); db != nil {
		return db.CustomHosts()
	}
	return nil
}

// Cluster implements [replication.Sink].
func (h *handle) Cluster() (replication.Cluster, bool) {
	if db := h.current(); db != nil {
		return db.Cluster()
	}
	return replication.Cluster{}, false
}

// Position implements [replication.Sink].
func (h *handle) Position() waypost.Position {
	if db := h.current(); db != nil {
		return db.Position()
	}
	return waypost.Position{}
}

// reported returns the position that others see: none during a repair, and none of a
// replica that is not verified.
func (h *handle) reported() waypost.Position {
	if h.Repairing() || !h.verified() {
		return waypost.Position{}
	}
	return h.Position()
}

// verified reports whether the replica's records were verified against the digest of its
// position.
func (h *handle) verified() bool {
	db := h.current()
	return db != nil && db.Verified()
}

// verifying reports whether the replica's records are still to be added up.
func (h *handle) verifying() bool {
	db := h.current()
	return db != nil && db.Verifying()
}

// damaged reports whether records are known to be wrong or
// missing.
func (h *handle) damaged() bool {
	db := h.current()
	if db == nil {
		return false
	}
	_, holds := db.Cluster()
	return holds && !db.Verified() && !db.Verifying() && !db.Repairing()
}

// Synced returns the position that survives a crash.
func (h *handle) Synced() waypost.Position {
	if db := h.current(); db != nil {
		return db.Synced()
	}
	return waypost.Position{}
}

// Sync makes everything durable that is applied by now.
func (h *handle) Sync() error {
	if db := h.current(); db != nil {
		return db.Sync()
	}
	return nil
}

// degraded returns the reason why the replica refuses changes, nil while it takes them.
func (h *handle) degraded() error {
	if db := h.current(); db != nil {
		return db.Degraded()
	}
	return nil
}

// digest returns the digest of the replica at a position, and false when the replica has
// moved on.
func (h *handle) digest(at waypost.Position) (uint64, bool) {
	db := h.current()
	if db == nil {
		return 0, false
	}
	digest := db.Digest()
	return digest, db.Position() == at
}

// Repairing implements [replication.Repairer].
func (h *handle) Repairing() bool {
	db := h.current()
	return db != nil && db.Repairing()
}

// Repair implements [replication.Repairer].
func (h *handle) Repair(ctx context.Context, c replication.Cluster, e waypost.Epoch) (replication.Repair, error) {
	db := h.current()
	if db == nil {
		return nil, errNoReplica
	}
	return db.Repair(ctx, c, e)
}

// Verify is [replica.DB.Verify].
func (h *handle) Verify(ctx context.Context) (replica.Verification, error) {
	db := h.current()
	if db == nil {
		return replica.Verification{}, errNoReplica
	}
	return db.Verify(ctx)
}

// Accept implements [replication.Accepter].
func (h *handle) Accept(what replication.HoldKind, upTo waypost.Position) {
	if db := h.current(); db != nil {
		db.Accept(what, upTo)
	}
}
