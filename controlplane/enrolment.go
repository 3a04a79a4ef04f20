package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
)

// An edge proves who it is by a credential of its own, which it has made itself: the
// control plane keeps its hash. It got there with a token, good once, that an operator
// has made. Both look like an API key, but for their prefixes.
const (
	credentialPrefix = "wp_edge_"
	enrolmentPrefix  = "wp_enrl_"
)

// NewNodeCredential makes the text of a credential, on the node that it is for.
func NewNodeCredential() (string, error) { return newToken(credentialPrefix) }

// ValidNodeCredential reports whether a text has the form and checksum of a credential.
func ValidNodeCredential(text string) bool { return validToken(credentialPrefix, text) }

// ValidEnrolmentToken reports whether a text has the form and checksum of a token.
func ValidEnrolmentToken(text string) bool { return validToken(enrolmentPrefix, text) }

// NodeRole is what a node with a credential does.
type NodeRole string

// The roles of nodes.
const (
	RoleEdge  NodeRole = "edge"
	RoleRelay NodeRole = "relay" // serves other edges as well
)

// MaxFormer bounds the names that a node may bring along when it enrols.
const MaxFormer = 32

// Limits of enrolment tokens.
const (
	DefaultEnrolment = time.Hour      // for which a token is good
	LongestEnrolment = 24 * time.Hour // for which it can be
	MaxEnrolments    = 1_000          // that are open at once
)

// Node is who is at the other end of a connection, by the credential on it.
type Node struct {
	Credential int64          // 0: the token that all share, which names nobody
	Name       string         // "": nothing vouches for one
	Region     waypost.Region // "" with the name
	Role       NodeRole
	Former     []string // names that its directory had before
}

// Own reports whether the node has a credential of its own.
func (n *Node) Own() bool { return n.Credential != 0 }

// speaksAs reports whether a name is the node's, now or formerly.
func (n *Node) speaksAs(name string) bool {
	return n.Name != "" && (n.Name == name || slices.Contains(n.Former, name))
}

// NewEnrolment is a wish for a token.
type NewEnrolment struct {
	Region string
	Role   NodeRole      // default: RoleEdge
	Node   string        // the only name that it is good for, also if an edge has it; "": any that is free
	Label  string        // for the operators
	For    time.Duration // default: DefaultEnrolment
}

// Enrolment is a token that was made.
type Enrolment struct {
	Token     string // to be shown once, and never stored
	Region    waypost.Region
	Role      NodeRole
	Node      string
	Label     string
	ExpiresAt time.Time
}

// Enrolling is what a node sends with a token.
type Enrolling struct {
	Token    string
	Hash     [32]byte // of the credential that the node has made
	Node     string
	Region   string
	Previous string   // the credential that it had before; "": none
	Former   []string // names under which it still has clicks
}

// NodeCredential is a credential as operators see it: a node's newest.
type NodeCredential struct {
	Node       string
	Region     waypost.Region
	Role       NodeRole
	Former     []string
	CreatedAt  time.Time
	LastSeenAt time.Time // zero: never
	RevokedAt  time.Time // zero: it is good
}

// StoredNode is a credential as it is judged.
type StoredNode struct {
	Node
	Hash     [32]byte
	Revoked  bool
	Replaced bool // it is revoked, because the node has another
}

// NodeStore keeps credentials and tokens. What it changes is in the audit log.
type NodeStore interface {
	// CreateEnrolment keeps a token's hash. EConflict when too many are open.
	CreateEnrolment(ctx context.Context, by Actor, e Enrolment, hash [32]byte) error

	// Enrol exchanges a token, by its hash, for a credential, and revokes that which the
	// node has. The same exchange once more changes nothing, for as long as the credential
	// is good. EUnauthorized: there is no such token. EGone: it has expired, or was used by
	// another. EForbidden: its credential is revoked. EInvalid: it is for another name or
	// region. EConflict: a node of that name is there, and the token does not say that it
	// may be replaced.
	Enrol(ctx context.Context, token [32]byte, e EnrolNode) (Node, error)

	// Node finds a credential by its hash, also one that is revoked.
	Node(ctx context.Context, hash [32]byte) (StoredNode, bool, error)

	// NodeNamed reports whether a name is, or was, that of a node with a credential.
	NodeNamed(ctx context.Context, name string) (bool, error)

	// RevokedNodes gives those of some credentials that are revoked.
	RevokedNodes(ctx context.Context, ids []int64) ([]StoredNode, error)

	// NoteNodesSeen keeps when credentials were last used.
	NoteNodesSeen(ctx context.Context, seen map[int64]time.Time) error

	// RevokeNode revokes the credential of a node, and the tokens that are for its name
	// alone. ENotFound: there is neither, nor ever was.
	RevokeNode(ctx context.Context, by Actor, node string) error

	// NodeCredentials gives the newest credential of each node, by name.
	NodeCredentials(ctx context.Context) ([]NodeCredential, error)
}

