package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
)

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

// KeyInfo is an API key as its workspace sees it.
type KeyInfo struct {
	ID          int64
	Name        string
	Description string
	Prefix      string // what may be shown of its text
	Scopes      []Scope
	Owner       int64  // 0: nobody
	OwnerEmail  string // "" without an owner
	RotatedFrom int64  // 0: it took no other key's place
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero: never
	LastUsedAt  time.Time // zero: never; true to a minute
}

// NewAPIKey is a wish for a key.
type NewAPIKey struct {
	Name        string
	Description string
	Scopes      []Scope
	ExpiresAt   time.Time // zero: never
}

// KeyMaterial is what the store keeps of the text of a key.
type KeyMaterial struct {
	Prefix string
	Hash   [32]byte
}

// KeyRequest names a request for a key that may be sent again; nil: it has no name.
// Unlike other answers, its answer is not kept: the text of a key is told once.
type KeyRequest struct {
	Key  string   // the client's own name for it
	Hash [32]byte // of what is asked
}

// MadeKey is a key that was made now, or before by the same request.
type MadeKey struct {
	KeyInfo
	Text   string // of the key, by the service; "" when it was made before
	Before bool
}

// APIKeyStore keeps the keys of workspaces. Revoked ones are not found; those that
// have expired are, until they are dropped. With an owner other than 0, other keys than
// that user's are not found.
type APIKeyStore interface {
	// APIKey finds a key by the SHA-256 of its text. It does not find a revoked key, nor one
	// of a deleted workspace or of an owner who is no longer a member.
	APIKey(ctx context.Context, hash [32]byte) (StoredKey, bool, error)

	// APIKeys gives up to limit keys with an id below before (0: from the newest), newest
	// first.
	APIKeys(ctx context.Context, ws waypost.WorkspaceID, owner, before int64, limit int) ([]KeyInfo, error)

	// CreateAPIKey makes a key of the actor's workspace and user. EConflict when either has
	// as many as it may have. A request that has made one already makes none.
	CreateAPIKey(ctx context.Context, by Actor, n NewAPIKey, m KeyMaterial, r *KeyRequest) (MadeKey, error)

	// RotateAPIKey makes a key that takes another's place, and its name: the old one goes
	// on for grace, under a name that tells by which it was replaced.
	// The new one lives as long as the old one was meant to. EForbidden when the old
	// one's scopes are beyond the actor's, EConflict when it was rotated before.
	// A request that has rotated it already does nothing.
	RotateAPIKey(ctx context.Context, by Actor, owner, id int64, grace time.Duration, m KeyMaterial, r *KeyRequest) (MadeKey, error)

	// RevokeAPIKey ends a key.
	RevokeAPIKey(ctx context.Context, by Actor, owner, id int64) error
}

// keyring says whose keys an actor may manage: all of the workspace's as an
// administrator, the own ones as a user who has signed in, and none with a key.
func keyring(actor Actor) (owner int64, err error) {
	switch {
	case actor.Workspace == 0:
		return 0, waypost.Errorf(waypost.EForbidden, "you are in several workspaces: say which one is meant")
	case actor.Can(ScopeAdmin):
		return 0, nil
	case actor.SessionID != 0:
		return actor.UserID, nil
	}
	return 0, waypost.Errorf(waypost.EForbidden, "keys are managed with the scope admin, or the own ones by who has signed in")
}

// APIKeys gives a page of the keys that the actor may manage, newest first.
func (s *Access) APIKeys(ctx context.Context, actor Actor, limit int, cursor string) (keys []KeyInfo, next string, err error) {
	owner, err := keyring(actor)
	if err != nil {
		return nil, "", err
	}
	before, err := readCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if keys, err = s.keys.APIKeys(ctx, actor.Workspace, owner, before, limit+1); err != nil {
		return nil, "", err
	}
	if len(keys) > limit {
		keys = keys[:limit]
		next = writeCursor(keys[limit-1].ID)
	}
	return keys, next, nil
}

