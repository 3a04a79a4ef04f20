package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
)

// MaxMembers bounds the users of one workspace.
const MaxMembers = 1000

// Member describes a user to the administrators of a workspace.
type Member struct {
	UserID    int64
	Email     string
	Name      string
	Role      Role
	Disabled  bool
	Own       bool // the workspace manages the account; otherwise only operators do
	CreatedAt time.Time

	HasPassword  bool
	InvitedUntil time.Time // zero: there is no invitation
}

// NewMember is a request for a user in a workspace.
type NewMember struct {
	Email    string
	Name     string // default: the address
	Role     Role
	Password string // for operators alone; default: there is none, but an invitation

	// For the store.
	Hash       string           // of the password; "" when there is none
	Invitation StoredInvitation // when there is no password
	Known      bool             // the address may have an account, which then joins
}

// MemberChange changes a user of a workspace: nil fields stay as they are.
type MemberChange struct {
	Role *Role
	AccountChange
}

// MemberStore keeps the members of workspaces. A change that leaves a workspace without
// an administrator who can sign in is EConflict.
type MemberStore interface {
	// Members returns up to limit members with an id above after, by id.
	Members(ctx context.Context, ws waypost.WorkspaceID, after int64, limit int) ([]Member, error)

	// Member finds a member.
	Member(ctx context.Context, ws waypost.WorkspaceID, user int64) (Member, error)

	// AddMember creates an account in a workspace. It returns EConflict when the address
	// has an account, or the workspace has MaxMembers. With Known, the existing account
	// joins, and from then on only operators manage the account; AddMember returns
	// EConflict when it is a member already. If the account was created by a workspace
	// that is not the operators', its password and second factor are cleared, and the
	// invitation lets its owner set a new password. Invited reports whether the
	// invitation is valid.
	AddMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, n NewMember) (m Member, invited bool, err error)

	// ChangeMember changes a member. It changes the account only if the account is the
	// workspace's own or any is set, and returns EForbidden otherwise. A new password and
	// disabling end the user's sessions.
	ChangeMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64, c MemberChange, any bool) (Member, error)

	// RemoveMember ends a membership and the user's keys in the workspace, and the
	// account, when it is the workspace's own.
	RemoveMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64) error

	// InviteMember removes the password of a member's account, ends its sessions, and
	// stores the invitation. It returns EForbidden for an account that belongs to another
	// workspace, unless any may be invited.
	InviteMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64, i StoredInvitation, any bool) (Member, error)
}

// Members returns a page of the users of the actor's workspace, by id, after the cursor
// of an earlier page.
func (s *Workspaces) Members(ctx context.Context, actor Actor, limit int, cursor string) (members []Member, next string, err error) {
	after, err := s.administrator(actor, cursor)
	if err != nil {
		return nil, "", err
	}
	if members, err = s.members.Members(ctx, actor.Workspace, after, limit+1); err != nil {
		return nil, "", err
	}
	if len(members) > limit {
		members = members[:limit]
		next = WriteCursor(members[limit-1].UserID)
	}
	return members, next, nil
}

// Member finds a user of the actor's workspace.
func (s *Workspaces) Member(ctx context.Context, actor Actor, user int64) (Member, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, err
	}
	return s.members.Member(ctx, actor.Workspace, user)
}

// AddMember creates a user of the actor's workspace, and returns an invitation for the
// account's owner when there is no password. It returns EConflict when the address has an
// account, EForbidden for a password when the actor is no operator, because the address
// may belong to another person.
func (s *Workspaces) AddMember(ctx context.Context, actor Actor, n NewMember) (Member, Invitation, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, Invitation{}, err
	}
	return s.addMember(ctx, actor, actor.Workspace, n)
}

// AddMemberTo adds a user to any workspace, for operators. An existing account keeps its
// name. It keeps its password only if operators managed it, because another workspace
// may know the password.
func (s *Workspaces) AddMemberTo(ctx context.Context, actor Actor, ws waypost.WorkspaceID, n NewMember) (Member, Invitation, error) {
	none := func(err error) (Member, Invitation, error) { return Member{}, Invitation{}, err }
	if err := actor.CheckOperator(); err != nil {
		return none(err)
	}
	if _, err := s.workspaces.Workspace(ctx, ws); err != nil {
		return none(err)
	}
	email, err := ParseEmail(n.Email)
	if err != nil {
		return none(err)
	}
	known, err := s.accounts.Accounts(ctx, email, 0, 1)
	if err != nil {
		return none(err)
	}
	if n.Known = len(known) > 0; n.Known && (n.Password != "" || n.Name != "") {
		return none(waypost.Errorf(waypost.EConflict, "the address has an account already: leave out name and password"))
	}
	return s.addMember(ctx, actor, ws, n)
}

