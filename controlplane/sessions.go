package controlplane

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"waypost"
	"waypost/api"
)

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

// StoredSession is the record that authenticates a session.
type StoredSession struct {
	ID        int64
	Hash      [32]byte
	ExpiresAt time.Time
	Account   Account // without the password
}

// Browser describes the sender of a sign-in.
type Browser struct {
	Address   netip.Addr
	UserAgent string // as it was sent
}

// maxUserAgent bounds the stored name of a program, in bytes.
const maxUserAgent = 200

// NewSession is the record of a session to begin.
type NewSession struct {
	Account   Account // as it was found
	Hash      [32]byte
	ExpiresAt time.Time
	Browser   Browser
	Link      *[32]byte   // hash of the sign-in link's token, which is used up; nil: by password
	Proof     FactorProof // to use up; zero: there is no second factor
}

// SignedIn is the result of a sign-in.
type SignedIn struct {
	Token     string // to be shown once, and never stored
	ExpiresAt time.Time
	Account   Account // without the password
}

// Errors of a sign-in that say nothing about the account.
var (
	ErrSignIn = waypost.Errorf(waypost.EUnauthorized, "the address or the password is wrong")
	ErrLink   = waypost.Errorf(waypost.EUnauthorized, "the sign-in link is not valid: it was used, or has expired")
)

// SignIn begins a session. When the address is unknown, the password wrong, or the
// account disabled or in no workspace, it returns ErrSignIn, always after the same work.
// It returns ErrLink for a token that is not valid, ESecondFactor when a code is missing,
// ErrCode when the code is wrong, and EUnavailable when too many callers try at once.
func (s *Access) SignIn(ctx context.Context, c *api.SignIn, by Browser) (SignedIn, error) {
	n := NewSession{ExpiresAt: s.now().Add(SessionIdle), Browser: by}
	n.Browser.Address = by.Address.Unmap().WithZone("")
	n.Browser.UserAgent = strings.ToValidUTF8(by.UserAgent[:min(len(by.UserAgent), maxUserAgent)], "")
	var err error
	if c.SignInToken != "" {
		n.Account, n.Link, err = s.linked(ctx, c.SignInToken)
	} else {
		n.Account, err = s.known(ctx, c, n.Browser.Address)
	}
	if err != nil {
		return SignedIn{}, err
	}
	token := NewToken(sessionPrefix)
	n.Hash = HashKey(token)
	if n.Proof, err = s.secondFactor(ctx, n.Account.UserID, c.Code); err == nil {
		err = s.sessions.StartSession(ctx, n)
	}
	if errors.Is(err, ErrCode) {
		s.failed.countFailure(n.Account.UserID, true, n.Browser.Address)
		err = waypost.WrapError(waypost.ESecondFactor, ErrCode.Message, ErrCode)
	}
	if err != nil {
		return SignedIn{}, err
	}
	n.Account.Password = ""
	return SignedIn{Token: token, ExpiresAt: n.ExpiresAt, Account: n.Account}, nil
}

// known finds the account of an address and its password, or returns ErrSignIn. Failures
// of an account are noted.
func (s *Access) known(ctx context.Context, c *api.SignIn, from netip.Addr) (account Account, err error) {
	password := c.Password
	if parsed, err := ParseEmail(c.Email); err == nil {
		if account, _, err = s.sessions.Account(ctx, parsed); err != nil {
			return Account{}, err
		}
	}
	if len(password) > MaxPassword {
		password = "" // of no account
	}
	ok, err := s.passwords.match(ctx, password, account.Password)
	if err != nil {
		return Account{}, err
	}
	if !ok && account.UserID != 0 {
		s.failed.countFailure(account.UserID, false, from)
	}
	if !ok || len(account.Affiliations) == 0 {
		return Account{}, ErrSignIn
	}
	return account, nil
}

// linked finds the account of a sign-in link's token, or returns ErrLink.
func (s *Access) linked(ctx context.Context, token string) (Account, *[32]byte, error) {
	if !ValidToken(signInPrefix, token) {
		return Account{}, nil, ErrLink
	}
	hash := HashKey(token)
	account, found, err := s.sessions.Linked(ctx, hash)
	if err != nil {
		return Account{}, nil, err
	}
	if !found || len(account.Affiliations) == 0 {
		return Account{}, nil, ErrLink
	}
	return account, &hash, nil
}

// SignOut ends the actor's session. It returns EInvalid when the actor has no session.
func (s *Access) SignOut(ctx context.Context, actor Actor) error {
	if actor.SessionID == 0 {
		return waypost.Errorf(waypost.EInvalid, "this is no session: an API key is revoked, not signed out")
	}
	defer s.forget()
	_, err := s.sessions.EndSession(ctx, actor.UserID, actor.SessionID)
	return err
}

