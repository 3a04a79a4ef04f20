package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
	"waypost/api"
)

// MaxMembers bounds the users of one workspace.
const MaxMembers = 1000

// NewMember is a checked request for a user in a workspace. A password is for operators
// alone.
type NewMember struct {
	api.NewMember
	Hash       string           // of the password; "" when there is none
	Invitation StoredInvitation // when there is no password
	Known      bool             // the address may have an account, which then joins
}

// MemberStore keeps the members of workspaces. A change that leaves a workspace without
// an administrator who can sign in is EConflict.
type MemberStore interface {
	// Members returns up to limit members with an id above after, by id.
	Members(ctx context.Context, ws waypost.WorkspaceID, after int64, limit int) ([]api.Member, error)

	// Member finds a member.
	Member(ctx context.Context, ws waypost.WorkspaceID, user int64) (api.Member, error)

	// AddMember creates an account in a workspace. It returns EConflict when the address
	// has an account, or the workspace has MaxMembers. With Known, the existing account
	// joins, and from then on only operators manage the account; AddMember returns
	// EConflict when it is a member already. If the account was created by a workspace
	// that is not the operators', its password and second factor are cleared, and the
	// invitation lets its owner set a new password. Invited reports whether the
	// invitation is valid.
	AddMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, n NewMember) (m api.Member, invited bool, err error)

	// ChangeMember changes a member. It changes the account only if the account is the
	// workspace's own or any is set, and returns EForbidden otherwise. A new password and
	// disabling end the user's sessions.
	ChangeMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64, c api.MemberChange, any bool) (api.Member, error)

	// RemoveMember ends a membership and the user's keys in the workspace, and the
	// account, when it is the workspace's own.
	RemoveMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64) error

	// InviteMember removes the password of a member's account, ends its sessions, and
	// stores the invitation. It returns EForbidden for an account that belongs to another
	// workspace, unless any may be invited.
	InviteMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64, i StoredInvitation, any bool) (api.Member, error)
}

// Members returns a page of the users of the actor's workspace, by id, after the cursor
// of an earlier page.
func (s *Workspaces) Members(ctx context.Context, actor Actor, limit int, cursor string) (p api.MemberPage, err error) {
	if err := administrator(actor); err != nil {
		return p, err
	}
	read := func(after int64, limit int) ([]api.Member, error) {
		return s.members.Members(ctx, actor.Workspace, after, limit)
	}
	p.Users, p.Next, err = page(limit, cursor, read, func(m *api.Member) int64 { return m.ID })
	return p, err
}

// Member finds a user of the actor's workspace.
func (s *Workspaces) Member(ctx context.Context, actor Actor, user int64) (api.Member, error) {
	if err := administrator(actor); err != nil {
		return api.Member{}, err
	}
	return s.members.Member(ctx, actor.Workspace, user)
}

// AddMember creates a user of the actor's workspace, with an invitation for the account's
// owner when there is no password. It returns EConflict when the address has an account,
// EForbidden for a password when the actor is no operator, because the address may belong
// to another person.
func (s *Workspaces) AddMember(ctx context.Context, actor Actor, n api.NewMember) (api.Member, error) {
	if err := administrator(actor); err != nil {
		return api.Member{}, err
	}
	return s.addMember(ctx, actor, actor.Workspace, NewMember{NewMember: n})
}

// AddMemberTo adds a user to any workspace, for operators. An existing account keeps its
// name. It keeps its password only if operators managed it, because another workspace
// may know the password.
func (s *Workspaces) AddMemberTo(ctx context.Context, actor Actor, ws waypost.WorkspaceID, n api.NewMember) (m api.Member, err error) {
	if err := actor.CheckOperator(); err != nil {
		return m, err
	}
	if _, err := s.workspaces.Workspace(ctx, ws); err != nil {
		return m, err
	}
	email, err := ParseEmail(n.Email)
	if err != nil {
		return m, err
	}
	known, err := s.accounts.Accounts(ctx, email, 0, 1)
	if err != nil {
		return m, err
	}
	if len(known) > 0 && (n.Password != "" || n.Name != "") {
		return m, waypost.Errorf(waypost.EConflict, "the address has an account already: leave out name and password")
	}
	return s.addMember(ctx, actor, ws, NewMember{NewMember: n, Known: len(known) > 0})
}

func (s *Workspaces) addMember(ctx context.Context, actor Actor, ws waypost.WorkspaceID, n NewMember) (m api.Member, err error) {
	i, err := s.prepareMember(ctx, actor, &n)
	if err != nil {
		return m, err
	}
	defer s.access.forget()
	m, invited, err := s.members.AddMember(ctx, actor, ws, n)
	if invited {
		m.Invitation = i
	}
	return m, err
}

