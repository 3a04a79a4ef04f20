package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waypost/api"
)

// Session begins and ends sessions, and manages the own account.
type Session struct{ c *Client }

// SignIn begins a session.
func (s Session) SignIn(ctx context.Context, c SignIn) (SignedIn, error) {
	return ask[SignedIn](ctx, s.c, http.MethodPost, api.PathSession, c)
}

// SignOut ends the session of the client's token.
func (s Session) SignOut(ctx context.Context) error {
	return s.c.do(ctx, http.MethodDelete, api.PathSession, nil, nil)
}

// Sessions returns the sessions of the user who has signed in.
func (s Session) Sessions(ctx context.Context) (Sessions, error) {
	return ask[Sessions](ctx, s.c, http.MethodGet, api.PathSessions, nil)
}

// End ends a session of the user who has signed in.
func (s Session) End(ctx context.Context, id int64) error {
	return s.c.do(ctx, http.MethodDelete, api.PathSessions+"/"+decimal(id), nil, nil)
}

// EndOthers ends all sessions of the user except the session of the client's token.
func (s Session) EndOthers(ctx context.Context) error {
	return s.c.do(ctx, http.MethodDelete, api.PathSessions, nil, nil)
}

// Me describes the holder of the client's credential.
func (s Session) Me(ctx context.Context) (Me, error) {
	return ask[Me](ctx, s.c, http.MethodGet, api.PathMe, nil)
}

// ChangePassword changes the password of the user who has signed in.
func (s Session) ChangePassword(ctx context.Context, current, password string) error {
	var m Me
	return s.c.do(ctx, http.MethodPatch, api.PathMe, api.MeChange{CurrentPassword: current, Password: &password}, &m)
}

// AcceptInvitation sets the password of the account of an invitation.
func (s Session) AcceptInvitation(ctx context.Context, token, password string) (User, error) {
	return ask[User](ctx, s.c, http.MethodPost, api.PathInvitation, api.AcceptInvitation{Token: token, Password: password})
}

// Users manages the users of the workspace and, for operators, all accounts.
type Users struct{ c *Client }

// List returns a page of the workspace's users.
func (u Users) List(ctx context.Context, limit int, cursor string) (MemberPage, error) {
	return ask[MemberPage](ctx, u.c, http.MethodGet, api.PathUsers+"?"+page(limit, cursor), nil)
}

// Add creates a user of the workspace.
func (u Users) Add(ctx context.Context, n NewMember) (Member, error) {
	return ask[Member](ctx, u.c, http.MethodPost, api.PathUsers, n)
}

// AddTo adds a user to any workspace.
func (u Users) AddTo(ctx context.Context, workspace int64, n NewMember) (Member, error) {
	return ask[Member](ctx, u.c, http.MethodPost, api.PathAllWorkspaces+"/"+decimal(workspace)+"/users", n)
}

// Change changes a user.
func (u Users) Change(ctx context.Context, id int64, change MemberChange) (Member, error) {
	return ask[Member](ctx, u.c, http.MethodPatch, api.PathUsers+"/"+decimal(id), change)
}

// Invite lets a user set a new password.
func (u Users) Invite(ctx context.Context, id int64) (Member, error) {
	return ask[Member](ctx, u.c, http.MethodPost, api.PathUsers+"/"+decimal(id)+"/invitation", nil)
}

// Remove removes a user from the workspace.
func (u Users) Remove(ctx context.Context, id int64) error {
	return u.c.do(ctx, http.MethodDelete, api.PathUsers+"/"+decimal(id), nil, nil)
}

// Accounts returns a page of the users of all workspaces, or the one with an address.
func (u Users) Accounts(ctx context.Context, email string, limit int, cursor string) (AccountPage, error) {
	query := page(limit, cursor)
	if email != "" {
		query += "&email=" + url.QueryEscape(email)
	}
	return ask[AccountPage](ctx, u.c, http.MethodGet, api.PathAllUsers+"?"+query, nil)
}

// ResetSecondFactor turns off the second factor of any user.
func (u Users) ResetSecondFactor(ctx context.Context, id int64) (Account, error) {
	return ask[Account](ctx, u.c, http.MethodDelete, api.PathAllUsers+"/"+decimal(id)+"/second-factor", nil)
}

// ChangeAccount changes any user.
func (u Users) ChangeAccount(ctx context.Context, id int64, change AccountChange) (Account, error) {
	return ask[Account](ctx, u.c, http.MethodPatch, api.PathAllUsers+"/"+decimal(id), change)
}

// InviteAccount lets any user set a new password.
func (u Users) InviteAccount(ctx context.Context, id int64) (Account, error) {
	return ask[Account](ctx, u.c, http.MethodPost, api.PathAllUsers+"/"+decimal(id)+"/invitation", nil)
}

// Keys manages API keys.
type Keys struct{ c *Client }

// List returns a page of keys, newest first.
func (k Keys) List(ctx context.Context, limit int, cursor string) (KeyPage, error) {
	return ask[KeyPage](ctx, k.c, http.MethodGet, api.PathAPIKeys+"?"+page(limit, cursor), nil)
}