var errNoSession = waypost.Errorf(waypost.EForbidden, "seeing and ending your sessions needs a session")

// Sessions returns the sessions of the user who has signed in, newest first, at most
// MaxSessions. It returns EForbidden for API keys.
func (s *Access) Sessions(ctx context.Context, actor Actor) (p api.Sessions, err error) {
	if actor.SessionID == 0 {
		return p, errNoSession
	}
	p.Sessions, err = s.sessions.Sessions(ctx, actor.UserID, s.now())
	for i := range p.Sessions {
		p.Sessions[i].Current = p.Sessions[i].ID == actor.SessionID
	}
	return p, err
}

// EndSession ends a session of the user who has signed in, at once here and within a
// second on other control planes. It returns EForbidden for API keys, ENotFound for an id
// that no session of the user has.
func (s *Access) EndSession(ctx context.Context, actor Actor, id int64) error {
	if actor.SessionID == 0 {
		return errNoSession
	}
	defer s.forget()
	ended, err := s.sessions.EndSession(ctx, actor.UserID, id)
	if err == nil && !ended {
		err = waypost.Errorf(waypost.ENotFound, "you have no session %d", id)
	}
	return err
}

// EndOtherSessions ends all sessions of the user except the actor's, like EndSession.
func (s *Access) EndOtherSessions(ctx context.Context, actor Actor) error {
	if actor.SessionID == 0 {
		return errNoSession
	}
	defer s.forget()
	return s.sessions.EndOtherSessions(ctx, actor.UserID, actor.SessionID)
}

// Me describes an actor to itself.
type Me struct {
	Actor       Actor
	Account     *Account // of the user; nil without one; without the password
	HasPassword bool
	Factor      *api.SecondFactorState // of a session's user; nil otherwise
	TimeZone    string                 // of the actor's workspace; "" without one
}

// Me returns the actor and its account.
func (s *Access) Me(ctx context.Context, actor Actor) (Me, error) {
	m := Me{Actor: actor}
	if actor.Workspace != 0 {
		w, err := s.workspaces.Workspace(ctx, actor.Workspace)
		if err != nil {
			return Me{}, err
		}
		m.TimeZone = w.Settings.TimeZone
	}
	if actor.UserID == 0 {
		return m, nil
	}
	account, found, err := s.sessions.AccountOf(ctx, actor.UserID)
	if err != nil {
		return Me{}, err
	}
	if !found {
		return Me{}, waypost.Errorf(waypost.EUnauthorized, "the account is no more")
	}
	m.Account, m.HasPassword = &account, account.Password != ""
	account.Password = ""
	if actor.SessionID != 0 {
		f, _, err := s.factors.SecondFactor(ctx, actor.UserID)
		if err != nil {
			return Me{}, err
		}
		m.Factor = &api.SecondFactorState{On: f.On, RecoveryCodesLeft: f.RecoveryCodes}
	}
	return m, nil
}

// ErrPassword says that the present password is missing or wrong.
var ErrPassword = waypost.Errorf(waypost.EForbidden, "current_password is wrong")

// ChangeMe changes the account of a session's user; a new password ends all other
// sessions and sign-in links. It returns EForbidden for API keys, and ErrPassword for a
// wrong present password.
func (s *Access) ChangeMe(ctx context.Context, actor Actor, c api.MeChange) (Me, error) {
	if actor.SessionID == 0 {
		return Me{}, waypost.Errorf(waypost.EForbidden, "changing your account needs a session")
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
		account, _, err := s.sessions.AccountOf(ctx, actor.UserID)
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
	defer s.forget()
	if err := s.sessions.ChangeSelf(ctx, actor, c.Name, hash, was); err != nil {
		return Me{}, err
	}
	return s.Me(ctx, actor)
}

// AcceptInvitation lets the owner of an account set its password, and returns the
// account. It returns EUnauthorized for an invitation that is not valid, EUnavailable
// when too many come at once.
func (s *Access) AcceptInvitation(ctx context.Context, token, password string) (Account, error) {
	bad := waypost.Errorf(waypost.EUnauthorized, "the invitation is not valid: it was used, has expired, or another took its place")
	if !ValidToken(invitationPrefix, token) {
		return Account{}, bad
	}
	hash := HashKey(token)
	account, found, err := s.sessions.Invited(ctx, hash)
	if err != nil {
		return Account{}, err
	}
	if !found {
		return Account{}, bad
	}
	if err := checkPassword(password); err != nil {
		return Account{}, err
	}
	made, err := s.passwords.hash(ctx, password)
	if err != nil {
		return Account{}, err
	}
	ok, err := s.sessions.AcceptInvitation(ctx, hash, made)
	if err == nil && !ok {
		err = bad
	}
	return account, err
}