// CreateAPIKey makes a key of the actor's workspace that belongs to the actor's
// user, if there is one, and gives its text, which is to be shown once. EForbidden for
// scopes that the actor has not, EConflict when there are too many keys, EKeyReused when
// another key was asked for by a request of the same name.
func (s *Access) CreateAPIKey(ctx context.Context, actor Actor, n NewAPIKey, r *KeyRequest) (MadeKey, error) {
	if _, err := keyring(actor); err != nil {
		return MadeKey{}, err
	}
	if err := checkName(n.Name); err != nil {
		return MadeKey{}, err
	}
	if err := checkPrintable("description", n.Description); err != nil {
		return MadeKey{}, err
	}
	if len([]rune(n.Description)) > MaxDescription {
		return MadeKey{}, waypost.Errorf(waypost.EInvalid, "description must have at most %d characters", MaxDescription)
	}
	if len(n.Scopes) == 0 {
		return MadeKey{}, waypost.Errorf(waypost.EInvalid, "scopes must not be empty")
	}
	var scopes []Scope
	for _, scope := range Scopes() { // in one order, each once
		if slices.Contains(n.Scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	for _, scope := range n.Scopes {
		if !slices.Contains(Scopes(), scope) {
			return MadeKey{}, waypost.Errorf(waypost.EInvalid, "a scope is none of links:read, links:write, analytics:read, admin")
		}
		if !actor.Can(scope) {
			return MadeKey{}, waypost.Errorf(waypost.EForbidden, "a key cannot have the scope %s, which its maker has not", scope)
		}
	}
	n.Scopes = scopes
	if !n.ExpiresAt.IsZero() {
		n.ExpiresAt = n.ExpiresAt.UTC().Truncate(time.Millisecond)
		if !n.ExpiresAt.After(s.now()) || n.ExpiresAt.Year() > 9999 {
			return MadeKey{}, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future, before the year 10000")
		}
	}
	return named(func(m KeyMaterial) (MadeKey, error) { return s.keys.CreateAPIKey(ctx, actor, n, m, r) })
}

// named makes a key of new text, and gives it with that.
func named(keep func(KeyMaterial) (MadeKey, error)) (MadeKey, error) {
	key, m, err := newMaterial()
	if err != nil {
		return MadeKey{}, err
	}
	made, err := keep(m)
	if err != nil {
		return MadeKey{}, err
	}
	if !made.Before {
		made.Text = key
	}
	return made, nil
}

// RotateAPIKey makes a key in place of another, which goes on for grace, and gives
// its text.
func (s *Access) RotateAPIKey(ctx context.Context, actor Actor, id int64, grace time.Duration, r *KeyRequest) (MadeKey, error) {
	owner, err := keyring(actor)
	if err != nil {
		return MadeKey{}, err
	}
	if grace < 0 || grace > MaxGrace {
		return MadeKey{}, waypost.Errorf(waypost.EInvalid, "grace must be at most %d seconds", int(MaxGrace/time.Second))
	}
	defer s.forget()
	return named(func(m KeyMaterial) (MadeKey, error) { return s.keys.RotateAPIKey(ctx, actor, owner, id, grace, m, r) })
}

// RevokeAPIKey ends a key: at once here, within a second on other instances.
func (s *Access) RevokeAPIKey(ctx context.Context, actor Actor, id int64) error {
	owner, err := keyring(actor)
	if err != nil {
		return err
	}
	defer s.forget()
	return s.keys.RevokeAPIKey(ctx, actor, owner, id)
}

func newMaterial() (key string, m KeyMaterial, err error) {
	key, err = NewKey()
	if err != nil {
		return "", KeyMaterial{}, err
	}
	return key, KeyMaterial{Prefix: key[:KeyDisplay], Hash: HashKey(key)}, nil
}
