package controlplane

import (
	"context"
	"time"

	"waypost"
)

// Role is what a user is in a workspace.
type Role string

// The roles of users.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
	RoleViewer Role = "viewer"
)

// Roles gives all roles, the mightiest first.
func Roles() []Role { return []Role{RoleAdmin, RoleMember, RoleViewer} }

// Scopes gives all scopes.
func Scopes() []Scope { return []Scope{ScopeLinksRead, ScopeLinksWrite, ScopeAnalytics, ScopeAdmin} }

// scopes gives what a role allows, nothing for an unknown one.
func (r Role) scopes() []Scope {
	switch r {
	case RoleAdmin:
		return []Scope{ScopeAdmin}
	case RoleMember:
		return []Scope{ScopeLinksRead, ScopeLinksWrite, ScopeAnalytics}
	case RoleViewer:
		return []Scope{ScopeLinksRead, ScopeAnalytics}
	}
	return nil
}

// within gives what both the scopes of a key and the role of its owner allow.
func (r Role) within(key []Scope) []Scope {
	owner, holder := Actor{Scopes: r.scopes()}, Actor{Scopes: key}
	var both []Scope
	for _, s := range Scopes() {
		if owner.Can(s) && holder.Can(s) {
			both = append(both, s)
		}
	}
	return both
}

// StoredKey is an API key as authentication finds it.
type StoredKey struct {
	ID        int64
	Workspace waypost.WorkspaceID
	Slug      string // of the workspace
	Name      string
	Hash      [32]byte
	Scopes    []Scope
	ExpiresAt time.Time // zero: never
	Owner     int64     // 0: nobody
	Role      Role      // of the owner
}

// KeyStore finds API keys by the SHA-256 of their text. A revoked key is not found,
// nor one of a deleted workspace or of an owner who is no longer a member.
type KeyStore interface {
	APIKey(ctx context.Context, hash [32]byte) (StoredKey, bool, error)
}

// Affiliation is a workspace that a user is in.
type Affiliation struct {
	Workspace waypost.WorkspaceID
	Slug      string
	Name      string
	Role      Role
}

// Account is a user who may sign in.
type Account struct {
	UserID       int64
	Email        string
	Name         string
	Password     string        // PHC string of argon2id; "": there is none
	Affiliations []Affiliation // by slug; not with deleted workspaces
}

// StoredSession is a session as authentication finds it.
type StoredSession struct {
	ID        int64
	Hash      [32]byte
	ExpiresAt time.Time
	Account   Account // without the password
}

// Uses tells when keys and sessions were used last.
type Uses struct {
	Keys, Sessions map[int64]time.Time
}

// SessionStore keeps sessions and the accounts behind them. Accounts that are
// disabled or deleted are not found, nor are their sessions.
type SessionStore interface {
	// Account finds an account by its address, as [ParseEmail] gives it.
	Account(ctx context.Context, email string) (Account, bool, error)

	// AccountOf finds an account by its id.
	AccountOf(ctx context.Context, user int64) (Account, bool, error)

	// StartSession begins one that ends at a time, unless it is used before, of an account
	// as it was found: EUnauthorized when it has another password by now, or may no longer
	// sign in. The oldest of a user's sessions end when there are more than MaxSessions.
	StartSession(ctx context.Context, account Account, hash [32]byte, until time.Time) error

	// Session finds one that has not been ended.
	Session(ctx context.Context, hash [32]byte) (StoredSession, bool, error)

	// EndSession ends one; it is no error when there is none.
	EndSession(ctx context.Context, id int64) error

	// NoteUses writes last uses down, each only when the one that is written is a
	// minute older, prolongs sessions, and forgets those that have long ended.
	NoteUses(ctx context.Context, u Uses) error

	// ChangeSelf changes the name and password of the actor's account, nil leaves
	// them. With a password all sessions end but the actor's; ErrPassword when the account's is
	// not any more what it was.
	ChangeSelf(ctx context.Context, by Actor, name, password *string, was string) error
}

// Limits of access.
const (
	MaxSessions    = 100  // of a user
	MaxKeys        = 1000 // of a workspace, beside those that have expired
	MaxOwnKeys     = 100  // of a user in a workspace, likewise
	MaxName        = 100  // characters of a name of a user, a key or a workspace
	MaxDescription = 500  // characters of the description of a key
	MaxEmail       = 254  // bytes
	MinPassword    = 12   // bytes
	MaxPassword    = 256  // bytes

	SessionIdle = 12 * time.Hour      // after which an unused session ends
	SessionMost = 30 * 24 * time.Hour // after which every session ends

	// MaxGrace is for how long a key that was rotated may go on.
	MaxGrace = 7 * 24 * time.Hour
)

// AccessStore is all that access is kept in. Every act is in the audit log once it
// is durable, in the actor's workspace and, where it is another, in that of the act too.
// What is not of the workspace given is ENotFound.
type AccessStore interface {
	KeyStore
	SessionStore
	MemberStore
	APIKeyStore
	WorkspaceStore
	InvitationStore
	AccountStore
}
