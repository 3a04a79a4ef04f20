package controlplane

import (
	"context"
	"crypto/subtle"
	"sync"
	"time"

	"waypost"
)

// authenticator answers who holds a key or a session. What the database said is
// believed for a second from when it was asked, so that a revocation takes effect
// within that time on every instance; what this one does takes effect at once.
type authenticator struct {
	keys     KeyStore
	sessions SessionStore // nil: there are none
	now      func() time.Time

	knownKeys     belief[[32]byte, StoredKey] // by the hash of a key
	knownSessions belief[[32]byte, StoredSession]
	used          uses
}

func (a *authenticator) authenticate(ctx context.Context, key string) (Actor, error) {
	wrong := waypost.Errorf(waypost.EUnauthorized, "the API key is not valid")
	if !ValidKey(key) {
		return Actor{}, wrong
	}
	hash, now := HashKey(key), a.now()
	stored, ok, err := a.knownKeys.of(hash, now, func() (StoredKey, bool, error) {
		k, ok, err := a.keys.APIKey(ctx, hash)
		return k, ok && subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1, err
	})
	switch {
	case err != nil:
		return Actor{}, err
	case !ok:
		return Actor{}, wrong
	}
	if !stored.ExpiresAt.IsZero() && !now.Before(stored.ExpiresAt) {
		return Actor{}, waypost.Errorf(waypost.EUnauthorized, "the API key has expired")
	}
	actor := Actor{
		Workspace: stored.Workspace, Slug: stored.Slug, KeyID: stored.ID, UserID: stored.Owner, Role: stored.Role,
		Name: stored.Name, Scopes: stored.Scopes,
	}
	if stored.Owner != 0 {
		actor.Scopes = stored.Role.within(stored.Scopes)
	}
	a.used.key(stored.ID, now)
	return actor, nil
}

// session finds the actor of a session's token in the workspace of a slug; "" means
// the only one that the user is in, or none.
func (a *authenticator) session(ctx context.Context, token, slug string) (Actor, Account, error) {
	wrong := waypost.Errorf(waypost.EUnauthorized, "the session has ended, or never was: sign in again")
	if a.sessions == nil || !validToken(sessionPrefix, token) {
		return Actor{}, Account{}, wrong
	}
	hash, now := HashKey(token), a.now()
	stored, ok, err := a.knownSessions.of(hash, now, func() (StoredSession, bool, error) {
		k, ok, err := a.sessions.Session(ctx, hash)
		return k, ok && subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1, err
	})
	switch {
	case err != nil:
		return Actor{}, Account{}, err
	case !ok:
		return Actor{}, Account{}, wrong
	}
	if !now.Before(stored.ExpiresAt) || len(stored.Account.Affiliations) == 0 {
		return Actor{}, Account{}, wrong
	}
	a.used.session(stored.ID, now)
	actor := Actor{SessionID: stored.ID, UserID: stored.Account.UserID, Name: stored.Account.Name}
	in := stored.Account.Affiliations
	for i := range in {
		if in[i].Slug == slug || slug == "" && len(in) == 1 {
			actor.Workspace, actor.Slug, actor.Role, actor.Scopes = in[i].Workspace, in[i].Slug, in[i].Role, in[i].Role.scopes()
			return actor, stored.Account, nil
		}
	}
	if slug != "" {
		return Actor{}, Account{}, notIn(slug)
	}
	return actor, stored.Account, nil
}

func notIn(slug string) error {
	return waypost.Errorf(waypost.EForbidden, "there is no workspace %q that you are in", slug)
}

// forget drops what is believed, because access has changed here.
func (a *authenticator) forget() {
	a.knownKeys.forget()
	a.knownSessions.forget()
}

// uses collects when keys and sessions were used, until somebody writes it down.
type uses struct {
	mu             sync.Mutex
	keys, sessions map[int64]time.Time // each bounded by maxBeliefs: beyond that uses go unnoted
}

func (u *uses) key(id int64, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys = noteUse(u.keys, id, at)
}

func (u *uses) session(id int64, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sessions = noteUse(u.sessions, id, at)
}

func noteUse(known map[int64]time.Time, id int64, at time.Time) map[int64]time.Time {
	if known == nil {
		known = make(map[int64]time.Time)
	}
	if _, there := known[id]; there || len(known) < maxBeliefs {
		known[id] = at
	}
	return known
}

// take gives what was collected and begins anew.
func (u *uses) take() Uses {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := Uses{Keys: u.keys, Sessions: u.sessions}
	u.keys, u.sessions = nil, nil
	return taken
}
