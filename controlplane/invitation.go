package controlplane

import (
	"context"
	"time"

	"waypost"
)

// Invitation is with what the owner of an account sets its password, once: whoever made
// the account does not know that.
type Invitation struct {
	Token     string // to be shown once, and never stored
	ExpiresAt time.Time
}

// InvitationFor is how long an invitation is good.
const InvitationFor = 7 * 24 * time.Hour

// StoredInvitation is what is kept of an invitation.
type StoredInvitation struct {
	Hash  [32]byte
	Until time.Time
}

// InvitationStore keeps the invitations of accounts, one of each at most.
type InvitationStore interface {
	// Invited finds the account that an invitation is for, with its address and name alone.
	Invited(ctx context.Context, hash [32]byte) (Account, bool, error)

	// AcceptInvitation gives the account a password, and ends the invitation: false when it
	// is not good any more.
	AcceptInvitation(ctx context.Context, hash [32]byte, password string) (bool, error)

	// InviteMember takes the password from a member's account, ends its sessions, and lets
	// the invitation in. EForbidden for an account that the workspace does not look after,
	// unless any may be.
	InviteMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64, i StoredInvitation, any bool) (Member, error)

	// InviteAccount does so for any account.
	InviteAccount(ctx context.Context, by Actor, user int64, i StoredInvitation) (AccountInfo, error)
}

func (s *Service) newInvitation() (Invitation, StoredInvitation, error) {
	token, err := newToken(invitationPrefix)
	if err != nil {
		return Invitation{}, StoredInvitation{}, err
	}
	until := s.cfg.Now().Add(InvitationFor).UTC().Truncate(time.Second)
	return Invitation{Token: token, ExpiresAt: until}, StoredInvitation{Hash: HashKey(token), Until: until}, nil
}

// AcceptInvitation lets the owner of an account set its password, and gives the account.
// EUnauthorized for an invitation that is not good, EUnavailable when too many come at once.
func (s *Service) AcceptInvitation(ctx context.Context, token, password string) (Account, error) {
	bad := waypost.Errorf(waypost.EUnauthorized, "the invitation is not valid: it was used, has expired, or another took its place")
	if !validToken(invitationPrefix, token) {
		return Account{}, bad
	}
	hash := HashKey(token)
	account, found, err := s.access.Invited(ctx, hash)
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
	ok, err := s.access.AcceptInvitation(ctx, hash, made)
	if err == nil && !ok {
		err = bad
	}
	return account, err
}

// InviteMember takes the password of a user of the actor's workspace away, and gives an
// invitation to set another. EForbidden for the account of somebody who is in several
// workspaces, unless the actor is an operator.
func (s *Service) InviteMember(ctx context.Context, actor Actor, user int64) (Member, Invitation, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, Invitation{}, err
	}
	i, stored, err := s.newInvitation()
	if err != nil {
		return Member{}, Invitation{}, err
	}
	defer s.auth.forget()
	m, err := s.access.InviteMember(ctx, actor, actor.Workspace, user, stored, actor.CheckOperator() == nil)
	if err != nil {
		return Member{}, Invitation{}, err
	}
	return m, i, nil
}
