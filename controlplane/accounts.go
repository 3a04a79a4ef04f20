package controlplane

import (
	"context"
	"time"

	"waypost"
)

// AccountInfo describes an account to operators.
type AccountInfo struct {
	UserID       int64
	Email        string
	Name         string
	Home         string // slug of the workspace that manages it; "": operators do
	Disabled     bool
	HasPassword  bool
	SecondFactor bool      // is on
	InvitedUntil time.Time // zero: there is no invitation
	CreatedAt    time.Time
	Affiliations []Affiliation // by slug; not with deleted workspaces
}

// AccountStore keeps the accounts of all workspaces that are not deleted.
type AccountStore interface {
	// Accounts returns up to limit accounts with an id above after, by id. With an
	// address it returns only the account of the address.
	Accounts(ctx context.Context, email string, after int64, limit int) ([]AccountInfo, error)

	// ChangeAccount changes an account of any workspace. It returns EConflict when a
	// workspace would lose its last administrator who can sign in.
	ChangeAccount(ctx context.Context, by Actor, user int64, c AccountChange) (AccountInfo, error)

	// InviteAccount removes the password of an account, ends its sessions, and stores the
	// invitation.
	InviteAccount(ctx context.Context, by Actor, user int64, i StoredInvitation) (AccountInfo, error)
}

// AccountChange changes an account: nil fields stay as they are. A new password and
// disabling end the user's sessions.
type AccountChange struct {
	Name     *string
	Disabled *bool
	Password *string // for the store, its hash
}

// Accounts returns a page of all accounts, by id, or the account of an address, for
// operators.
func (s *Workspaces) Accounts(ctx context.Context, actor Actor, email string, limit int, cursor string) (all []AccountInfo,
	next string, err error,
) {
	if err := actor.CheckOperator(); err != nil {
		return nil, "", err
	}
	after, err := ReadCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if email != "" {
		if email, err = ParseEmail(email); err != nil {
			return nil, "", err
		}
	}
	if all, err = s.accounts.Accounts(ctx, email, after, limit+1); err != nil {
		return nil, "", err
	}
	if len(all) > limit {
		all = all[:limit]
		next = WriteCursor(all[limit-1].UserID)
	}
	return all, next, nil
}

// ChangeAccount changes any account, for operators.
func (s *Workspaces) ChangeAccount(ctx context.Context, actor Actor, user int64, c AccountChange) (AccountInfo, error) {
	if err := actor.CheckOperator(); err != nil {
		return AccountInfo{}, err
	}
	if c == (AccountChange{}) {
		return AccountInfo{}, waypost.Errorf(waypost.EInvalid, "say what to change: name, disabled, password")
	}
	if err := s.prepareChange(ctx, &c); err != nil {
		return AccountInfo{}, err
	}
	defer s.access.forget()
	return s.accounts.ChangeAccount(ctx, actor, user, c)
}

// prepareChange checks a change of an account, and hashes its password.
func (s *Workspaces) prepareChange(ctx context.Context, c *AccountChange) error {
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return err
		}
	}
	if c.Password == nil {
		return nil
	}
	if err := checkPassword(*c.Password); err != nil {
		return err
	}
	hash, err := s.access.passwords.hash(ctx, *c.Password)
	c.Password = &hash
	return err
}

// InviteAccount removes the password of any account, and returns an invitation to set
// another, for operators.
func (s *Workspaces) InviteAccount(ctx context.Context, actor Actor, user int64) (AccountInfo, Invitation, error) {
	if err := actor.CheckOperator(); err != nil {
		return AccountInfo{}, Invitation{}, err
	}
	i, stored, err := s.newInvitation()
	if err != nil {
		return AccountInfo{}, Invitation{}, err
	}
	defer s.access.forget()
	a, err := s.accounts.InviteAccount(ctx, actor, user, stored)
	if err != nil {
		return AccountInfo{}, Invitation{}, err
	}
	return a, i, nil
}
