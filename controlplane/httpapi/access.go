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

	// AddMember makes a user, and gives the password when it made one up: EConflict
	// when the address has an account.
	AddMember(ctx context.Context, actor controlplane.Actor, n controlplane.NewMember) (m controlplane.Member, password string, err error)

	// ChangeMember and RemoveMember are EConflict for the last administrator.
	ChangeMember(ctx context.Context, actor controlplane.Actor, user int64, c controlplane.MemberChange) (controlplane.Member, error)
	RemoveMember(ctx context.Context, actor controlplane.Actor, user int64) error
}

// APIKeys answers for the keys of the actor's workspace.
type APIKeys interface {
	APIKeys(ctx context.Context, actor controlplane.Actor, limit int, cursor string) (keys []controlplane.KeyInfo, next string, err error)

	// CreateAPIKey and RotateAPIKey give the text of the key: EForbidden for scopes
	// that the actor has not, EConflict when a key was rotated before.
	CreateAPIKey(ctx context.Context, actor controlplane.Actor, n controlplane.NewAPIKey) (k controlplane.KeyInfo, key string, err error)
	RotateAPIKey(ctx context.Context, actor controlplane.Actor, id int64, grace time.Duration) (k controlplane.KeyInfo, key string, err error)
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
	AddMemberTo(ctx context.Context, actor controlplane.Actor, ws waypost.WorkspaceID, n controlplane.NewMember) (m controlplane.Member, password string, err error)
}

func (s *server) registerAccess() {
	if s.access == nil {
		return
	}
	s.registerSession()
	s.registerMe()
	s.registerWorkspace()
	s.registerUsers()
	s.registerAPIKeys()
	s.registerWorkspaces()
}

// pageInput asks for a page of a list.
type pageInput struct {
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
