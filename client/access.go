package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// SignedIn is the answer to a sign-in.
type SignedIn struct {
	Token      string        `json:"token"`
	ExpiresAt  time.Time     `json:"expires_at"`
	User       User          `json:"user"`
	Workspaces []Affiliation `json:"workspaces"`
}

// User is who signs in.
type User struct {
	ID    int64  `json:"id"`
	Email string `json:"email"`
	Name  string `json:"name"`
}

// Affiliation is a workspace that a user is in.
type Affiliation struct {
	Slug string `json:"slug"`
	Name string `json:"name"`
	Role string `json:"role"`
}

// Me is who the client is.
type Me struct {
	Credential string `json:"credential"`
	User       *User  `json:"user,omitempty"`
	Key        *struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
	} `json:"key,omitempty"`
	Workspace *struct {
		ID   int64  `json:"id"`
		Slug string `json:"slug"`
		Role string `json:"role"`
	} `json:"workspace,omitempty"`
	Scopes     []string      `json:"scopes"`
	Workspaces []Affiliation `json:"workspaces"`
}

// SignIn begins a session.
func (c *Client) SignIn(ctx context.Context, email, password string) (SignedIn, error) {
	var s SignedIn
	err := c.do(ctx, http.MethodPost, "/api/v1/session", map[string]string{"email": email, "password": password}, &s)
	return s, err
}

// SignOut ends the session whose token the client has.
func (c *Client) SignOut(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/api/v1/session", nil, nil)
}

// Me tells who the client is.
func (c *Client) Me(ctx context.Context) (Me, error) {
	var m Me
	err := c.do(ctx, http.MethodGet, "/api/v1/me", nil, &m)
	return m, err
}

// ChangePassword changes that of who has signed in.
func (c *Client) ChangePassword(ctx context.Context, current, password string) error {
	return c.do(ctx, http.MethodPatch, "/api/v1/me", map[string]string{"current_password": current, "password": password}, nil)
}