// EnrolNode is what a store needs of an [Enrolling].
type EnrolNode struct {
	Hash     [32]byte
	Node     string
	Region   waypost.Region
	Previous *[32]byte
	Former   []string // names that are the node's, too, unless another has one
}

// NewEnrolment makes a token for a node. That needs [Actor.CheckOperator].
func (n *Nodes) NewEnrolment(ctx context.Context, actor Actor, e NewEnrolment) (Enrolment, error) {
	if err := actor.CheckOperator(); err != nil {
		return Enrolment{}, err
	}
	made := Enrolment{Role: e.Role, Node: e.Node, Label: e.Label}
	var err error
	if made.Region, err = waypost.ParseRegion(e.Region); err != nil {
		return Enrolment{}, err
	}
	if made.Role == "" {
		made.Role = RoleEdge
	}
	if e.For == 0 {
		e.For = DefaultEnrolment
	}
	switch {
	case made.Role != RoleEdge && made.Role != RoleRelay:
		return Enrolment{}, waypost.Errorf(waypost.EInvalid, "role must be edge or relay")
	case e.Node != "" && !waypost.ValidNode(e.Node):
		return Enrolment{}, waypost.Errorf(waypost.EInvalid, "node must be 1 to 64 of A-Z, a-z, 0-9, dot, _ and -")
	case e.For < time.Second || e.For > LongestEnrolment:
		return Enrolment{}, waypost.Errorf(waypost.EInvalid, "a token is good for a second to 24 hours")
	case len([]rune(e.Label)) > MaxName:
		return Enrolment{}, waypost.Errorf(waypost.EInvalid, "label must have at most %d characters", MaxName)
	}
	if err := checkPrintable("label", e.Label); err != nil {
		return Enrolment{}, err
	}
	if made.Token, err = newToken(enrolmentPrefix); err != nil {
		return Enrolment{}, err
	}
	made.ExpiresAt = n.cfg.Now().Add(e.For).UTC().Truncate(time.Second)
	if err := n.cfg.Store.CreateEnrolment(ctx, actor, made, HashKey(made.Token)); err != nil {
		return Enrolment{}, err
	}
	return made, nil
}

// Enrol exchanges a token for a credential; see [NodeStore].
func (n *Nodes) Enrol(ctx context.Context, e Enrolling) (Node, error) {
	if !ValidEnrolmentToken(e.Token) {
		return Node{}, waypost.Errorf(waypost.EUnauthorized, "the enrolment token is not valid")
	}
	region, err := waypost.ParseRegion(e.Region)
	if err != nil {
		return Node{}, err
	}
	if !waypost.ValidNode(e.Node) {
		return Node{}, waypost.Errorf(waypost.EInvalid, "node must be 1 to 64 of A-Z, a-z, 0-9, dot, _ and -")
	}
	if len(e.Former) > MaxFormer || slices.ContainsFunc(e.Former, func(name string) bool { return !waypost.ValidNode(name) }) {
		return Node{}, waypost.Errorf(waypost.EInvalid, "former_names must be at most %d names of nodes", MaxFormer)
	}
	en := EnrolNode{Hash: e.Hash, Node: e.Node, Region: region, Former: e.Former}
	if ValidNodeCredential(e.Previous) {
		hash := HashKey(e.Previous)
		en.Previous = &hash
	}
	node, err := n.cfg.Store.Enrol(ctx, HashKey(e.Token), en)
	if err == nil {
		n.forget()
	}
	return node, err
}

// Revoke ends a node's credential: within a second everywhere, streams that are open
// included. That needs [Actor.CheckOperator].
func (n *Nodes) Revoke(ctx context.Context, actor Actor, node string) error {
	if err := actor.CheckOperator(); err != nil {
		return err
	}
	if !waypost.ValidNode(node) {
		return noNode()
	}
	err := n.cfg.Store.RevokeNode(ctx, actor, node)
	if err == nil {
		n.forget()
	} else { // what became of it is unknown: of this one nothing is believed any more
		n.doubt(node)
	}
	return err
}

// Credentials gives the newest credential of each node, by name. That needs
// [Actor.CheckOperator].
func (n *Nodes) Credentials(ctx context.Context, actor Actor) ([]NodeCredential, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	return n.cfg.Store.NodeCredentials(ctx)
}

func noNode() error {
	return waypost.Errorf(waypost.ENotFound, "no edge of that name has a credential")
}
