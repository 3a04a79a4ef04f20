package fleet

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// An edge authenticates with a credential of its own, which it creates; the control
// plane stores the hash. The edge exchanges a token for it, which is valid once and
// which an operator creates. Both have the form of an API key, with other prefixes.
const (
	credentialPrefix = "wp_edge_"
	enrolmentPrefix  = "wp_enrl_"
)

// NewNodeCredential creates the text of a credential, on its node.
func NewNodeCredential() string { return controlplane.NewToken(credentialPrefix) }

// ValidNodeCredential reports whether a text has the form and checksum of a credential.
func ValidNodeCredential(text string) bool { return controlplane.ValidToken(credentialPrefix, text) }

// ValidEnrolmentToken reports whether a text has the form and checksum of a token.
func ValidEnrolmentToken(text string) bool { return controlplane.ValidToken(enrolmentPrefix, text) }

// NodeRole is the role of a node with a credential.
type NodeRole string

// The roles of nodes.
const (
	RoleEdge  NodeRole = "edge"
	RoleRelay NodeRole = "relay" // serves other edges as well
)

// MaxFormer bounds the former names of a node when it enrols.
const MaxFormer = 32

// Limits of enrolment tokens.
const (
	DefaultEnrolment = time.Hour      // for which a token is good
	LongestEnrolment = 24 * time.Hour // for which it can be
	MaxEnrolments    = 1_000          // that are open at once
)

// Node identifies the other end of a connection by its credential.
type Node struct {
	Credential int64          // 0: the shared token, which names no node
	Name       string         // "": unknown
	Region     waypost.Region // "" with the name
	Role       NodeRole
	Former     []string // names that its directory had before
}

// Own reports whether the node has a credential of its own.
func (n *Node) Own() bool { return n.Credential != 0 }

// hasName reports whether a name is the node's, now or formerly.
func (n *Node) hasName(name string) bool {
	return n.Name != "" && (n.Name == name || slices.Contains(n.Former, name))
}

// StoredNode is the record that authenticates a node.
type StoredNode struct {
	Node
	Hash     [32]byte
	Revoked  bool
	Replaced bool // it is revoked, because the node has another
}

// NodeStore keeps credentials and tokens. Its changes are in the audit log.
type NodeStore interface {
	// CreateEnrolment stores a token's hash. It returns EConflict when too many tokens
	// are open.
	CreateEnrolment(ctx context.Context, by controlplane.Actor, e api.Enrolment, hash [32]byte) error

	// Enrol exchanges a token, by its hash, for a credential, and revokes the node's
	// earlier one. A repeated exchange changes nothing while the credential is valid.
	// Enrol returns EUnauthorized for an unknown token, EGone when the token has expired
	// or another node has used it, EForbidden when its credential is revoked, EInvalid
	// when the token is for another name or region, and EConflict when a control plane
	// has the name, or an edge that the token must not replace.
	Enrol(ctx context.Context, token [32]byte, e EnrolNode) (Node, error)

	// Node finds a credential by its hash, revoked or not.
	Node(ctx context.Context, hash [32]byte) (StoredNode, bool, error)

	// NodeNamed reports whether a node with a credential has, or had, a name.
	NodeNamed(ctx context.Context, name string) (bool, error)

	// RevokedNodes returns the revoked nodes among the nodes with these credentials.
	RevokedNodes(ctx context.Context, ids []int64) ([]StoredNode, error)

	// NoteNodesSeen stores when credentials were last used.
	NoteNodesSeen(ctx context.Context, seen map[int64]time.Time) error

	// RevokeNode revokes the credential of a node, and the tokens that are for its name
	// alone. It returns ENotFound when there was never a credential or such a token.
	RevokeNode(ctx context.Context, by controlplane.Actor, node string) error

	// NodeCredentials returns the newest credential of each node, by name.
	NodeCredentials(ctx context.Context) ([]api.NodeCredential, error)
}

// EnrolNode is the part of an [api.Enrol] that a store needs.
type EnrolNode struct {
	Hash     [32]byte
	Node     string
	Region   waypost.Region
	Previous *[32]byte
	Former   []string // names that are also the node's, unless another node has them
}