// Member is a user of the workspace.
type Member struct {
	ID        int64     `json:"id"`
	Email     string    `json:"email"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Disabled  bool      `json:"disabled"`
	Shared    bool      `json:"shared"`
	CreatedAt time.Time `json:"created_at"`

	HasPassword  *bool      `json:"has_password"` // nil: a control plane of before does not say
	InvitedUntil *time.Time `json:"invited_until"`

	Invitation *Invitation `json:"invitation,omitempty"`
}

// Invitation is with what the owner of an account sets its password.
type Invitation struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// MemberPage is a page of users.
type MemberPage struct {
	Users []Member `json:"users"`
	Next  string   `json:"next_cursor"`
}

// NewMember is a wish for a user.
type NewMember struct {
	Email    string `json:"email"`
	Name     string `json:"name,omitempty"`
	Role     string `json:"role"`
	Password string `json:"password,omitempty"`
}

// MemberChange says what to change: nil leaves a field as it is.
type MemberChange struct {
	Role     *string `json:"role,omitempty"`
	Name     *string `json:"name,omitempty"`
	Disabled *bool   `json:"disabled,omitempty"`
	Password *string `json:"password,omitempty"`
}

// Members gives a page of the workspace's users.
func (c *Client) Members(ctx context.Context, limit int, cursor string) (MemberPage, error) {
	var p MemberPage
	err := c.do(ctx, http.MethodGet, "/api/v1/users?"+page(limit, cursor), nil, &p)
	return p, err
}

// AddMember makes a user of the workspace.
func (c *Client) AddMember(ctx context.Context, n NewMember) (Member, error) {
	var m Member
	err := c.do(ctx, http.MethodPost, "/api/v1/users", n, &m)
	return m, err
}

// AddMemberTo puts a user into any workspace.
func (c *Client) AddMemberTo(ctx context.Context, workspace int64, n NewMember) (Member, error) {
	var m Member
	err := c.do(ctx, http.MethodPost, "/api/admin/workspaces/"+decimal(workspace)+"/users", n, &m)
	return m, err
}

// ChangeMember changes a user.
func (c *Client) ChangeMember(ctx context.Context, id int64, change MemberChange) (Member, error) {
	var m Member
	err := c.do(ctx, http.MethodPatch, "/api/v1/users/"+decimal(id), change, &m)
	return m, err
}

// InviteMember lets a user set a new password, instead of the old one.
func (c *Client) InviteMember(ctx context.Context, id int64) (Member, error) {
	var m Member
	err := c.do(ctx, http.MethodPost, "/api/v1/users/"+decimal(id)+"/invitation", nil, &m)
	return m, err
}

// AcceptInvitation sets the password of the account that an invitation is for.
func (c *Client) AcceptInvitation(ctx context.Context, token, password string) (User, error) {
	var u User
	err := c.do(ctx, http.MethodPost, "/api/v1/invitation", map[string]string{"token": token, "password": password}, &u)
	return u, err
}

// Account is a user as operators see one.
type Account struct {
	ID           int64         `json:"id"`
	Email        string        `json:"email"`
	Name         string        `json:"name"`
	Home         string        `json:"home"`
	Disabled     bool          `json:"disabled"`
	HasPassword  bool          `json:"has_password"`
	InvitedUntil *time.Time    `json:"invited_until"`
	CreatedAt    time.Time     `json:"created_at"`
	Workspaces   []Affiliation `json:"workspaces"`
	Invitation   *Invitation   `json:"invitation,omitempty"`
}

// AccountPage is a page of accounts.
type AccountPage struct {
	Users []Account `json:"users"`
	Next  string    `json:"next_cursor"`
}

// Accounts gives a page of the users of all workspaces, or the one of an address.
func (c *Client) Accounts(ctx context.Context, email string, limit int, cursor string) (AccountPage, error) {
	query := page(limit, cursor)
	if email != "" {
		query += "&email=" + url.QueryEscape(email)
	}
	var p AccountPage
	err := c.do(ctx, http.MethodGet, "/api/admin/users?"+query, nil, &p)
	return p, err
}

// ChangeAccount changes any user; the role is none of its fields.
func (c *Client) ChangeAccount(ctx context.Context, id int64, change MemberChange) (Account, error) {
	var a Account
	err := c.do(ctx, http.MethodPatch, "/api/admin/users/"+decimal(id), change, &a)
	return a, err
}

// InviteAccount lets any user set a new password, instead of the old one.
func (c *Client) InviteAccount(ctx context.Context, id int64) (Account, error) {
	var a Account
	err := c.do(ctx, http.MethodPost, "/api/admin/users/"+decimal(id)+"/invitation", nil, &a)
	return a, err
}

// RemoveMember takes a user out of the workspace.
func (c *Client) RemoveMember(ctx context.Context, id int64) error {
	return c.do(ctx, http.MethodDelete, "/api/v1/users/"+decimal(id), nil, nil)
}

// Key is an API key.
type Key struct {
	ID          int64      `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Prefix      string     `json:"prefix"`
	Scopes      []string   `json:"scopes"`
	OwnerID     *int64     `json:"owner_id"`
	OwnerEmail  string     `json:"owner_email"`
	RotatedFrom *int64     `json:"rotated_from"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
	LastUsedAt  *time.Time `json:"last_used_at"`
	Key         string     `json:"key,omitempty"` // its text, once
}

// KeyPage is a page of keys.
type KeyPage struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next_cursor"`
}

// NewKey is a wish for a key.
type NewKey struct {
	Name             string   `json:"name"`
	Description      string   `json:"description,omitempty"`
	Scopes           []string `json:"scopes"`
	ExpiresInSeconds int64    `json:"expires_in_seconds,omitempty"`
}

