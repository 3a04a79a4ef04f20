package controlplane

import (
	"context"
	"crypto/rand"
	"math/big"
	"slices"
	"time"

	"waypost"
)

// Member is a user as the administrators of a workspace see one.
type Member struct {
	UserID    int64
	Email     string
	Name      string
	Role      Role
	Disabled  bool
	Own       bool // the workspace looks after the account; else only operators do
	CreatedAt time.Time
}

// NewMember is a wish for a user in a workspace.
type NewMember struct {
	Email    string
	Name     string // default: the address
	Role     Role
	Password string // default: one is made up

	Hash string // of the password, for the store
}

// MemberChange is what administrators change of a user: nil leaves it as it is.
type MemberChange struct {
	Role     *Role
	Name     *string
	Disabled *bool
	Password *string // for the store, its hash
}

func (c *MemberChange) account() bool { return c.Name != nil || c.Disabled != nil || c.Password != nil }

// MemberStore keeps who is in a workspace. Whatever takes the last administrator
// who can sign in from a workspace is EConflict.
type MemberStore interface {
	// Members gives up to limit members with an id above after, by id.
	Members(ctx context.Context, ws waypost.WorkspaceID, after int64, limit int) ([]Member, error)

	// Member finds one.
	Member(ctx context.Context, ws waypost.WorkspaceID, user int64) (Member, error)

	// AddMember makes an account and puts it into a workspace: EConflict when the
	// address has one. Without a Hash the account that there is gets in as it is, and from
	// then on operators alone look after it: EConflict when it is in there.
	AddMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, n NewMember) (Member, error)

	// ChangeMember changes a member. The account can be changed when it is the
	// workspace's own, or with any: EForbidden otherwise. A new password and disabling
	// end the user's sessions.
	ChangeMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64, c MemberChange, any bool) (Member, error)

	// RemoveMember ends a membership and the user's keys in the workspace, and the
	// account, when it is the workspace's own.
	RemoveMember(ctx context.Context, by Actor, ws waypost.WorkspaceID, user int64) error
}

// Members gives a page of the actor's workspace's users, by id, after the cursor of an earlier page.
func (s *Service) Members(ctx context.Context, actor Actor, limit int, cursor string) (members []Member, next string, err error) {
	after, err := s.administrator(actor, cursor)
	if err != nil {
		return nil, "", err
	}
	if members, err = s.access.Members(ctx, actor.Workspace, after, limit+1); err != nil {
		return nil, "", err
	}
	if len(members) > limit {
		members = members[:limit]
		next = writeCursor(members[limit-1].UserID)
	}
	return members, next, nil
}

// Member finds a user of the actor's workspace.
func (s *Service) Member(ctx context.Context, actor Actor, user int64) (Member, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, err
	}
	return s.access.Member(ctx, actor.Workspace, user)
}

// AddMember makes a user of the actor's workspace, and gives the password when it
// was made up. EConflict when the address has an account.
func (s *Service) AddMember(ctx context.Context, actor Actor, n NewMember) (m Member, password string, err error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, "", err
	}
	return s.addMember(ctx, actor, actor.Workspace, n)
}

// AddMemberTo puts a user into any workspace, for operators: an account that there
// is already keeps its name and password.
func (s *Service) AddMemberTo(ctx context.Context, actor Actor, ws waypost.WorkspaceID, n NewMember) (m Member, password string, err error) {
	if err := actor.CheckOperator(); err != nil {
		return Member{}, "", err
	}
	if _, err := s.access.Workspace(ctx, ws); err != nil {
		return Member{}, "", err
	}
	email, err := ParseEmail(n.Email)
	if err != nil {
		return Member{}, "", err
	}
	_, found, err := s.access.Account(ctx, email)
	if err != nil {
		return Member{}, "", err
	}
	if !found {
		return s.addMember(ctx, actor, ws, n)
	}
	if n.Password != "" || n.Name != "" {
		return Member{}, "", waypost.Errorf(waypost.EConflict, "the address has an account already: leave out name and password")
	}
	n.Email = email
	if err := checkRole(n.Role); err != nil {
		return Member{}, "", err
	}
	defer s.auth.forget()
	m, err = s.access.AddMember(ctx, actor, ws, n)
	return m, "", err
}

func (s *Service) addMember(ctx context.Context, actor Actor, ws waypost.WorkspaceID, n NewMember) (m Member, made string, err error) {
	if made, err = s.prepareMember(ctx, &n); err != nil {
		return Member{}, "", err
	}
	defer s.auth.forget()
	m, err = s.access.AddMember(ctx, actor, ws, n)
	return m, made, err
}

// prepareMember judges a wish for a user, and hashes its password; it gives one
// that it made up.
func (s *Service) prepareMember(ctx context.Context, n *NewMember) (made string, err error) {
	if n.Email, err = ParseEmail(n.Email); err != nil {
		return "", err
	}
	if n.Name == "" {
		n.Name = n.Email[:min(len(n.Email), MaxName)]
	}
	if err := checkName(n.Name); err != nil {
		return "", err
	}
	if err := checkRole(n.Role); err != nil {
		return "", err
	}
	if n.Password == "" {
		if made, err = makePassword(); err != nil {
			return "", err
		}
		n.Password = made
	}
	if err := checkPassword(n.Password); err != nil {
		return "", err
	}
	n.Hash, err = s.passwords.hash(ctx, n.Password)
	n.Password = ""
	return made, err
}

// makePassword makes a password of 119 random bits.
func makePassword() (string, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(62), big.NewInt(20), nil))
	if err != nil {
		return "", err
	}
	return base62(n, 20), nil
}

func checkRole(r Role) error {
	if !slices.Contains(Roles(), r) {
		return waypost.Errorf(waypost.EInvalid, "role must be admin, member or viewer")
	}
	return nil
}

// ChangeMember changes a user of the actor's workspace. EConflict for the last
// administrator, EForbidden for the account of somebody who is in several
// workspaces, unless the actor is an operator.
func (s *Service) ChangeMember(ctx context.Context, actor Actor, user int64, c MemberChange) (Member, error) {
	if _, err := s.administrator(actor, ""); err != nil {
		return Member{}, err
	}
	if c.Role == nil && !c.account() {
		return Member{}, waypost.Errorf(waypost.EInvalid, "say what to change: role, name, disabled, password")
	}
	if c.Role != nil {
		if err := checkRole(*c.Role); err != nil {
			return Member{}, err
		}
	}
	if c.Name != nil {
		if err := checkName(*c.Name); err != nil {
			return Member{}, err
		}
	}
	if c.Password != nil {
		if err := checkPassword(*c.Password); err != nil {
			return Member{}, err
		}
		hash, err := s.passwords.hash(ctx, *c.Password)
		if err != nil {
			return Member{}, err
		}
		c.Password = &hash
	}
	defer s.auth.forget()
	return s.access.ChangeMember(ctx, actor, actor.Workspace, user, c, actor.CheckOperator() == nil)
}

// RemoveMember takes a user out of the actor's workspace.
func (s *Service) RemoveMember(ctx context.Context, actor Actor, user int64) error {
	if _, err := s.administrator(actor, ""); err != nil {
		return err
	}
	defer s.auth.forget()
	return s.access.RemoveMember(ctx, actor, actor.Workspace, user)
}

// administrator says EForbidden to who is none, and reads a cursor.
func (s *Service) administrator(actor Actor, cursor string) (after int64, err error) {
	if actor.Workspace == 0 || !actor.Can(ScopeAdmin) {
		return 0, waypost.Errorf(waypost.EForbidden, "this is for administrators of the workspace")
	}
	return readCursor(cursor)
}