// NewEnrolment creates a token for a node. That needs [Actor.CheckOperator].
func (n *Nodes) NewEnrolment(ctx context.Context, actor controlplane.Actor, e api.NewEnrolment) (made api.Enrolment, err error) {
	if err := actor.CheckOperator(); err != nil {
		return made, err
	}
	region, err := waypost.ParseRegion(e.Region)
	if err != nil {
		return made, err
	}
	made = api.Enrolment{Region: string(region), Role: cmp.Or(e.Role, string(RoleEdge)), Node: e.Node, Label: e.Label}
	valid := DefaultEnrolment
	if e.ExpiresIn != 0 {
		valid = time.Duration(e.ExpiresIn) * time.Second
	}
	switch {
	case made.Role != string(RoleEdge) && made.Role != string(RoleRelay):
		return api.Enrolment{}, waypost.Errorf(waypost.EInvalid, "role must be edge or relay")
	case e.Node != "" && !waypost.ValidNode(e.Node):
		return api.Enrolment{}, waypost.Errorf(waypost.EInvalid, "node must be 1 to 64 of A-Z, a-z, 0-9, dot, _ and -")
	case valid < time.Second || valid > LongestEnrolment:
		return api.Enrolment{}, waypost.Errorf(waypost.EInvalid, "a token is valid for a second to 24 hours")
	case len([]rune(e.Label)) > controlplane.MaxName:
		return api.Enrolment{}, waypost.Errorf(waypost.EInvalid, "label must have at most %d characters", controlplane.MaxName)
	}
	if err := controlplane.CheckPrintable("label", e.Label); err != nil {
		return api.Enrolment{}, err
	}
	made.Token = controlplane.NewToken(enrolmentPrefix)
	made.ExpiresAt = n.cfg.Now().Add(valid).UTC().Truncate(time.Second)
	if err := n.cfg.Store.CreateEnrolment(ctx, actor, made, controlplane.HashKey(made.Token)); err != nil {
		return api.Enrolment{}, err
	}
	return made, nil
}

// Enrol exchanges a token for a credential; see [NodeStore].
func (n *Nodes) Enrol(ctx context.Context, e *api.Enrol) (Node, error) {
	if !ValidEnrolmentToken(e.Token) {
		return Node{}, waypost.Errorf(waypost.EUnauthorized, "the enrolment token is not valid")
	}
	hash, err := hex.DecodeString(e.Hash)
	if err != nil || len(hash) != 32 {
		return Node{}, waypost.Errorf(waypost.EInvalid, "credential_sha256 must be 64 hex digits")
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
	en := EnrolNode{Hash: [32]byte(hash), Node: e.Node, Region: region, Former: e.Former}
	if ValidNodeCredential(e.Previous) {
		en.Previous = new(controlplane.HashKey(e.Previous))
	}
	node, err := n.cfg.Store.Enrol(ctx, controlplane.HashKey(e.Token), en)
	if err == nil {
		n.forget()
	}
	return node, err
}

// Revoke revokes a node's credential within a second everywhere, and ends its open
// streams. That needs [Actor.CheckOperator].
func (n *Nodes) Revoke(ctx context.Context, actor controlplane.Actor, node string) error {
	if err := actor.CheckOperator(); err != nil {
		return err
	}
	if !waypost.ValidNode(node) {
		return noNode()
	}
	err := n.cfg.Store.RevokeNode(ctx, actor, node)
	if err == nil {
		n.forget()
	} else { // the outcome is unknown: drop the cached credentials of this node
		n.doubt(node)
	}
	return err
}

// Credentials returns the newest credential of each node, by name. That needs
// [Actor.CheckOperator].
func (n *Nodes) Credentials(ctx context.Context, actor controlplane.Actor) ([]api.NodeCredential, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	return n.cfg.Store.NodeCredentials(ctx)
}

func noNode() error {
	return waypost.Errorf(waypost.ENotFound, "no edge of that name has a credential")
}