// Keys gives a page of keys, newest first.
func (c *Client) Keys(ctx context.Context, limit int, cursor string) (KeyPage, error) {
	var p KeyPage
	err := c.do(ctx, http.MethodGet, "/api/v1/keys?"+page(limit, cursor), nil, &p)
	return p, err
}

// CreateKey makes a key.
func (c *Client) CreateKey(ctx context.Context, n NewKey) (Key, error) {
	var k Key
	err := c.do(ctx, http.MethodPost, "/api/v1/keys", n, &k)
	return k, err
}

// RotateKey makes a key in place of another, which goes on for grace.
func (c *Client) RotateKey(ctx context.Context, id int64, grace time.Duration) (Key, error) {
	var k Key
	err := c.do(ctx, http.MethodPost, "/api/v1/keys/"+decimal(id)+"/rotate?grace="+decimal(int64(grace/time.Second)), nil, &k)
	return k, err
}

// RevokeKey ends a key.
func (c *Client) RevokeKey(ctx context.Context, id int64) error {
	return c.do(ctx, http.MethodDelete, "/api/v1/keys/"+decimal(id), nil, nil)
}

// Workspace is a workspace.
type Workspace struct {
	ID       int64  `json:"id"`
	Slug     string `json:"slug"`
	Name     string `json:"name"`
	Settings struct {
		Dedupe       bool   `json:"dedupe"`
		Events       string `json:"events"`
		EventsSample int    `json:"events_sample"`
	} `json:"settings"`
	State     string     `json:"state"`
	CreatedAt time.Time  `json:"created_at"`
	DeletedAt *time.Time `json:"deleted_at"`
}

// WorkspacePage is a page of workspaces.
type WorkspacePage struct {
	Workspaces []Workspace `json:"workspaces"`
	Next       string      `json:"next_cursor"`
}

// WorkspaceChange says what to change: nil leaves a field as it is.
type WorkspaceChange struct {
	Name     *string         `json:"name,omitempty"`
	Settings *SettingsChange `json:"settings,omitempty"`
}

// SettingsChange is part of a WorkspaceChange.
type SettingsChange struct {
	Dedupe       *bool   `json:"dedupe,omitempty"`
	Events       *string `json:"events,omitempty"`
	EventsSample *int    `json:"events_sample,omitempty"`
}

// Workspace gives the one that the client acts in.
func (c *Client) Workspace(ctx context.Context) (Workspace, error) {
	var w Workspace
	err := c.do(ctx, http.MethodGet, "/api/v1/workspace", nil, &w)
	return w, err
}

// ChangeWorkspace changes the one that the client acts in, for id 0, or any.
func (c *Client) ChangeWorkspace(ctx context.Context, id int64, change WorkspaceChange) (Workspace, error) {
	path := "/api/v1/workspace"
	if id != 0 {
		path = "/api/admin/workspaces/" + decimal(id)
	}
	var w Workspace
	err := c.do(ctx, http.MethodPatch, path, change, &w)
	return w, err
}

// Workspaces gives a page of all workspaces.
func (c *Client) Workspaces(ctx context.Context, limit int, cursor string) (WorkspacePage, error) {
	var p WorkspacePage
	err := c.do(ctx, http.MethodGet, "/api/admin/workspaces?"+page(limit, cursor), nil, &p)
	return p, err
}

// CreateWorkspace makes a workspace.
func (c *Client) CreateWorkspace(ctx context.Context, slug, name string) (Workspace, error) {
	body := map[string]string{"slug": slug}
	if name != "" {
		body["name"] = name
	}
	var w Workspace
	err := c.do(ctx, http.MethodPost, "/api/admin/workspaces", body, &w)
	return w, err
}

// DeleteWorkspace ends a workspace and all its links.
func (c *Client) DeleteWorkspace(ctx context.Context, id int64) (Workspace, error) {
	var w Workspace
	err := c.do(ctx, http.MethodDelete, "/api/admin/workspaces/"+decimal(id), nil, &w)
	return w, err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func page(limit int, cursor string) string {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return query.Encode()
}
