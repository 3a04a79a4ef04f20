package controlplane

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"sync"
	"time"

	"waypost"
	"waypost/api"
	"waypost/internal/cache"
)

// Limits of access.
const (
	MaxSessions    = 100  // of a user
	MaxKeys        = 1000 // of a workspace, besides expired ones
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

	// SignInLinkFor is the validity of a sign-in link unless its creator says otherwise.
	SignInLinkFor = 10 * time.Minute
)

// SessionStore keeps sessions and the accounts behind them. It does not find disabled or
// deleted accounts, nor their sessions.
type SessionStore interface {
	// Account finds an account by its address, as [ParseEmail] returns it.
	Account(ctx context.Context, email string) (Account, bool, error)

	// AccountOf finds an account by its id.
	AccountOf(ctx context.Context, user int64) (Account, bool, error)

	// Linked finds the account of a sign-in link that is valid, without its password.
	Linked(ctx context.Context, hash [32]byte) (Account, bool, error)

	// StartSession begins a session. It returns ErrSignIn when the account has another
	// password now, or may no longer sign in, and ErrLink when the link has been used.
	// When a user has more than MaxSessions, the oldest sessions end.
	StartSession(ctx context.Context, n NewSession) error

	// Session finds a session that has not been ended.
	Session(ctx context.Context, hash [32]byte) (StoredSession, bool, error)

	// Sessions returns the sessions of a user that have not ended at a time, newest first.
	// The store does not know which is the current one.
	Sessions(ctx context.Context, user int64, now time.Time) ([]api.SessionInfo, error)

	// EndSession ends a session of a user. It returns false when the user has no such
	// session.
	EndSession(ctx context.Context, user, id int64) (bool, error)

	// EndOtherSessions ends all sessions of a user except one.
	EndOtherSessions(ctx context.Context, user, except int64) error

	// NoteUses stores times of last use, each only when the stored time is a minute
	// older. It extends sessions, and deletes sessions that ended long ago.
	NoteUses(ctx context.Context, u Uses) error

	// NoteFailures notes failed sign-ins in the audit log.
	NoteFailures(ctx context.Context, all []FailedSignIns) error

	// ChangeSelf changes the name and password of the actor's account; nil leaves them. A
	// new password ends all sessions except the actor's. ChangeSelf returns ErrPassword
	// when the stored password differs from was.
	ChangeSelf(ctx context.Context, by Actor, name, password *string, was string) error

	// Invited finds the account of an invitation, with its address and name alone.
	Invited(ctx context.Context, hash [32]byte) (Account, bool, error)

	// AcceptInvitation sets the account's password, and ends the invitation. It returns
	// false when the invitation is no longer valid.
	AcceptInvitation(ctx context.Context, hash [32]byte, password string) (bool, error)
}

// Access authenticates API keys and sessions, and manages them. The database's answers
// are cached for a second, so that a revocation takes effect within that time on every
// instance; a change that this instance makes takes effect at once.
type Access struct {
	keys     APIKeyStore
	sessions SessionStore
	factors  FactorStore
	box      factorBox

	workspaces WorkspaceStore

	now      func() time.Time
	patience time.Duration
	log      *slog.Logger

	passwords     *passwords
	knownKeys     cache.Cache[[32]byte, StoredKey] // by the hash of a key
	knownSessions cache.Cache[[32]byte, StoredSession]
	used          uses
	failed        failures
}

func newAccess(cfg *Config) *Access {
	box, err := newFactorBox(cfg.ClusterSecret)
	if err != nil {
		panic("controlplane: " + err.Error()) // the lengths are right
	}
	return &Access{
		keys: cfg.Store, sessions: cfg.Store, factors: cfg.Store, workspaces: cfg.Store, box: box,
		now: cfg.Now, patience: cfg.Patience, log: cfg.Logger,
		passwords: newPasswords("too many are signing in at once", places),
	}
}

// forget clears the caches, because access has changed here.
func (s *Access) forget() {
	s.knownKeys.Clear()
	s.knownSessions.Clear()
}

