package controlplane

import (
	"context"

	"waypost"
	"waypost/api"
)

// AccountStore keeps the accounts of all workspaces that are not deleted.
type AccountStore interface {
	// Accounts returns up to limit accounts with an id above after, by id. With an
	// address it returns only the account of the address.
	Accounts(ctx context.Context, email string, after int64, limit int) ([]api.Account, error)

	// ChangeAccount changes an account of any workspace. It returns EConflict when a
	// workspace would lose its last administrator who can sign in. The password is a hash.
	ChangeAccount(ctx context.Context, by Actor, user int64, c api.AccountChange) (api.Account, error)

	// InviteAccount removes the password of an account, ends its sessions, and stores the
	// invitation.
	InviteAccount(ctx context.Context, by Actor, user int64, i StoredInvitation) (api.Account, error)
}

// Accounts returns a page of all accounts, by id, or the account of an address, for
// operators.
func (s *Workspaces) Accounts(ctx context.Context, actor Actor, email string, limit int, cursor string) (p api.AccountPage, err error) {
	if err := actor.CheckOperator(); err != nil {
		return p, err
	}
	if email != "" {
		if email, err = ParseEmail(email); err != nil {
			return p, err
		}
	}
	read := func(after int64, limit int) ([]api.Account, error) {
		return s.accounts.Accounts(ctx, email, after, limit)
	}
	p.Users, p.Next, err = page(limit, cursor, read, func(a *api.Account) int64 { return a.ID })
	return p, err
}

// ChangeAccount changes any account, for operators.
func (s *Workspaces) ChangeAccount(ctx context.Context, actor Actor, user int64, c api.AccountChange) (api.Account, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.Account{}, err
	}
	if c == (api.AccountChange{}) {
		return api.Account{}, waypost.Errorf(waypost.EInvalid, "say what to change: name, disabled, password")
	}
	if err := s.prepareChange(ctx, &c); err != nil {
		return api.Account{}, err
	}
	defer s.access.forget()
	return s.accounts.ChangeAccount(ctx, actor, user, c)
}

// prepareChange checks a change of an account, and hashes its password.
func (s *Workspaces) prepareChange(ctx context.Context, c *api.AccountChange) error {
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

// InviteAccount removes the password of any account, and returns it with an invitation to
// set another, for operators.
func (s *Workspaces) InviteAccount(ctx context.Context, actor Actor, user int64) (a api.Account, err error) {
	if err := actor.CheckOperator(); err != nil {
		return a, err
	}
	i, stored := s.newInvitation()
	defer s.access.forget()
	a, err = s.accounts.InviteAccount(ctx, actor, user, stored)
	a.Invitation = i
	return a, err
}