// prepareMember checks a request for a user, and hashes its password or creates an
// invitation.
func (s *Workspaces) prepareMember(ctx context.Context, actor Actor, n *NewMember) (i *api.Invitation, err error) {
	if n.Email, err = ParseEmail(n.Email); err != nil {
		return nil, err
	}
	if n.Name == "" {
		n.Name = n.Email[:min(len(n.Email), MaxName)]
	}
	if err := checkName(n.Name); err != nil {
		return nil, err
	}
	if err := checkRole(n.Role); err != nil {
		return nil, err
	}
	if n.Password == "" {
		i, n.Invitation = s.newInvitation()
		return i, nil
	}
	if err := mayChoose(actor); err != nil {
		return nil, err
	}
	if err := checkPassword(n.Password); err != nil {
		return nil, err
	}
	n.Hash, err = s.access.passwords.hash(ctx, n.Password)
	n.Password = ""
	return nil, err
}

// mayChoose returns EForbidden unless the actor may choose passwords of others.
func mayChoose(actor Actor) error {
	if actor.CheckOperator() != nil {
		return waypost.Errorf(waypost.EForbidden,
			"only operators choose passwords of others: leave it out, and hand over the invitation that you get")
	}
	return nil
}

func checkRole(role string) error {
	if !slices.Contains(Roles(), Role(role)) {
		return waypost.Errorf(waypost.EInvalid, "role must be admin, member or viewer")
	}
	return nil
}

// ChangeMember changes a user of the actor's workspace. It returns EConflict for the last
// administrator, EForbidden for the account of a user in several workspaces, unless the
// actor is an operator.
func (s *Workspaces) ChangeMember(ctx context.Context, actor Actor, user int64, c api.MemberChange) (m api.Member, err error) {
	if err := administrator(actor); err != nil {
		return m, err
	}
	if c == (api.MemberChange{}) {
		return m, waypost.Errorf(waypost.EInvalid, "say what to change: role, name, disabled, password")
	}
	if c.Role != nil {
		if err := checkRole(*c.Role); err != nil {
			return m, err
		}
	}
	if c.Password != nil {
		if err := mayChoose(actor); err != nil {
			return m, err
		}
	}
	if err := s.prepareChange(ctx, &c.AccountChange); err != nil {
		return m, err
	}
	defer s.access.forget()
	return s.members.ChangeMember(ctx, actor, actor.Workspace, user, c, actor.CheckOperator() == nil)
}

// RemoveMember takes a user out of the actor's workspace. It returns EConflict for the
// last administrator.
func (s *Workspaces) RemoveMember(ctx context.Context, actor Actor, user int64) error {
	if err := administrator(actor); err != nil {
		return err
	}
	defer s.access.forget()
	return s.members.RemoveMember(ctx, actor, actor.Workspace, user)
}

// administrator returns EForbidden unless the actor is an administrator.
func administrator(actor Actor) error {
	if actor.Workspace == 0 || !actor.Can(ScopeAdmin) {
		return waypost.Errorf(waypost.EForbidden, "this is for administrators of the workspace")
	}
	return nil
}

// InviteMember removes the password of a user of the actor's workspace, and returns the
// user with an invitation to set another. It returns EForbidden for the account of a user
// in several workspaces, unless the actor is an operator.
func (s *Workspaces) InviteMember(ctx context.Context, actor Actor, user int64) (m api.Member, err error) {
	if err := administrator(actor); err != nil {
		return m, err
	}
	i, stored := s.newInvitation()
	defer s.access.forget()
	m, err = s.members.InviteMember(ctx, actor, actor.Workspace, user, stored, actor.CheckOperator() == nil)
	m.Invitation = i
	return m, err
}

// InvitationFor is the validity of an invitation.
const InvitationFor = 7 * 24 * time.Hour

// StoredInvitation is the stored part of an invitation.
type StoredInvitation struct {
	Hash  [32]byte
	Until time.Time
}

// newInvitation lets the owner of an account set its password, once, so that its creator
// does not know the password.
func (s *Workspaces) newInvitation() (*api.Invitation, StoredInvitation) {
	token, until := NewToken(invitationPrefix), s.now().Add(InvitationFor).UTC().Truncate(time.Second)
	return &api.Invitation{Token: token, ExpiresAt: until}, StoredInvitation{Hash: HashKey(token), Until: until}
}