// Authenticate returns the actor of an API key, and EUnauthorized for a key that is not
// valid.
func (s *Access) Authenticate(ctx context.Context, key string) (Actor, error) {
	wrong := waypost.Errorf(waypost.EUnauthorized, "the API key is not valid")
	if !ValidKey(key) {
		return Actor{}, wrong
	}
	hash, now := HashKey(key), s.now()
	stored, ok, err := s.knownKeys.Get(hash, now, func() (StoredKey, bool, error) {
		k, ok, err := s.keys.APIKey(ctx, hash)
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
	s.used.key(stored.ID, now)
	return actor, nil
}

// AuthenticateSession returns the actor of a session's token, in the workspace with a
// slug; the slug "" means the user's only workspace. With several workspaces and no slug
// the actor is in no workspace and may only ask for Me. It returns EUnauthorized when
// there is no such session, and EForbidden when the user is not in the workspace.
func (s *Access) AuthenticateSession(ctx context.Context, token, slug string) (Actor, error) {
	wrong := waypost.Errorf(waypost.EUnauthorized, "the session has ended, or never was: sign in again")
	if !ValidToken(sessionPrefix, token) {
		return Actor{}, wrong
	}
	hash, now := HashKey(token), s.now()
	stored, ok, err := s.knownSessions.Get(hash, now, func() (StoredSession, bool, error) {
		k, ok, err := s.sessions.Session(ctx, hash)
		return k, ok && subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1, err
	})
	switch {
	case err != nil:
		return Actor{}, err
	case !ok:
		return Actor{}, wrong
	}
	if !now.Before(stored.ExpiresAt) || len(stored.Account.Affiliations) == 0 {
		return Actor{}, wrong
	}
	s.used.session(stored.ID, now)
	actor := Actor{SessionID: stored.ID, UserID: stored.Account.UserID, Name: stored.Account.Name, Email: stored.Account.Email}
	in := stored.Account.Affiliations
	for i := range in {
		if in[i].Slug == slug || slug == "" && len(in) == 1 {
			actor.Workspace, actor.Slug, actor.Role, actor.Scopes = in[i].Workspace, in[i].Slug, in[i].Role, in[i].Role.scopes()
			return actor, nil
		}
	}
	if slug != "" {
		return Actor{}, waypost.Errorf(waypost.EForbidden, "there is no workspace %.63q that you are in", slug)
	}
	return actor, nil
}

// maxNoted bounds the rows that wait in memory to be stored: keys and sessions that were
// used, and accounts with failed sign-ins.
const maxNoted = 10_000

// Uses holds the times at which keys and sessions, by id, were last used.
type Uses struct {
	Keys, Sessions map[int64]time.Time
}

// uses collects the times at which keys and sessions were used, until they are stored.
type uses struct {
	mu             sync.Mutex
	keys, sessions map[int64]time.Time // each bounded by maxNoted: uses beyond are not stored
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
	if _, there := known[id]; there || len(known) < maxNoted {
		known[id] = at
	}
	return known
}

// takeUses returns the collected times and starts again.
func (u *uses) takeUses() Uses {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := Uses{Keys: u.keys, Sessions: u.sessions}
	u.keys, u.sessions = nil, nil
	return taken
}

// usesInterval is the time between two writes of last uses.
const usesInterval = 10 * time.Second

// run stores last uses, and notes failed sign-ins, until ctx ends.
func (s *Access) run(ctx context.Context) {
	ticker := time.NewTicker(usesInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			s.storeUses(context.WithoutCancel(ctx))
			s.noteFailures(context.WithoutCancel(ctx), true)
			return
		case <-ticker.C:
			s.storeUses(ctx)
			s.noteFailures(ctx, false)
		}
	}
}

func (s *Access) storeUses(ctx context.Context) {
	used := s.used.takeUses()
	if len(used.Keys)+len(used.Sessions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.sessions.NoteUses(ctx, used); err != nil {
		s.log.Warn("cannot store last-used times", "error", err)
	}
}
