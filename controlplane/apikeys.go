package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
	"waypost/api"
)

// StoredKey is the record that authenticates an API key.
type StoredKey struct {
	ID        int64
	Workspace waypost.WorkspaceID
	Slug      string // of the workspace
	Name      string
	Hash      [32]byte
	Scopes    []Scope
	ExpiresAt time.Time // zero: never
	Owner     int64     // 0: none
	Role      Role      // of the owner
}

// KeyMaterial is the stored part of the text of a key.
type KeyMaterial struct {
	Prefix string
	Hash   [32]byte
}

// MaterialOf returns the stored part of the text of a key.
func MaterialOf(key string) KeyMaterial { return KeyMaterial{key[:KeyDisplay], HashKey(key)} }

// KeyRequest identifies an idempotent request for a key; a nil KeyRequest belongs to a
// request that is not idempotent. The response is not stored, because the text of a key
// is shown once.
type KeyRequest struct {
	Key  string   // chosen by the client
	Hash [32]byte // of the request
}

// MadeKey is a key that this request, or an earlier copy of it, created. The text of the
// key is set by the service, unless the key was created before.
type MadeKey struct {
	api.APIKey
	Before bool
}

// APIKeyStore keeps the keys of workspaces. It does not find revoked keys; it finds
// expired ones until they are deleted. With an owner other than 0 it finds keys of that
// user alone.
type APIKeyStore interface {
	// APIKey finds a key by the SHA-256 of its text. It does not find a revoked key, nor
	// a key of a deleted workspace or of an owner who is no longer a member.
	APIKey(ctx context.Context, hash [32]byte) (StoredKey, bool, error)

	// APIKeys returns up to limit keys with an id below before (0: from the newest), newest
	// first.
	APIKeys(ctx context.Context, ws waypost.WorkspaceID, owner, before int64, limit int) ([]api.APIKey, error)

	// CreateAPIKey makes a key of the actor's workspace and user. It returns EConflict
	// when either has the greatest allowed number of keys. A repeated request creates no
	// second key.
	CreateAPIKey(ctx context.Context, by Actor, n api.NewAPIKey, m KeyMaterial, r *KeyRequest) (MadeKey, error)

	// RotateAPIKey creates a key that replaces another and takes its name. The old key
	// stays valid for grace, under a name that refers to the new one. The new key expires
	// when the old one would have. It returns EForbidden when the old key has scopes
	// beyond the actor's, and EConflict when the old key was rotated before, or when
	// another key would exceed the allowed number. A repeated request does nothing.
	RotateAPIKey(ctx context.Context, by Actor, owner, id int64, grace time.Duration, m KeyMaterial, r *KeyRequest) (MadeKey, error)

	// RevokeAPIKey revokes a key.
	RevokeAPIKey(ctx context.Context, by Actor, owner, id int64) error
}

// managedOwner returns the owner of the keys that an actor may manage. An administrator
// gets 0, which means all keys of the workspace; the user of a session gets the own id;
// any other actor gets an error.
func managedOwner(actor Actor) (owner int64, err error) {
	switch {
	case actor.Workspace == 0:
		return 0, waypost.Errorf(waypost.EForbidden, "you are in several workspaces: say which one is meant")
	case actor.Can(ScopeAdmin):
		return 0, nil
	case actor.SessionID != 0:
		return actor.UserID, nil
	}
	return 0, waypost.Errorf(waypost.EForbidden, "managing keys needs the scope admin, or a session for your own keys")
}

// APIKeys returns a page of the keys that the actor may manage, newest first.
func (s *Access) APIKeys(ctx context.Context, actor Actor, limit int, cursor string) (p api.APIKeyPage, err error) {
	owner, err := managedOwner(actor)
	if err != nil {
		return p, err
	}
	read := func(before int64, limit int) ([]api.APIKey, error) {
		return s.keys.APIKeys(ctx, actor.Workspace, owner, before, limit)
	}
	p.Keys, p.Next, err = page(limit, cursor, read, func(k *api.APIKey) int64 { return k.ID })
	return p, err
}

