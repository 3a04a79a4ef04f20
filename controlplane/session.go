package controlplane

import (
	"context"
	"time"

	"waypost"
)

// SignedIn is what a sign-in gives.
type SignedIn struct {
	Token     string // to be shown once, and never stored
	ExpiresAt time.Time
	Account   Account // without the password
}

// SignIn begins a session of whoever knows a password. EUnauthorized, in the same
// words and after the same work, when the address is unknown, the password wrong, or
// the account disabled or in no workspace; EUnavailable when too many try at once.
func (s *Service) SignIn(ctx context.Context, email, password string) (SignedIn, error) {
	wrong := waypost.Errorf(waypost.EUnauthorized, "the address or the password is wrong")
	var account Account
	if parsed, err := ParseEmail(email); err == nil {
		if account, _, err = s.access.Account(ctx, parsed); err != nil {
			return SignedIn{}, err
		}
	}
	if len(password) > MaxPassword {
		password = "" // nobody's
	}
	ok, err := s.passwords.match(ctx, password, account.Password)
	if err != nil {
		return SignedIn{}, err
	}
	if !ok || len(account.Affiliations) == 0 {
		return SignedIn{}, wrong
	}
	token, err := newToken(sessionPrefix)
	if err != nil {
		return SignedIn{}, err
	}
	until := s.cfg.Now().Add(SessionIdle)
	if err := s.access.StartSession(ctx, account, HashKey(token), until); err != nil {
		return SignedIn{}, err
	}
	account.Password = ""
	return SignedIn{Token: token, ExpiresAt: until, Account: account}, nil
}

// AuthenticateSession finds the actor of a session's token, in the workspace of a
// slug that the user is in, or, when that is "", in the user's only one. With several
// and no slug the actor is in none and may do nothing but say who it is. EUnauthorized
// when there is no such session, EForbidden for a workspace that the user is not in.
func (s *Service) AuthenticateSession(ctx context.Context, token, slug string) (Actor, error) {
	actor, _, err := s.auth.session(ctx, token, slug)
	return actor, err
}

// SignOut ends the actor's session. EInvalid when the actor has none.
func (s *Service) SignOut(ctx context.Context, actor Actor) error {
	if actor.SessionID == 0 {
		return waypost.Errorf(waypost.EInvalid, "this is no session: an API key is revoked, not signed out")
	}
	defer s.auth.forget()
	return s.access.EndSession(ctx, actor.SessionID)
}

// Me is who an actor is.
type Me struct {
	Actor   Actor
	Account *Account // of the user; nil without one; without the password
}

// Me tells who the actor is.
func (s *Service) Me(ctx context.Context, actor Actor) (Me, error) {
	if actor.UserID == 0 {
		return Me{Actor: actor}, nil
	}
	account, found, err := s.access.AccountOf(ctx, actor.UserID)
	if err != nil {
		return Me{}, err
	}
	if !found {
		return Me{}, waypost.Errorf(waypost.EUnauthorized, "the account is no more")
	}
	account.Password = ""
	return Me{Actor: actor, Account: &account}, nil
}

// SelfChange is what users change of themselves: nil leaves it as it is.
type SelfChange struct {
	Name            *string
	Password        *string
	CurrentPassword string // needed for a new password
}

// ErrPassword says that the present password was to be given, and was not.
var ErrPassword = waypost.Errorf(waypost.EForbidden, "current_password is wrong")

// ChangeMe changes the account of whoever signed in; a new password ends all other
// sessions. EForbidden for API keys, and ErrPassword for a wrong present password.
func (s *Service) ChangeMe(ctx context.Context, actor Actor, c SelfChange) (Me, error) {
	if actor.SessionID == 0 {
		return Me{}, waypost.Errorf(waypost.EForbidden, "only who has signed in changes the own account")
	}
	if c.Name == nil && c.Password == nil {
		return Me{}, waypost.Errorf(waypost.EInvalid, "say what to change: name, password")
	}
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return Me{}, err
		}
	}
	var hash *string
	var was string
	if c.Password != nil {
		if err := checkPassword(*c.Password); err != nil {
			return Me{}, err
		}
		account, _, err := s.access.AccountOf(ctx, actor.UserID)
		if err != nil {
			return Me{}, err
		}
		ok, err := s.passwords.match(ctx, c.CurrentPassword, account.Password)
		if err != nil {
			return Me{}, err
		}
		if !ok {
			return Me{}, ErrPassword
		}
		made, err := s.passwords.hash(ctx, *c.Password)
		if err != nil {
			return Me{}, err
		}
		hash, was = &made, account.Password
	}
	defer s.auth.forget()
	if err := s.access.ChangeSelf(ctx, actor, c.Name, hash, was); err != nil {
		return Me{}, err
	}
	return s.Me(ctx, actor)
}
