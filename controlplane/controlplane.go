// Package controlplane holds the rules of the control plane: how a link is
// created, found and deleted, how a region leases the counters that codes are
// minted from, and who may do what.
//
// It declares the small interfaces that it needs; PostgreSQL is in
// controlplane/postgres, the HTTP API in controlplane/httpapi, the rules for
// targets in controlplane/target.
package controlplane

import (
	"encoding/json"
	"fmt"
	"time"

	"waypost"
)

// Actor is who asks, as a credential on the connection says.
type Actor struct {
	Workspace waypost.WorkspaceID // 0: signed in, but in no workspace yet
	Slug      string              // of the workspace
	KeyID     int64               // 0: no key
	SessionID int64               // 0: no session
	UserID    int64               // who signed in, or owns the key; 0: nobody
	Role      Role                // of the user in the workspace; "" without a user
	Name      string              // of the key or user, for the audit log
	Scopes    []Scope             // what the key allows, and the role, where there is one
}

// Scope is something that an API key allows.
type Scope string

// The scopes of API keys.
const (
	ScopeLinksRead  Scope = "links:read"
	ScopeLinksWrite Scope = "links:write"
	ScopeAnalytics  Scope = "analytics:read"
	ScopeAdmin      Scope = "admin"
)

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

// CheckOperator says EForbidden to whoever may not look after the installation
// itself: that is for administrators of the default workspace, and its keys with the
// scope admin.
func (a Actor) CheckOperator() error {
	if a.Workspace != waypost.DefaultWorkspace || !a.Can(ScopeAdmin) {
		return waypost.Errorf(waypost.EForbidden, "this needs a key of the default workspace with the scope admin, or an administrator of it")
	}
	return nil
}

// NewLink is a wish for a link. Zero fields mean the default.
type NewLink struct {
	OriginalURL    string // required; judged by the target rules
	CustomCode     string
	Domain         string // host of the domain; "": the default one
	Dedupe         *bool  // the one link of the target, found or made; nil: as the workspace has it
	ExpiresAt      time.Time
	RedirectStatus int  // 301, 302, 307, 308; 0 means 302
	ForwardQuery   bool // add the visitor's query to the target's
	ForwardPath    bool // add what follows the code in the path to the target's
	Title          string
	Description    string
	Tags           []string
	Metadata       json.RawMessage // a JSON object
	CreatedBy      string
	Disabled       bool // the link answers 410 until it is enabled
}

func (n *NewLink) flags() (f waypost.LinkFlags) {
	if n.ForwardQuery {
		f |= waypost.ForwardQuery
	}
	if n.ForwardPath {
		f |= waypost.ForwardPath
	}
	return f
}

// Outcome is what became of one wish: a link, or the reason why not.
type Outcome struct {
	Link     waypost.Link
	Found    bool      // the link was there before: the one of its target
	Warnings []Warning // about a link that was made all the same
	Err      error
}

// Health is what /health tells.
type Health struct {
	Database    bool
	KeyPoolSize int64 // unissued counters of the region's live ranges
}