// Create creates a key.
func (k Keys) Create(ctx context.Context, n NewKey) (Key, error) {
	return ask[Key](ctx, k.c, http.MethodPost, api.PathAPIKeys, n)
}

// Rotate creates a key that replaces another, which stays valid for grace.
func (k Keys) Rotate(ctx context.Context, id int64, grace time.Duration) (Key, error) {
	path := api.PathAPIKeys + "/" + decimal(id) + "/rotate?grace=" + decimal(int64(grace/time.Second))
	return ask[Key](ctx, k.c, http.MethodPost, path, nil)
}

// Revoke ends a key.
func (k Keys) Revoke(ctx context.Context, id int64) error {
	return k.c.do(ctx, http.MethodDelete, api.PathAPIKeys+"/"+decimal(id), nil, nil)
}

// Workspaces manages workspaces.
type Workspaces struct{ c *Client }

// Get returns the workspace in which the client acts.
func (w Workspaces) Get(ctx context.Context) (Workspace, error) {
	return ask[Workspace](ctx, w.c, http.MethodGet, api.PathWorkspace, nil)
}

// Change changes the workspace in which the client acts, for id 0, or any.
func (w Workspaces) Change(ctx context.Context, id int64, change WorkspaceChange) (Workspace, error) {
	path := api.PathWorkspace
	if id != 0 {
		path = api.PathAllWorkspaces + "/" + decimal(id)
	}
	return ask[Workspace](ctx, w.c, http.MethodPatch, path, change)
}

// List returns a page of all workspaces.
func (w Workspaces) List(ctx context.Context, limit int, cursor string) (WorkspacePage, error) {
	return ask[WorkspacePage](ctx, w.c, http.MethodGet, api.PathAllWorkspaces+"?"+page(limit, cursor), nil)
}

// Create creates a workspace.
func (w Workspaces) Create(ctx context.Context, slug, name string) (Workspace, error) {
	return ask[Workspace](ctx, w.c, http.MethodPost, api.PathAllWorkspaces, api.NewWorkspace{Slug: slug, Name: name})
}

// Delete ends a workspace and all its links.
func (w Workspaces) Delete(ctx context.Context, id int64) (Workspace, error) {
	return ask[Workspace](ctx, w.c, http.MethodDelete, api.PathAllWorkspaces+"/"+decimal(id), nil)
}

// Domains manages domains.
type Domains struct{ c *Client }

// List lists the domains of the workspace and the shared ones, by id.
func (d Domains) List(ctx context.Context) ([]Domain, error) {
	answer, err := ask[api.DomainList](ctx, d.c, http.MethodGet, api.PathDomains, nil)
	return answer.Domains, err
}

// ListAll lists the domains of all workspaces, for operators.
func (d Domains) ListAll(ctx context.Context) ([]Domain, error) {
	answer, err := ask[api.DomainList](ctx, d.c, http.MethodGet, api.PathAllDomains, nil)
	return answer.Domains, err
}

// Verify looks for the proof of a domain now. Without it the answer is a [*Problem].
func (d Domains) Verify(ctx context.Context, id uint32) (Domain, error) {
	return ask[Domain](ctx, d.c, http.MethodPost, api.PathDomains+"/"+decimal(int64(id))+"/verify", nil)
}

// Approve serves a domain of any workspace without a proof, for operators.
func (d Domains) Approve(ctx context.Context, id uint32) (Domain, error) {
	return ask[Domain](ctx, d.c, http.MethodPost, api.PathAllDomains+"/"+decimal(int64(id))+"/approve", nil)
}

// Add adds a domain, which is pending until it was proved.
func (d Domains) Add(ctx context.Context, n NewDomain) (Domain, error) {
	return ask[Domain](ctx, d.c, http.MethodPost, api.PathDomains, n)
}

// Change changes the targets of a domain.
func (d Domains) Change(ctx context.Context, id uint32, change DomainChange) (Domain, error) {
	return ask[Domain](ctx, d.c, http.MethodPatch, api.PathDomains+"/"+decimal(int64(id)), change)
}

// Remove removes a domain, with force also its links.
func (d Domains) Remove(ctx context.Context, id uint32, force bool) error {
	return d.remove(ctx, api.PathDomains, id, force)
}

// RemoveAny removes a domain of any workspace, for operators.
func (d Domains) RemoveAny(ctx context.Context, id uint32, force bool) error {
	return d.remove(ctx, api.PathAllDomains, id, force)
}

func (d Domains) remove(ctx context.Context, path string, id uint32, force bool) error {
	return d.c.do(ctx, http.MethodDelete, path+"/"+decimal(int64(id))+"?force="+strconv.FormatBool(force), nil, nil)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func page(limit int, cursor string) string {
	return filled(map[string]string{"limit": strconv.Itoa(limit), "cursor": cursor}).Encode()
}

// filled returns the parameters of a query that have a value.
func filled(all map[string]string) url.Values {
	query := url.Values{}
	for name, value := range all {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}
