package controlplane

import (
	"fmt"

	"waypost"
)

// Actor identifies a caller by the credential of the request.
type Actor struct {
	Workspace waypost.WorkspaceID // 0: signed in, but in no workspace yet
	Slug      string              // of the workspace
	KeyID     int64               // 0: no key
	SessionID int64               // 0: no session
	UserID    int64               // user who signed in, or owns the key; 0: none
	Role      Role                // of the user in the workspace; "" without a user
	Name      string              // of the key or user, for the audit log
	Email     string              // of the user who signed in
	Scopes    []Scope             // allowed by the key and by the role, if there is one
}

// Scope is a permission of an API key.
type Scope string

// The scopes of API keys.
const (
	ScopeLinksRead  Scope = "links:read"
	ScopeLinksWrite Scope = "links:write"
	ScopeAnalytics  Scope = "analytics:read"
	ScopeAdmin      Scope = "admin"
)

// Scopes returns all scopes.
func Scopes() []Scope { return []Scope{ScopeLinksRead, ScopeLinksWrite, ScopeAnalytics, ScopeAdmin} }

// Can reports whether the actor's key allows s.
func (a Actor) Can(s Scope) bool {
	for _, have := range a.Scopes {
		if have == s || have == ScopeAdmin {
			return true
		}
	}
	return false
}

// Label names the actor in the audit log.
func (a Actor) Label() string {
	switch {
	case a.KeyID == 0 && a.UserID != 0:
		return fmt.Sprintf("%s (user %d)", a.Name, a.UserID)
	case a.KeyID == 0 && a.Name != "":
		return a.Name
	case a.KeyID == 0:
		return "development system"
	case a.UserID != 0:
		return fmt.Sprintf("%s (key %d of user %d)", a.Name, a.KeyID, a.UserID)
	case a.Name == "":
		return fmt.Sprintf("key %d", a.KeyID)
	}
	return fmt.Sprintf("%s (key %d)", a.Name, a.KeyID)
}

// Kind returns the kind of the actor for the history of links: user, key or system.
func (a Actor) Kind() string {
	switch {
	case a.KeyID != 0:
		return "key"
	case a.UserID != 0:
		return "user"
	}
	return "system"
}

// ID returns the id of the actor's key or user, 0 for the system.
func (a Actor) ID() int64 {
	if a.KeyID != 0 {
		return a.KeyID
	}
	return a.UserID
}

// Title returns the name of the actor for people, such as "Ada <ada@example.com>".
func (a Actor) Title() string {
	switch {
	case a.Kind() == "system":
		return a.Label()
	case a.Email == "":
		return a.Name
	case a.Name == "":
		return a.Email
	}
	return a.Name + " <" + a.Email + ">"
}

// CheckOperator returns EForbidden unless the actor may operate the installation:
// administrators of the default workspace may, and its keys with the scope admin.
func (a Actor) CheckOperator() error {
	if a.Workspace != waypost.DefaultWorkspace || !a.Can(ScopeAdmin) {
		return waypost.Errorf(waypost.EForbidden, "this needs a key of the default workspace with the scope admin, or an administrator of it")
	}
	return nil
}

// Role grants a user scopes in a workspace.
type Role string

// The roles of users.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
	RoleViewer Role = "viewer"
)

// Roles returns all roles, the most powerful first.
func Roles() []Role { return []Role{RoleAdmin, RoleMember, RoleViewer} }

// scopes returns the scopes of a role, none for an unknown one.
func (r Role) scopes() []Scope {
	switch r {
	case RoleAdmin:
		return []Scope{ScopeAdmin}
	case RoleMember:
		return []Scope{ScopeLinksRead, ScopeLinksWrite, ScopeAnalytics}
	case RoleViewer:
		return []Scope{ScopeLinksRead, ScopeAnalytics}
	}
	return nil
}

// within returns the scopes that both a key and the role of its owner allow.
func (r Role) within(key []Scope) []Scope {
	owner, holder := Actor{Scopes: r.scopes()}, Actor{Scopes: key}
	var both []Scope
	for _, s := range Scopes() {
		if owner.Can(s) && holder.Can(s) {
			both = append(both, s)
		}
	}
	return both
}
