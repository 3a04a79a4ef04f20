package httpapi

import (
	"context"
	"time"

	"waypost"
	"waypost/controlplane"
)

// Access answers for workspaces, users, sessions and API keys. All methods may be
// called by many goroutines at once; errors are as those of [Links]. What is of another
// workspace is ENotFound.
type Access interface {
	Sessions
	Members
	APIKeys
	Workspaces
	Accounts
}

// Sessions answers who somebody is.
type Sessions interface {
	// SignIn begins a session: EUnauthorized when the address or the password is
	// wrong, EUnavailable when too many try at once.
	SignIn(ctx context.Context, email, password string) (controlplane.SignedIn, error)

	// AuthenticateSession finds the actor of a session's token in a workspace, "" for
	// the user's only one: EUnauthorized when there is no such session, EForbidden for a
	// workspace that the user is not in.
	AuthenticateSession(ctx context.Context, token, workspace string) (controlplane.Actor, error)

	// AcceptInvitation lets the owner of an account set its password: EUnauthorized when
	// the invitation is not good, EUnavailable when too many come at once.
	AcceptInvitation(ctx context.Context, token, password string) (controlplane.Account, error)

	// SignOut ends the actor's session; EInvalid when that is none.
	SignOut(ctx context.Context, actor controlplane.Actor) error

	// Me tells who the actor is.
	Me(ctx context.Context, actor controlplane.Actor) (controlplane.Me, error)

	// ChangeMe changes the account of who has signed in.
	ChangeMe(ctx context.Context, actor controlplane.Actor, c controlplane.SelfChange) (controlplane.Me, error)
}

// Members answers for the users of the actor's workspace.
type Members interface {
	Members(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (members []controlplane.Member, next string, err error)
	Member(ctx context.Context, actor controlplane.Actor, user int64) (controlplane.Member, error)

	// AddMember makes a user, and gives an invitation when there is no password: EConflict
	// when the address has an account, EForbidden for a password by who is no operator.
	AddMember(ctx context.Context, actor controlplane.Actor, n controlplane.NewMember) (controlplane.Member, controlplane.Invitation, error)

	// InviteMember gives an invitation to set a password instead of the one that there is.
	InviteMember(ctx context.Context, actor controlplane.Actor, user int64) (controlplane.Member, controlplane.Invitation, error)

	// ChangeMember and RemoveMember are EConflict for the last administrator.
	ChangeMember(ctx context.Context, actor controlplane.Actor, user int64, c controlplane.MemberChange) (controlplane.Member, error)
	RemoveMember(ctx context.Context, actor controlplane.Actor, user int64) error
}

// APIKeys answers for the keys of the actor's workspace.
type APIKeys interface {
	APIKeys(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (keys []controlplane.KeyInfo, next string, err error)

	// CreateAPIKey and RotateAPIKey give the text of the key, unless the request has made it
	// before: EForbidden for scopes that the actor has not, EConflict when a key was rotated
	// before or there are too many.
	CreateAPIKey(ctx context.Context, actor controlplane.Actor, n controlplane.NewAPIKey, r *controlplane.KeyRequest) (controlplane.MadeKey, error)
	RotateAPIKey(ctx context.Context, actor controlplane.Actor, id int64, grace time.Duration, r *controlplane.KeyRequest) (controlplane.MadeKey, error)
	RevokeAPIKey(ctx context.Context, actor controlplane.Actor, id int64) error
}

// Workspaces answers for the actor's workspace and, to operators, for all.
type Workspaces interface {
	Workspace(ctx context.Context, actor controlplane.Actor) (controlplane.Workspace, error)
	ChangeWorkspace(ctx context.Context, actor controlplane.Actor, c controlplane.WorkspaceChange) (controlplane.Workspace, error)

	Workspaces(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (all []controlplane.Workspace, next string, err error)
	CreateWorkspace(ctx context.Context, actor controlplane.Actor, n controlplane.NewWorkspace) (controlplane.Workspace, error)
	ChangeWorkspaceOf(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID, c controlplane.WorkspaceChange) (controlplane.Workspace, error)

	// DeleteWorkspace is EConflict for the default workspace.
	DeleteWorkspace(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID) (controlplane.Workspace, error)

	// AddMemberTo puts a user into any workspace, also one that has an account.
	AddMemberTo(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID, n controlplane.NewMember) (controlplane.Member, controlplane.Invitation, error)
}

// Accounts answers for the accounts of all workspaces, to operators.
type Accounts interface {
	Accounts(ctx context.Context, actor controlplane.Actor, email string, limit int, cursor string) (all []controlplane.AccountInfo, next string, err error)
	ChangeAccount(ctx context.Context, actor controlplane.Actor, user int64, c controlplane.AccountChange) (controlplane.AccountInfo, error)
	InviteAccount(ctx context.Context, actor controlplane.Actor, user int64) (controlplane.AccountInfo, controlplane.Invitation, error)
}

func (s *server) registerAccess() {
	if s.access == nil {
		return
	}
	s.registerSession()
	s.registerMe()
	s.registerWorkspace()
	s.registerUsers()
	s.registerInvitation()
	s.registerAccounts()
	s.registerAPIKeys()
	s.registerWorkspaces()
}

// Paging asks for a page of a list. Its name is exported for huma, which passes over embedded fields that are not.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many at most."`
	Cursor string `query:"cursor" maxLength:"64" doc:"The next_cursor of the page before. Left out: the first page."`
}

// moment is nil for a time that is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
