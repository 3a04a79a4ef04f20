package fleet

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"waypost"
	"waypost/controlplane"
	"waypost/replication"
)

const (
	rememberedFor = time.Second // for which an answer of the database is used
	maxRemembered = 10_000      // credentials, and names
)

// NodesConfig configures [Nodes]. Zero fields mean the default.
type NodesConfig struct {
	Store  NodeStore        // required
	Poll   time.Duration    // between checks whether connected nodes are revoked; default 200 ms
	Note   time.Duration    // between writes of last-used times; default 1 min
	Logger *slog.Logger     // default: nothing is logged
	Now    func() time.Time // default time.Now

	Patience time.Duration // with the database, for one credential; default 1 s
}

// Nodes authenticates edges. It caches answers of the database for somewhat less than a
// second, so that a revocation takes effect within a second on every instance, also for
// a node that connects just before its entry expires. While the database is away entries
// last an hour, because this instance then has no new changes to send. All methods may
// be called by many goroutines at once.
type Nodes struct {
	cfg  NodesConfig
	wake chan struct{} // has a token when there is something to look at

	mu     sync.Mutex
	known  map[[32]byte]knownNode // bounded by maxRemembered
	taken  map[string]knownName   // bounded by maxRemembered
	rounds int                    // how often all was forgotten
	held   map[int64]map[*hold]struct{}
	seen   map[int64]time.Time
}

type knownNode struct {
	StoredNode
	at time.Time // when the database was asked
}

type knownName struct {
	taken bool
	at    time.Time
}

// hold is a request under way, by a node with a credential.
type hold struct{ end context.CancelCauseFunc }

const (
	nodeCacheTime = 700 * time.Millisecond
	awayCacheTime = time.Hour   // while the database does not answer
	lookupLimit   = time.Second // for its answer
)

// NewNodes returns Nodes. Run ends open streams when their credential is revoked.
func NewNodes(cfg NodesConfig) *Nodes {
	if cfg.Poll <= 0 {
		cfg.Poll = 200 * time.Millisecond
	}
	if cfg.Patience <= 0 {
		cfg.Patience = lookupLimit
	}
	if cfg.Note <= 0 {
		cfg.Note = time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Nodes{
		cfg: cfg, wake: make(chan struct{}, 1), known: make(map[[32]byte]knownNode), taken: make(map[string]knownName),
		held: make(map[int64]map[*hold]struct{}), seen: make(map[int64]time.Time),
	}
}

// Authenticate finds the node that has a credential. It returns EUnauthorized for an
// unknown credential, EForbidden for a revoked one.
func (n *Nodes) Authenticate(ctx context.Context, text string) (Node, error) {
	if !ValidNodeCredential(text) {
		return Node{}, errNoCredential
	}
	hash, now := controlplane.HashKey(text), n.cfg.Now()
	n.mu.Lock()
	k, known := n.known[hash]
	round := n.rounds
	n.mu.Unlock()
	if !known || now.Sub(k.at).Abs() >= nodeCacheTime {
		limited, cancel := context.WithTimeout(ctx, n.cfg.Patience)
		stored, found, err := n.cfg.Store.Node(limited, hash)
		cancel()
		switch {
		case err != nil && known && now.Sub(k.at) < awayCacheTime:
		case err != nil:
			return Node{}, err
		case !found || subtle.ConstantTimeCompare(stored.Hash[:], hash[:]) != 1:
			return Node{}, errNoCredential
		default:
			k = knownNode{stored, now}
			n.mu.Lock()
			if n.rounds == round {
				remember(n.known, hash, k)
			}
			n.mu.Unlock()
		}
	}
	if k.Revoked {
		return Node{}, refusal(&k.StoredNode)
	}
	n.mu.Lock()
	n.seen[k.Credential] = now
	n.mu.Unlock()
	return k.Node, nil
}

var errNoCredential = waypost.Errorf(waypost.EUnauthorized, "a valid credential of an edge is required")

// refusal returns the error for a revoked credential, with a remedy.
func refusal(n *StoredNode) error {
	if n.Replaced {
		return waypost.Errorf(waypost.EForbidden,
			"node %s has enrolled again and has another credential: two edges must not have one name; give one of them another, with a token of its own", n.Name)
	}
	return waypost.Errorf(waypost.EForbidden,
		"the credential of node %s was revoked: to let this edge in again, make a token with `waypost edges enrol --region %s --node %s` and start it with that", n.Name, n.Region, n.Name)
}

// doubt drops the cached credentials of a node.
func (n *Nodes) doubt(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.known, func(_ [32]byte, k knownNode) bool { return k.Name == node })
	n.rounds++
}

// remember stores an answer of the database in a bounded map.
func remember[K comparable, V any](m map[K]V, key K, value V) {
	if _, there := m[key]; !there && len(m) >= maxRemembered {
		clear(m)
	}
	m[key] = value
}