func (s *Workspaces) addMember(ctx context.Context, actor Actor, ws waypost.WorkspaceID, n NewMember) (Member, Invitation, error) {
	i, err := s.prepareMember(ctx, actor, &n)
	if err != nil {
		return Member{}, Invitation{}, err
	}
	defer s.access.forget()
	m, invited, err := s.members.AddMember(ctx, actor, ws, n)
	if err != nil || !invited {
		i = Invitation{}
	}
	return m, i, err
}

// prepareMember checks a request for a user, and hashes its password or creates an
// invitation.
func (s *Workspaces) prepareMember(ctx context.Context, actor Actor, n *NewMember) (i Invitation, err error) {
	if n.Email, err = ParseEmail(n.Email); err != nil {
		return i, err
	}
	if n.Name == "" {
		n.Name = n.Email[:min(len(n.Email), MaxName)]
	}
	if err := checkName(n.Name); err != nil {
		return i, err
	}
	if err := checkRole(n.Role); err != nil {
		return i, err
	}
	if n.Password == "" {
		i, n.Invitation, err = s.newInvitation()
		return i, err
	}
	if err := mayChoose(actor); err != nil {
		return i, err
	}
	if err := checkPassword(n.Password); err != nil {
		return i, err
	}
	n.Hash, err = s.access.passwords.hash(ctx, n.Password)
	n.Password = ""
	return i, err
}

// mayChoose returns EForbidden unless the actor may choose passwords of others.
func mayChoose(actor Actor) error {
	if actor.CheckOperator() != nil {
		return waypost.Errorf(waypost.EForbidden,
			"only operators choose passwords of others: leave it out, and hand over the invitation that you get")
	}
	return nil
}

func checkRole(r Role) error {
	if !slices.Contains(Roles(), r) {
		return waypost.Errorf(waypost.EInvalid, "role must be admin, member or viewer")
	}
	return nil
}

// ChangeMember changes a user of the actor's workspace. It returns EConflict for the last
// administrator, EForbidden for the account of a user in several workspaces, unless the
// actor is an operator.
func (s *Workspaces) ChangeMember(ctx context.Context, actor Actor, user int64, c MemberChange) (Member, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, err
	}
	if c == (MemberChange{}) {
		return Member{}, waypost.Errorf(waypost.EInvalid, "say what to change: role, name, disabled, password")
	}
	if c.Role != nil {
		if err := checkRole(*c.Role); err != nil {
			return Member{}, err
		}
	}
	if c.Password != nil {
		if err := mayChoose(actor); err != nil {
			return Member{}, err
		}
	}
	if err := s.prepareChange(ctx, &c.AccountChange); err != nil {
		return Member{}, err
	}
	defer s.access.forget()
	return s.members.ChangeMember(ctx, actor, actor.Workspace, user, c, actor.CheckOperator() == nil)
}

// RemoveMember takes a user out of the actor's workspace. It returns EConflict for the
// last administrator.
func (s *Workspaces) RemoveMember(ctx context.Context, actor Actor, user int64) error {
	if _, err := s.administrator(actor, ""); err != nil {
		return err
	}
	defer s.access.forget()
	return s.members.RemoveMember(ctx, actor, actor.Workspace, user)
}

// administrator returns EForbidden unless the actor is an administrator, and reads a
// cursor.
func (s *Workspaces) administrator(actor Actor, cursor string) (after int64, err error) {
	if actor.Workspace == 0 || !actor.Can(ScopeAdmin) {
		return 0, waypost.Errorf(waypost.EForbidden, "this is for administrators of the workspace")
	}
	return ReadCursor(cursor)
}

// InviteMember removes the password of a user of the actor's workspace, and returns an
// invitation to set another. It returns EForbidden for the account of a user in several
// workspaces, unless the actor is an operator.
func (s *Workspaces) InviteMember(ctx context.Context, actor Actor, user int64) (Member, Invitation, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, Invitation{}, err
	}
	i, stored, err := s.newInvitation()
	if err != nil {
		return Member{}, Invitation{}, err
	}
	defer s.access.forget()
	m, err := s.members.InviteMember(ctx, actor, actor.Workspace, user, stored, actor.CheckOperator() == nil)
	if err != nil {
		return Member{}, Invitation{}, err
	}
	return m, i, nil
}

// Invitation lets the owner of an account set its password, once, so that its creator
// does not know the password.
type Invitation struct {
	Token     string // to be shown once, and never stored
	ExpiresAt time.Time
}

// InvitationFor is the validity of an invitation.
const InvitationFor = 7 * 24 * time.Hour

// StoredInvitation is the stored part of an invitation.
type StoredInvitation struct {
	Hash  [32]byte
	Until time.Time
}

func (s *Workspaces) newInvitation() (Invitation, StoredInvitation, error) {
	token, err := NewToken(invitationPrefix)
	if err != nil {
		return Invitation{}, StoredInvitation{}, err
	}
	until := s.now().Add(InvitationFor).UTC().Truncate(time.Second)
	return Invitation{Token: token, ExpiresAt: until}, StoredInvitation{Hash: HashKey(token), Until: until}, nil
}