// CreateAPIKey creates a key of the actor's workspace and user, if there is one, and
// returns its text, which is to be shown once. It returns EForbidden for scopes that the
// actor lacks, EConflict when there are too many keys, EKeyReused when the idempotency
// key was used for another request.
func (s *Access) CreateAPIKey(ctx context.Context, actor Actor, n api.NewAPIKey, r *KeyRequest) (MadeKey, error) {
	if _, err := managedOwner(actor); err != nil {
		return MadeKey{}, err
	}
	if err := checkName(n.Name); err != nil {
		return MadeKey{}, err
	}
	if err := CheckPrintable("description", n.Description); err != nil {
		return MadeKey{}, err
	}
	if len([]rune(n.Description)) > MaxDescription {
		return MadeKey{}, waypost.Errorf(waypost.EInvalid, "description must have at most %d characters", MaxDescription)
	}
	if len(n.Scopes) == 0 {
		return MadeKey{}, waypost.Errorf(waypost.EInvalid, "scopes must not be empty")
	}
	var scopes []string
	for _, scope := range Scopes() { // in one order, each once
		if slices.Contains(n.Scopes, string(scope)) {
			scopes = append(scopes, string(scope))
		}
	}
	for _, scope := range n.Scopes {
		if !slices.Contains(scopes, scope) {
			return MadeKey{}, waypost.Errorf(waypost.EInvalid, "a scope is none of links:read, links:write, analytics:read, admin")
		}
		if !actor.Can(Scope(scope)) {
			return MadeKey{}, waypost.Errorf(waypost.EForbidden, "a key cannot have the scope %s, which its creator lacks", scope)
		}
	}
	n.Scopes = scopes
	switch at, in := n.ExpiresAt, n.ExpiresInSeconds; {
	case at != nil && in != nil:
		return MadeKey{}, waypost.Errorf(waypost.EInvalid, "give expires_at or expires_in_seconds, not both")
	case in != nil:
		n.ExpiresAt = new(s.now().Add(time.Duration(*in) * time.Second))
	}
	if n.ExpiresAt != nil {
		at := n.ExpiresAt.UTC().Truncate(time.Millisecond)
		if !at.After(s.now()) || at.Year() > 9999 {
			return MadeKey{}, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future, before the year 10000")
		}
		n.ExpiresAt = &at
	}
	return withText(func(m KeyMaterial) (MadeKey, error) { return s.keys.CreateAPIKey(ctx, actor, n, m, r) })
}

// withText creates a key with a new text, and returns the key and the text.
func withText(keep func(KeyMaterial) (MadeKey, error)) (MadeKey, error) {
	key := NewKey()
	made, err := keep(MaterialOf(key))
	if err == nil && !made.Before {
		made.Key = key
	}
	return made, err
}

// RotateAPIKey replaces a key, which stays valid for grace, and returns the text of the
// new one. It returns EConflict for a key that was replaced before.
func (s *Access) RotateAPIKey(ctx context.Context, actor Actor, id int64, grace time.Duration, r *KeyRequest) (MadeKey, error) {
	owner, err := managedOwner(actor)
	if err != nil {
		return MadeKey{}, err
	}
	if grace < 0 || grace > MaxGrace {
		return MadeKey{}, waypost.Errorf(waypost.EInvalid, "grace must be at most %d seconds", int(MaxGrace/time.Second))
	}
	defer s.forget()
	return withText(func(m KeyMaterial) (MadeKey, error) { return s.keys.RotateAPIKey(ctx, actor, owner, id, grace, m, r) })
}

// RevokeAPIKey revokes a key: at once here, within a second on other instances.
func (s *Access) RevokeAPIKey(ctx context.Context, actor Actor, id int64) error {
	owner, err := managedOwner(actor)
	if err != nil {
		return err
	}
	defer s.forget()
	return s.keys.RevokeAPIKey(ctx, actor, owner, id)
}