// MayReport returns EForbidden unless a node may report the state of the edge of a name.
// Without a credential of its own it may do so for names that are not enrolled.
func (n *Nodes) MayReport(ctx context.Context, node *Node, name string, region waypost.Region) error {
	if node.Name != "" && node.Name != name {
		return waypost.Errorf(waypost.EForbidden, "this is a report of node %s, and the credential that of %s", name, node.Name)
	}
	if node.Own() {
		if node.Region != region {
			return waypost.Errorf(waypost.EForbidden, "this is a report from region %s, and node %s is enrolled in %s", region, node.Name,
				node.Region)
		}
		return nil
	}
	return n.unclaimed(ctx, name)
}

// MayShip returns EForbidden unless a node may ship the clicks of a name: its own name,
// or a former name of its directory. Without a credential of its own it may do so for
// names that are not enrolled.
func (n *Nodes) MayShip(ctx context.Context, node *Node, name string) error {
	switch {
	case node.Own() && node.hasName(name):
		return nil
	case node.Own():
		return waypost.Errorf(waypost.EForbidden,
			"these are clicks of node %s, and the credential is that of %s: if it is a name that this edge had, start it with another token of `waypost edges enrol --region %s --node %s`", name, node.Name, node.Region, node.Name)
	case node.Name != "" && node.Name != name: // by its certificate
		return waypost.Errorf(waypost.EForbidden, "these are clicks of node %s, and the certificate is that of %s", name, node.Name)
	}
	return n.unclaimed(ctx, name)
}

func (n *Nodes) unclaimed(ctx context.Context, name string) error {
	now := n.cfg.Now()
	n.mu.Lock()
	k, known := n.taken[name]
	round := n.rounds
	n.mu.Unlock()
	if !known || !k.taken && now.Sub(k.at).Abs() >= rememberedFor { // a taken name stays taken
		limited, cancel := context.WithTimeout(ctx, n.cfg.Patience)
		taken, err := n.cfg.Store.NodeNamed(limited, name)
		cancel()
		if err != nil && (!known || now.Sub(k.at) >= awayCacheTime) {
			return err
		}
		if err == nil {
			k = knownName{taken, now}
			n.mu.Lock()
			if n.rounds == round {
				remember(n.taken, name, k)
			}
			n.mu.Unlock()
		}
	}
	if k.taken {
		return waypost.Errorf(waypost.EForbidden, "node %s has a credential of its own, and this is another", name)
	}
	return nil
}

// Hold returns the context of a request by a node, which ends, with a
// [replication.EndError] as its cause, when the node's credential is revoked. The caller
// calls release when the request is over.
func (n *Nodes) Hold(ctx context.Context, node *Node) (_ context.Context, release func()) {
	if !node.Own() {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	h := &hold{end}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held[node.Credential] == nil {
		n.held[node.Credential] = make(map[*hold]struct{})
	}
	n.held[node.Credential][h] = struct{}{}
	return ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.held[node.Credential], h)
		if len(n.held[node.Credential]) == 0 {
			delete(n.held, node.Credential)
		}
		end(context.Canceled)
	}
}

// forget clears the caches, because credentials have changed here.
func (n *Nodes) forget() {
	n.mu.Lock()
	clear(n.known)
	clear(n.taken)
	n.rounds++
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run ends the requests of nodes with revoked credentials, and stores last-used times,
// until ctx ends.
func (n *Nodes) Run(ctx context.Context) {
	look, note := time.NewTicker(n.cfg.Poll), time.NewTicker(n.cfg.Note)
	defer look.Stop()
	defer note.Stop()
	failing := false
	for {
		err := n.renewKnown(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			n.cfg.Logger.Warn("cannot check credentials of edges for revocation, connected edges stay connected", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			n.storeSeen(context.WithoutCancel(ctx))
			return
		case <-look.C:
		case <-n.wake:
		case <-note.C:
			n.storeSeen(ctx)
		}
	}
}

func (n *Nodes) renewKnown(ctx context.Context) error {
	n.mu.Lock()
	ids := slices.Collect(maps.Keys(n.held))
	n.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	revoked, err := n.cfg.Store.RevokedNodes(ctx, ids)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range revoked {
		r := &revoked[i]
		for hash, k := range n.known { // so that it holds while the database is away
			if k.Credential == r.Credential {
				k.StoredNode = *r
				n.known[hash] = k
			}
		}
		if len(n.held[r.Credential]) > 0 {
			n.cfg.Logger.Warn("ending connections of an edge whose credential is revoked", "node", r.Name, "connections",
				len(n.held[r.Credential]))
		}
		for h := range n.held[r.Credential] {
			h.end(&replication.EndError{Text: waypost.MessageOf(refusal(r))})
		}
	}
	return nil
}

// storeSeen stores last-used times. After a failure the next use is stored.
func (n *Nodes) storeSeen(ctx context.Context) {
	n.mu.Lock()
	seen := n.seen
	n.seen = make(map[int64]time.Time)
	n.mu.Unlock()
	if len(seen) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := n.cfg.Store.NoteNodesSeen(ctx, seen); err != nil {
		n.cfg.Logger.Debug("cannot store when edges were last used", "error", err)
	}
}
